//! A recording's playback as plain values: its state in words, its overview as a drawing. Pure.

use std::fmt::Write as _;

use metrics_common::Info;

/// Size of the drawing of the overview, in its own units; the page stretches it.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 100.0;

/// Whether a recording plays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlaybackMode {
    /// It plays.
    Playing,
    /// It is paused.
    #[default]
    Paused,
    /// It is at its end.
    Ended,
}

impl PlaybackMode {
    /// The mode of this name.
    pub fn named(name: &str) -> Option<PlaybackMode> {
        match name {
            "playing" => Some(PlaybackMode::Playing),
            "paused" => Some(PlaybackMode::Paused),
            "ended" => Some(PlaybackMode::Ended),
            _ => None,
        }
    }
}

/// The state of a recording's playback.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlaybackState {
    /// Begin, end and place on the axis of the recording, milliseconds.
    pub begin_ms: f64,
    /// See `begin_ms`.
    pub end_ms: f64,
    /// See `begin_ms`.
    pub position_ms: f64,
    /// Whether time goes on.
    pub mode: PlaybackMode,
    /// How many times as fast as it was recorded.
    pub speed: f64,
}

/// Networking's share over a recording, a value for each stretch of equal length.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overview {
    /// Where the first stretch begins on the axis, milliseconds.
    pub begin_ms: f64,
    /// Length of a stretch, milliseconds.
    pub step_ms: f64,
    /// Means, 0 to 1; `None` where there is none.
    pub mean: Vec<Option<f64>>,
    /// Largest values.
    pub peak: Vec<Option<f64>>,
    /// Recorded time of the first interval in each, milliseconds since the Unix epoch.
    pub time_ms: Vec<Option<f64>>,
}

impl Overview {
    /// The recorded time at a place of the axis, which differs where the clock was set.
    pub fn time_at(&self, axis_ms: f64) -> f64 {
        let stretch = ((axis_ms - self.begin_ms) / self.step_ms.max(1.0)).floor();
        let upto = (stretch.max(0.0) as usize).min(self.time_ms.len().saturating_sub(1));
        let so_far = self.time_ms.get(..=upto).unwrap_or_default();
        let last = so_far.iter().rposition(Option::is_some);
        match last.and_then(|at| Some((at, so_far[at]?))) {
            Some((at, time_ms)) => {
                let shift = time_ms - (self.begin_ms + at as f64 * self.step_ms);
                // Within a stretch it is the axis.
                if shift.abs() <= self.step_ms {
                    axis_ms
                } else {
                    axis_ms + shift
                }
            }
            None => axis_ms,
        }
    }

    /// The overview as a drawing without text, as wide as the recording is long.
    pub fn svg(&self, playback: &PlaybackState) -> String {
        let top = self.peak.iter().flatten().copied().fold(0.0, f64::max);
        let span_ms = (playback.end_ms - self.begin_ms).max(1.0);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" focusable=\"false\">"
        );
        for (class, values) in [("peak", &self.peak), ("mean", &self.mean)] {
            let _ = write!(svg, "<path class=\"{class}\" d=\"");
            for (at, value) in values.iter().enumerate() {
                let Some(value) = value.filter(|value| *value > 0.0) else {
                    continue;
                };
                let x =
                    |step: usize| (step as f64 * self.step_ms / span_ms * WIDTH).clamp(0.0, WIDTH);
                let height = value / top * HEIGHT;
                let (left, right) = (x(at), x(at + 1));
                let _ = write!(
                    svg,
                    "M{left:.1} {HEIGHT}V{:.1}H{right:.1}V{HEIGHT}Z",
                    HEIGHT - height
                );
            }
            svg.push_str("\"/>");
        }
        svg.push_str("</svg>");
        svg
    }
}

/// Of what it is a recording.
pub fn title(info: &Info) -> String {
    format!("of {}", info.hostname)
}

/// What the button does.
pub fn button(mode: PlaybackMode) -> &'static str {
    match mode {
        PlaybackMode::Playing => "Pause",
        PlaybackMode::Paused => "Play",
        PlaybackMode::Ended => "Play again",
    }
}

/// The state in words; nothing while it plays, or screen readers would never be silent.
pub fn state_text(mode: PlaybackMode) -> &'static str {
    match mode {
        PlaybackMode::Playing => "",
        PlaybackMode::Paused => "paused",
        PlaybackMode::Ended => "the recording ends here",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overview() -> Overview {
        Overview {
            begin_ms: 1_000.0,
            step_ms: 1_000.0,
            mean: vec![Some(0.1), None, Some(0.05)],
            peak: vec![Some(0.2), None, Some(0.1)],
            time_ms: vec![Some(1_500.0), None, Some(3_500.0)],
        }
    }

    #[test]
    fn the_course_is_as_wide_as_the_recording_and_has_no_ground_where_nothing_was_measured() {
        let playback = PlaybackState {
            begin_ms: 1_000.0,
            end_ms: 4_000.0,
            ..PlaybackState::default()
        };
        let svg = overview().svg(&playback);
        assert_eq!(svg.matches('M').count(), 4, "{svg}");
        assert!(svg.contains("M0.0 100V0.0H333.3V100Z"), "{svg}");
        assert!(svg.contains("M666.7 100V75.0H1000.0V100Z"), "{svg}");
        let empty = Overview::default().svg(&PlaybackState::default());
        assert!(empty.contains("d=\"\""), "{empty}");
    }

    #[test]
    fn a_place_is_said_in_recorded_time_where_the_clock_was_set() {
        let mut overview = overview();
        assert_eq!(overview.time_at(2_700.0), 2_700.0);
        overview.time_ms[2] = Some(50_000.0);
        assert_eq!(overview.time_at(3_200.0), 50_200.0);
        assert_eq!(Overview::default().time_at(7.0), 7.0);
    }

    #[test]
    fn the_button_says_what_it_does() {
        for (name, mode, word) in [
            ("playing", PlaybackMode::Playing, "Pause"),
            ("paused", PlaybackMode::Paused, "Play"),
            ("ended", PlaybackMode::Ended, "Play again"),
        ] {
            assert_eq!(PlaybackMode::named(name), Some(mode));
            assert_eq!(button(mode), word);
        }
        assert_eq!(PlaybackMode::named("rewinding"), None);
    }
}
