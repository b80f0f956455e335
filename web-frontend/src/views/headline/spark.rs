//! The small line beside the headline: the recent course of one value.

use plotters::element::{PathElement, Polygon};
use plotters::style::Color;

use crate::axes::{round_up, stretches};
use crate::color::Rgb;
use crate::plot::{PlotError, document, rgb};

/// A line without axes, for the recent course of one value.
///
/// # Errors
/// Only if plotters' SVG backend fails, which writes to memory.
pub fn sparkline(
    values: &[Option<f64>],
    color: Rgb,
    (width, height): (u32, u32),
) -> Result<String, PlotError> {
    let top = round_up(values.iter().flatten().copied().fold(0.0, f64::max));
    let (right, bottom) = (width as i32 - 1, height as i32 - 1);
    let last = values.len().saturating_sub(1).max(1) as f64;
    let at = |(step, value): (usize, f64)| {
        let x = (step as f64 / last * f64::from(right)).round() as i32;
        let y = bottom - (value / top * f64::from(bottom - 2)).round() as i32;
        (x, y)
    };
    document((width, height), |area| {
        // Gaps cut the line.
        for steps in stretches(values.len(), |step| values[step].is_some()) {
            let line: Vec<(i32, i32)> = steps
                .map(|step| at((step, values[step].unwrap_or(0.0))))
                .collect();
            let (first, end) = (line[0].0, line[line.len() - 1].0);
            let mut ground = line.clone();
            ground.extend([(end, bottom), (first, bottom)]);
            area.draw(&Polygon::new(ground, rgb(color).mix(0.16).filled()))?;
            area.draw(&PathElement::new(line, rgb(color).stroke_width(2)))?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_cuts_the_line_and_nothing_is_drawn_of_nothing() {
        let values = [Some(1.0), Some(2.0), None, Some(3.0), Some(1.0)];
        let svg = sparkline(&values, Rgb(0, 0, 255), (100, 30)).unwrap();
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(sparkline(&[], Rgb(0, 0, 0), (10, 10)).is_ok());
    }
}
