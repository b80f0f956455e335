//! One value over time as a line with axes. Knows pixels, but not the meaning of the value.

use plotters::element::PathElement;
use plotters::style::Color;

use crate::axes::{PlotArea, draw_times, draw_value_line, lines_below, round_up, stretches};
use crate::color::Rgb;
use crate::format;
use crate::plot::{PlotError, Theme, document, rgb};
use crate::timeline::{Frame, Times};
use metrics_common::sort::sort_by;

/// One value over time.
#[derive(Debug, Clone, PartialEq)]
pub struct LineChart {
    /// The time span.
    pub frame: Frame,
    /// The value in each step; `None` if not measured.
    pub values: Vec<Option<f64>>,
    /// What its time axis tells.
    pub times: Times,
}

impl LineChart {
    /// End of the value axis: above all values except the highest percent, which would compress the
    /// others.
    pub fn top(&self) -> f64 {
        let mut values: Vec<f64> = self.values.iter().flatten().copied().collect();
        sort_by(&mut values, f64::total_cmp);
        let high = values.len().saturating_sub(1 + values.len() / 100);
        round_up(values.get(high).copied().unwrap_or(0.0))
    }
}

/// The line as an SVG document of this size in pixels.
///
/// # Errors
/// Only if plotters' SVG backend fails, which writes to memory.
pub fn svg(
    line: &LineChart,
    color: Rgb,
    theme: Theme,
    size: (u32, u32),
) -> Result<String, PlotError> {
    let (plot, top) = (PlotArea::of(size), line.top());
    let lines = lines_below(top, plot);
    document(size, |area| {
        for number in 0..=lines {
            let value = top * f64::from(number) / f64::from(lines);
            let text = label(value, top);
            draw_value_line(area, plot, theme, plot.y(value, top), text)?;
        }
        draw_times(area, plot, theme, &line.frame, &line.times, false)?;
        let at = |step: usize| {
            let middle = line.frame.step_begin_ms(step) + line.frame.step_ms / 2.0;
            let x = plot.x_of(&line.frame, middle).round() as i32;
            (x, plot.y(line.values[step].unwrap_or(0.0), top))
        };
        for steps in stretches(line.values.len(), |step| line.values[step].is_some()) {
            let mut points: Vec<(i32, i32)> = steps.map(at).collect();
            // A single value between gaps is visible, too.
            if let [(x, y)] = points[..] {
                points.push((x + 2, y));
            }
            area.draw(&PathElement::new(points, rgb(color).stroke_width(2)))?;
        }
        Ok(())
    })
}

/// A value of the axis, with as many decimals as its lines need.
fn label(value: f64, top: f64) -> String {
    match top {
        _ if value == 0.0 => "0".to_owned(),
        high if high >= 20.0 => format::count(value.round() as u64),
        high if high >= 2.0 => format!("{value:.1}"),
        high if high >= 0.2 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(values: Vec<Option<f64>>) -> LineChart {
        LineChart {
            frame: Frame {
                from_ms: 0.0,
                step_ms: 1_000.0,
                steps: values.len(),
            },
            values,
            times: Times::default(),
        }
    }

    fn drawn(line: &LineChart) -> String {
        svg(line, Rgb(1, 2, 3), Theme::LIGHT, (400, 150)).unwrap()
    }

    #[test]
    fn gaps_cut_the_line_and_a_value_alone_is_drawn() {
        let with_gap = line(vec![Some(1_000.0), Some(1_100.0), None, Some(900.0)]);
        let lines = |line: &LineChart| drawn(line).matches("#010203").count();
        assert_eq!(lines(&with_gap), 2);
        assert_eq!(lines(&line(vec![None; 5])), 0);
    }

    #[test]
    fn one_value_far_above_presses_no_others_down() {
        let mut values = vec![Some(2_000.0); 200];
        values[7] = Some(1e9);
        assert_eq!(line(values).top(), 3_000.0);
        assert!(line(vec![None]).top() > 0.0);
    }
}
