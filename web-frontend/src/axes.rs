//! The plot area of a drawing over time, which the charts and the heat map share, so that a moment has the same pixel in all of them. Pure.

use std::ops::Range;

use crate::timeline::Frame;

/// Room for the labels of the value axis, and of the time axis, pixels.
pub const LEFT_PX: i32 = 44;
const BOTTOM_PX: i32 = 20;
const TOP_PX: i32 = 6;
const RIGHT_PX: i32 = 4;

/// The next of 1, 2, 3, 5, 10, 20… (and their tenths), with some air above the value.
pub fn round_up(value: f64) -> f64 {
    let wanted = (value * 1.05).max(0.01);
    let decade = 10_f64.powf(wanted.log10().floor());
    [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
        .map(|step| step * decade)
        .into_iter()
        .find(|&step| step >= wanted * 0.999_999)
        .unwrap_or(10.0 * decade)
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

    /// The moment at a pixel; outside of the area, that of the nearest edge.
    pub fn ms_at(&self, frame: &Frame, x: f64) -> f64 {
        let share = (x - f64::from(self.left)) / f64::from(self.right - self.left);
        frame.from_ms + share.clamp(0.0, 1.0) * (frame.to_ms() - frame.from_ms)
    }

    /// The pixel of a moment.
    pub fn x_of(&self, frame: &Frame, unix_ms: f64) -> f64 {
        let share = (unix_ms - frame.from_ms) / (frame.to_ms() - frame.from_ms);
        f64::from(self.left) + share * f64::from(self.right - self.left)
    }

    /// The pixel of a value, on an axis that ends at `top`.
    pub fn y(&self, value: f64, top: f64) -> i32 {
        let share = (value / top).clamp(0.0, 1.0);
        self.bottom - (share * f64::from(self.bottom - self.top)).round() as i32
    }
}

/// Stretches without a gap, as first and one past the last.
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
