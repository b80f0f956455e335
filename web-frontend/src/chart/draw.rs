//! Draws stacked areas over time on any plotters backend. Knows pixels and colours, but not the
//! source of values.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::element::Polygon;
use plotters::prelude::{DrawingArea, DrawingBackend};
use plotters::style::Color;

use crate::axes::{PlotArea, draw_times, draw_value_line, lines_below, round_up, stretches};
use crate::basis::{Amount, Basis};
use crate::color::Rgb;
use crate::plot::{PlotError, Theme, document, rgb};
use crate::timeline::{Frame, Times};

/// One series of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Slug of the component.
    pub key: String,
    /// Name for people.
    pub label: String,
    /// Its colour, the same everywhere.
    pub color: Rgb,
    /// CPU time in each step, as a number of CPUs; `None` if not measured.
    pub cpus: Vec<Option<f64>>,
    /// The same in the chart's unit, filled in by [`Chart::new`].
    pub values: Vec<Option<f64>>,
}

impl Layer {
    /// Its value in a step, in the chart's unit.
    pub fn value_at(&self, step: usize) -> Option<f64> {
        self.values.get(step).copied().flatten()
    }
}

/// The 95 % interval of one layer, or of all together, in a chart's unit, above what is below it.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    /// Whose interval it is.
    pub label: String,
    /// Lower and upper edge in each step; `None` without an interval.
    pub edges: Vec<Option<(f64, f64)>>,
}

/// A chart as plain values.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// The time span.
    pub frame: Frame,
    /// From the bottom upwards.
    pub layers: Vec<Layer>,
    /// The unit of its values.
    pub basis: Basis,
    /// CPUs of the host.
    pub host_cpus: f64,
    /// CPU time of the layers' whole in each step, as a number of CPUs.
    pub whole_cpus: Vec<Option<f64>>,
    /// The name of that whole.
    pub whole: String,
    /// End of the value axis.
    pub top: f64,
    /// What its time axis tells.
    pub times: Times,
    /// A wide interval.
    pub band: Option<Band>,
}

/// Half the width from which an interval is shown, as a share of the axis.
const WIDE: f64 = 0.05;

impl Chart {
    /// A chart whose axis ends at a round value above all of its values.
    pub fn new(
        frame: Frame,
        mut layers: Vec<Layer>,
        basis: Basis,
        (host_cpus, whole_cpus): (f64, Vec<Option<f64>>),
        whole: String,
        times: Times,
    ) -> Self {
        for layer in &mut layers {
            let steps = layer.cpus.iter().enumerate();
            let value = |(step, cpus): (usize, &Option<f64>)| {
                let parent_cpus = whole_cpus.get(step).copied().flatten();
                Some(basis.value(Amount {
                    cpus: (*cpus)?,
                    parent_cpus: parent_cpus.unwrap_or(0.0),
                    host_cpus,
                }))
            };
            layer.values = steps.map(value).collect();
        }
        let highest = (0..frame.steps)
            .filter_map(|step| sum_at(&layers, step))
            .fold(0.0, f64::max);
        let top = match basis.unit() {
            // A part is never more than its whole.
            "%" if highest < 100.01 => round_up(highest).min(100.0),
            _ => round_up(highest),
        };
        Chart {
            frame,
            layers,
            basis,
            host_cpus,
            whole_cpus,
            whole,
            top,
            times,
            band: None,
        }
    }

    /// The same with the interval of a layer, or of all together, if it is wide anywhere; bounds are
    /// numbers of CPUs.
    pub fn with_band(
        self,
        layer: Option<&str>,
        label: &str,
        bounds: &[Option<(f64, f64)>],
    ) -> Self {
        let edge = |(step, bounds): (usize, &Option<(f64, f64)>)| {
            let (low, high) = (*bounds)?;
            let below = layer.map_or(0.0, |key| {
                let lower = self.layers.iter().take_while(|lower| lower.key != key);
                lower.filter_map(|lower| lower.value_at(step)).sum()
            });
            let value = |cpus| self.basis.value(self.amount(cpus, step));
            Some((below + value(low), below + value(high)))
        };
        let edges: Vec<_> = bounds.iter().enumerate().map(edge).collect();
        let is_wide = |(low, high): &(f64, f64)| high - low > 2.0 * WIDE * self.top;
        let band = edges.iter().flatten().any(is_wide).then(|| Band {
            label: label.to_owned(),
            edges,
        });
        Chart { band, ..self }
    }

    /// So many CPUs with what they are compared with in a step.
    pub fn amount(&self, cpus: f64, step: usize) -> Amount {
        let parent_cpus = self.whole_cpus.get(step).copied().flatten();
        Amount {
            cpus,
            parent_cpus: parent_cpus.unwrap_or(0.0),
            host_cpus: self.host_cpus,
        }
    }

    /// The sum of all layers in a step; `None` if not measured.
    pub fn sum_at(&self, step: usize) -> Option<f64> {
        sum_at(&self.layers, step)
    }
}

