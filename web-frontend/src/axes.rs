//! The plot area of a drawing over time, shared by charts and heat map, so that a time has the same
//! pixel in all of them. Pure.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::element::{PathElement, Rectangle, Text};
use plotters::prelude::{DrawingArea, DrawingBackend};
use plotters::style::text_anchor::HPos;
use plotters::style::{Color, FontStyle, ShapeStyle, TextStyle};

use crate::color::Rgb;
use crate::plot::{FONT_PX, Theme, rgb, text_style, text_width_px};
use crate::timeline::{self, Frame, Times};

/// Space for the labels of the value axis, and of the time axis, pixels.
pub const LEFT_PX: i32 = 44;
const BOTTOM_PX: i32 = 20;
const TOP_PX: i32 = 6;
const RIGHT_PX: i32 = 4;
/// Of marked spans, on a light and a dark page.
const MARK: Rgb = Rgb(0xd9, 0x48, 0x2b);

/// The next of 1, 2, 3, 5, 10, 20… (and their tenths), with some air above the value.
pub fn round_up(value: f64) -> f64 {
    let wanted = (value * 1.05).max(0.01);
    let decade = 10_f64.powi(wanted.log10().floor() as i32);
    [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
        .map(|step| step * decade)
        .into_iter()
        .find(|&step| step >= wanted * 0.999_999)
        .unwrap_or(10.0 * decade)
}

/// Number of grid divisions of an axis that ends here, so that its labels are round, too.
pub fn lines_below(top: f64, plot: PlotArea) -> u32 {
    let is_tall = plot.bottom - plot.top > 90;
    let first_digits = (top / 10_f64.powi(top.log10().floor() as i32) * 10.0).round() as u32;
    match (first_digits, is_tall) {
        (15 | 30 | 60, _) => 3,
        (20 | 40 | 80, true) => 4,
        (_, true) => 5,
        (20 | 40 | 80, false) => 2,
        (_, false) => 1,
    }
}

/// The part of a drawing inside its axes, pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlotArea {
    /// Left edge.
    pub left: i32,
    /// Right edge.
    pub right: i32,
    /// Upper edge.
    pub top: i32,
    /// Lower edge.
    pub bottom: i32,
}

impl PlotArea {
    /// The plot area of a drawing of this size.
    pub fn of((width, height): (u32, u32)) -> Self {
        let right = (width as i32 - RIGHT_PX).max(LEFT_PX + 1);
        PlotArea {
            left: LEFT_PX,
            right,
            top: TOP_PX,
            bottom: (height as i32 - BOTTOM_PX).max(TOP_PX + 1),
        }
    }

    /// The time at a pixel; outside of the area, that of the nearest edge.
    pub fn ms_at(&self, frame: &Frame, x: f64) -> f64 {
        let share = (x - f64::from(self.left)) / f64::from(self.right - self.left);
        frame.from_ms + share.clamp(0.0, 1.0) * (frame.to_ms() - frame.from_ms)
    }

    /// The pixel of a time.
    pub fn x_of(&self, frame: &Frame, unix_ms: f64) -> f64 {
        let share = (unix_ms - frame.from_ms) / (frame.to_ms() - frame.from_ms);
        f64::from(self.left) + share * f64::from(self.right - self.left)
    }

    /// The value at a pixel, on an axis that ends at `top`.
    pub fn value_at(&self, y: f64, top: f64) -> f64 {
        (f64::from(self.bottom) - y) / f64::from(self.bottom - self.top) * top
    }

    /// The pixel of a value, on an axis that ends at `top`.
    pub fn y(&self, value: f64, top: f64) -> i32 {
        let share = (value / top).clamp(0.0, 1.0);
        self.bottom - (share * f64::from(self.bottom - self.top)).round() as i32
    }
}

pub(crate) fn label_style(theme: Theme, anchor: HPos) -> TextStyle<'static> {
    text_style(FONT_PX - 1, FontStyle::Normal, theme.muted, anchor)
}

/// Draws a grid line at a value, with its label to the left.
pub(crate) fn draw_value_line<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    plot: PlotArea,
    theme: Theme,
    y: i32,
    text: String,
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
    let line = vec![(plot.left, y), (plot.right, y)];
    area.draw(&PathElement::new(line, grid_style(theme)))?;
    let label = label_style(theme, HPos::Right);
    area.draw(&Text::new(text, (plot.left - 6, y), label))
}

/// Draws times below the plot area, optionally grid lines at them, and marked spans, which are barred above
/// the area.
pub(crate) fn draw_times<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    plot: PlotArea,
    theme: Theme,
    frame: &Frame,
    times: &Times,
    has_lines: bool,
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
    let most = ((plot.right - plot.left) / 72).max(1) as usize;
    for mark in &times.marks {
        let x = |ms: f64| plot.x_of(frame, ms.clamp(frame.from_ms, frame.to_ms())) as i32;
        if mark.to_ms > frame.from_ms && mark.from_ms < frame.to_ms() {
            // The shortest is seen, too.
            let (from, to) = (x(mark.from_ms), x(mark.to_ms).max(x(mark.from_ms) + 2));
            let (band, bar) = ((plot.top, plot.bottom), (plot.top - 5, plot.top - 2));
            for ((top, bottom), strength) in [(band, 0.15), (bar, 1.0)] {
                let style = rgb(MARK).mix(strength).filled();
                area.draw(&Rectangle::new([(from, top), (to, bottom)], style))?;
            }
            // To the left of its begin, if it does not fit to the right.
            let is_at_left = f64::from(from) + text_width_px(&mark.label) > f64::from(plot.right);
            let (x, anchor) = match (is_at_left, has_lines) {
                (true, true) => (from - 4, HPos::Right),
                (false, true) => (from + 4, HPos::Left),
                (_, false) => continue,
            };
            let style = text_style(FONT_PX - 1, FontStyle::Bold, theme.ink, anchor);
            area.draw(&Text::new(mark.label.as_str(), (x, plot.top + 8), style))?;
        }
    }
    for (at, text) in timeline::ticks(frame, most, times.offset_ms) {
        let x = plot.x_of(frame, at) as i32;
        if has_lines {
            let line = vec![(x, plot.top), (x, plot.bottom)];
            area.draw(&PathElement::new(line, grid_style(theme)))?;
        }
        // Labels that an edge would cut are omitted.
        if x > plot.left + 14 && x < plot.right - 22 {
            let label = label_style(theme, HPos::Center);
            area.draw(&Text::new(text, (x, plot.bottom + 11), label))?;
        }
    }
    Ok(())
}

fn grid_style(theme: Theme) -> ShapeStyle {
    rgb(theme.empty).mix(0.7).stroke_width(1)
}

/// Ranges without a gap, as first index and end.
pub fn stretches(length: usize, is_there: impl Fn(usize) -> bool) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for at in (0..length).filter(|&at| is_there(at)) {
        match found.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => found.push(at..at + 1),
        }
    }
    found
}
