//! Buckets over time: for each step, the share of a point's packets in each power of two.

use metrics_common::history::History;
use metrics_common::latency::Point;
use metrics_common::latency::words::{POWERS, power_begin_ns, power_of, power_text, time};
use plotters::element::{PathElement, Rectangle, Text};
use plotters::style::Color;
use plotters::style::text_anchor::HPos;

use crate::axes::{PlotArea, draw_times, label_style, stretches};
use crate::color::Rgb;
use crate::plot::{PlotError, Theme, document, rgb};
use crate::timeline::{Frame, Times};

/// Smaller shares of packets are not drawn.
const LEAST_SHARE: f64 = 0.001;

/// The content of the drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct Heat {
    /// The time span.
    pub frame: Frame,
    /// What its time axis tells.
    pub times: Times,
    /// The range of displayed powers: first and end.
    pub powers: (usize, usize),
    /// The share for each step and power; empty if not measured.
    pub shares: Vec<Vec<f64>>,
    /// Median and 99th percentile of each step, nanoseconds.
    pub percentiles: [Vec<Option<f64>>; 2],
}

impl Heat {
    /// From the history of a point.
    pub fn of(
        history: &History,
        frame: Frame,
        point: Point,
        percentiles: [Vec<Option<f64>>; 2],
        times: Times,
    ) -> Self {
        let mut sums = vec![(0.0, Vec::new()); frame.steps];
        let grid = history.grid("latency");
        let layer = grid.and_then(|grid| grid.layer(point.slug()));
        if let Some((grid, layer)) = grid.zip(layer) {
            for column in 0..grid.columns() {
                let (begin, end) = grid.column_ms(column);
                if end <= frame.from_ms || begin >= frame.to_ms() {
                    continue;
                }
                let mut powers = [0.0; POWERS];
                let mut is_measured = false;
                for (row, bucket) in grid.rows().iter().enumerate() {
                    if let Some(share) = grid.cell(column, layer, row) {
                        is_measured = true;
                        powers[power_of(*bucket as usize).min(POWERS - 1)] += share;
                    }
                }
                let first = ((begin - frame.from_ms) / frame.step_ms).max(0.0) as usize;
                let last = ((end - 1.0 - frame.from_ms) / frame.step_ms).max(0.0) as usize;
                let steps = sums.iter_mut().take(last + 1).skip(first);
                for (weight, sum) in steps.filter(|_| is_measured) {
                    *weight += 1.0;
                    sum.resize(POWERS, 0.0);
                    sum.iter_mut()
                        .zip(powers)
                        .for_each(|(sum, share)| *sum += share);
                }
            }
        }
        let mean = |(weight, sum): (f64, Vec<f64>)| -> Vec<f64> {
            sum.into_iter().map(|share| share / weight).collect()
        };
        let shares: Vec<Vec<f64>> = sums.into_iter().map(mean).collect();
        let is_there = |power: &usize| {
            let of = |step: &Vec<f64>| step.get(*power).is_some_and(|share| *share >= LEAST_SHARE);
            shares.iter().any(of)
        };
        let first = (0..POWERS).find(is_there).unwrap_or(5);
        let last = (0..POWERS).rev().find(is_there).unwrap_or(15);
        Heat {
            frame,
            times,
            powers: (first, last + 1),
            shares,
            percentiles,
        }
    }

    /// The values of a step as text.
    pub fn step_text(&self, step: usize) -> String {
        let of = |which: usize| {
            let value = self.percentiles[which].get(step).copied().flatten();
            value.map_or("not measured".to_owned(), |ns| time(ns.round() as u64))
        };
        format!("half of the packets below {}, 99 % below {}", of(0), of(1))
    }

    /// The pixel of a latency.
    fn y(&self, plot: &PlotArea, ns: f64) -> i32 {
        let (first, end) = self.powers;
        let power = if ns < power_begin_ns(1) as f64 {
            0.5
        } else {
            1.0 + (ns / power_begin_ns(1) as f64).log2()
        };
        plot.y(power - first as f64, (end - first) as f64)
    }
}

/// The map as an SVG document of this size in pixels.
///
/// # Errors
/// Only if plotters' SVG backend fails, which writes to memory.
pub fn svg(heat: &Heat, color: Rgb, theme: Theme, size: (u32, u32)) -> Result<String, PlotError> {
    let plot = PlotArea::of(size);
    let (first, end) = heat.powers;
    let rows = (end - first) as f64;
    document(size, |area| {
        for (step, powers) in heat.shares.iter().enumerate() {
            let x = |step: usize| {
                let at = heat.frame.from_ms + heat.frame.step_ms * step as f64;
                plot.x_of(&heat.frame, at).round() as i32
            };
            for (power, share) in powers.iter().enumerate() {
                if *share < LEAST_SHARE || !(first..end).contains(&power) {
                    continue;
                }
                let y = |power: usize| plot.y((power - first) as f64, rows);
                let cell = [(x(step), y(power + 1)), (x(step + 1), y(power))];
                // Small shares are visible, too.
                let strength = 0.08 + 0.92 * share.min(1.0).sqrt();
                area.draw(&Rectangle::new(cell, rgb(color).mix(strength).filled()))?;
            }
        }
        let every = (end - first).div_ceil(6).max(1);
        for power in (first..end).step_by(every) {
            let y = plot.y((power - first) as f64, rows);
            let text = power_text(power);
            area.draw(&Text::new(
                text,
                (plot.left - 4, y - 4),
                label_style(theme, HPos::Right),
            ))?;
        }
        draw_times(area, plot, theme, &heat.frame, &heat.times, false)?;
        // The median is thin, the 99th percentile thick; each is named at its end.
        for ((percentile, name), width) in heat.percentiles.iter().zip(["p50", "p99"]).zip([1, 2]) {
            let mut end = None;
            for steps in stretches(percentile.len(), |step| percentile[step].is_some()) {
                let at = |step: usize| {
                    let middle = heat.frame.step_begin_ms(step) + heat.frame.step_ms / 2.0;
                    let x = plot.x_of(&heat.frame, middle).round() as i32;
                    (x, heat.y(&plot, percentile[step].unwrap_or(0.0)))
                };
                let points: Vec<(i32, i32)> = steps.map(at).collect();
                end = points.last().copied();
                area.draw(&PathElement::new(
                    points,
                    rgb(theme.muted).stroke_width(width),
                ))?;
            }
            if let Some((x, y)) = end {
                let label = label_style(theme, HPos::Right);
                area.draw(&Text::new(name, (x - 2, y - 9), label))?;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::super::model::percentiles;
    use super::super::model::tests::history;
    use super::*;
    use crate::fixture::FRAME;

    #[test]
    fn each_step_has_the_shares_of_its_powers_and_gaps_have_none() {
        let history = history(&[1, 2, 5, 6]);
        let point = Point::TcpSocketRead;
        let heat = Heat::of(
            &history,
            FRAME,
            point,
            percentiles(&history, &FRAME, point),
            Times::default(),
        );
        assert_eq!(heat.powers, (power_of(20), power_of(60) + 1));
        assert!((heat.shares[0][power_of(20)] - 0.99).abs() < 0.02);
        assert!((heat.shares[2][power_of(60)] - 0.01).abs() < 0.003);
        assert!(heat.shares[1].is_empty());
        let svg = svg(&heat, Rgb(1, 2, 3), Theme::LIGHT, (400, 150)).unwrap();
        // Two steps with two powers each.
        assert_eq!(svg.matches("#010203").count(), 4);
        assert!(heat.step_text(0).contains("1.9 µs") && heat.step_text(1).contains("not measured"));
    }
}