impl Chart {
    /// The layer that is drawn at this value in a step.
    pub fn layer_at(&self, step: usize, value: f64) -> Option<&Layer> {
        let mut below = 0.0;
        self.layers.iter().find(|layer| {
            let height = layer.value_at(step).unwrap_or(0.0);
            let is_within = (below..below + height).contains(&value);
            below += height;
            is_within
        })
    }
}

fn sum_at(layers: &[Layer], step: usize) -> Option<f64> {
    let values = || layers.iter().filter_map(|layer| layer.value_at(step));
    values().next().map(|_| values().sum())
}

/// The chart as an SVG document of this size in pixels.
///
/// # Errors
/// Only if plotters' SVG backend fails, which writes to memory.
pub fn svg(chart: &Chart, theme: Theme, size: (u32, u32)) -> Result<String, PlotError> {
    document(size, |area| draw(area, chart, theme))
}

/// Draws a chart into an area of any size.
///
/// # Errors
/// Those of the backend.
pub fn draw<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    chart: &Chart,
    theme: Theme,
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
    let plot = PlotArea::of(area.dim_in_pixel());
    let lines = lines_below(chart.top, plot);
    for line in 0..=lines {
        let value = chart.top * f64::from(line) / f64::from(lines);
        let text = value_label(value, chart.top, chart.basis);
        draw_value_line(area, plot, theme, plot.y(value, chart.top), text)?;
    }
    draw_times(area, plot, theme, &chart.frame, &chart.times, true)?;
    let mut below = vec![0.0; chart.frame.steps];
    for layer in &chart.layers {
        let above: Vec<f64> = below
            .iter()
            .zip(&layer.values)
            .map(|(below, value)| below + value.unwrap_or(0.0))
            .collect();
        for steps in stretches(chart.frame.steps, |step| chart.sum_at(step).is_some()) {
            draw_area(area, chart, plot, rgb(layer.color), (&below, &above), steps)?;
        }
        below = above;
    }
    if let Some(band) = &chart.band {
        let edge = |of: fn(&(f64, f64)) -> f64| -> Vec<f64> {
            let edges = band.edges.iter();
            edges.map(|edges| edges.as_ref().map_or(0.0, of)).collect()
        };
        let (low, high) = (edge(|edges| edges.0), edge(|edges| edges.1));
        let haze = rgb(theme.ink).mix(HAZE);
        for steps in stretches(chart.frame.steps, |step| band.edges[step].is_some()) {
            draw_area(area, chart, plot, haze, (&low, &high), steps)?;
        }
    }
    area.present()
}

/// How opaque a band is.
const HAZE: f64 = 0.22;

fn draw_area<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    chart: &Chart,
    plot: PlotArea,
    color: impl Color,
    (below, above): (&[f64], &[f64]),
    steps: Range<usize>,
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
    let y = |value: f64| plot.y(value, chart.top);
    if !steps.clone().any(|step| y(below[step]) != y(above[step])) {
        return Ok(());
    }
    let x = |at: usize| {
        let ms = chart.frame.from_ms + chart.frame.step_ms * at as f64;
        plot.x_of(&chart.frame, ms).round() as i32
    };
    // A value is drawn at the middle of its step; the outermost ones extend to the edges.
    let points = |values: &[f64]| -> Vec<(i32, i32)> {
        let (first, last) = (steps.start, steps.end - 1);
        let middle = |step: usize| ((x(step) + x(step + 1)) / 2, y(values[step]));
        std::iter::once((x(first), y(values[first])))
            .chain(steps.clone().map(middle))
            .chain(std::iter::once((x(last + 1), y(values[last]))))
            .collect()
    };
    let mut outline = straightened(points(above));
    outline.extend(straightened(points(below)).into_iter().rev());
    area.draw(&Polygon::new(outline, color.filled()))
}

/// Removes points within horizontal lines.
fn straightened(points: Vec<(i32, i32)>) -> Vec<(i32, i32)> {
    let mut kept: Vec<(i32, i32)> = Vec::with_capacity(points.len());
    for point in points {
        if let [.., a, b] = kept[..]
            && a.1 == b.1
            && b.1 == point.1
        {
            kept.pop();
        }
        kept.push(point);
    }
    kept
}

/// A label of the value axis, with precision by the axis' length. It includes a percent sign; the
/// sentence below the chart tells other units.
fn value_label(value: f64, top: f64, basis: Basis) -> String {
    let decimals = match top {
        top if top >= 8.0 => 0,
        top if top >= 0.8 => 1,
        _ => 2,
    };
    let unit = match basis.unit() {
        "%" => " %",
        _ => "",
    };
    if value == 0.0 {
        "0".to_owned()
    } else if (value - value.round()).abs() < 1e-9 {
        format!("{value:.0}{unit}")
    } else {
        format!("{value:.0$}{unit}", decimals.max(1))
    }
}

#[cfg(test)]
mod tests;
