//! The history in steps of one or two pixels, with the mean of every series in each step. Pure.
//!
//! Steps begin at multiples of their length since the epoch, so that a chart keeps its shape while
//! it moves.

use metrics_common::Info;
use metrics_common::confidence::{self, Sums};
use metrics_common::history::History;

use crate::state::TimeRange;

/// Lengths of a step, seconds; the chosen one is at least the data's resolution.
const STEPS_SECONDS: [f64; 12] = [
    0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];

/// The least part of a step that is covered by points where it has a value.
const LEAST_COVERED: f64 = 0.1;

/// A time span in equal steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Frame {
    /// Begin, milliseconds since the Unix epoch; a multiple of the step.
    pub from_ms: f64,
    /// Length of a step, milliseconds.
    pub step_ms: f64,
    /// Number of steps.
    pub steps: usize,
}

impl Frame {
    /// The span and steps to show of a history. `least_ms` is the length below which steps would
    /// often be empty.
    pub fn of(range: TimeRange, latest_ms: f64, least_ms: f64, most_steps: usize) -> Self {
        let wanted = (range.span_ms / most_steps.max(1) as f64).max(least_ms) / 1e3;
        let step_ms = STEPS_SECONDS
            .iter()
            .find(|step| **step >= wanted * 0.999)
            .map_or(wanted.ceil(), |step| *step)
            * 1e3;
        let end = match range.until_ms() {
            // A live chart ends with the last complete step.
            None => (latest_ms / step_ms).floor(),
            Some(until) => (until / step_ms).ceil(),
        };
        let steps = (range.span_ms / step_ms).round().max(2.0);
        Frame {
            from_ms: (end - steps) * step_ms,
            step_ms,
            steps: steps as usize,
        }
    }

    /// End, milliseconds since the Unix epoch.
    pub fn to_ms(&self) -> f64 {
        self.from_ms + self.step_ms * self.steps as f64
    }

    /// Begin of a step.
    pub fn step_begin_ms(&self, step: usize) -> f64 {
        self.from_ms + self.step_ms * step as f64
    }

    /// One of its steps alone.
    pub fn only(&self, step: usize) -> Frame {
        Frame {
            from_ms: self.step_begin_ms(step),
            steps: 1,
            ..*self
        }
    }

    /// The step at a time.
    pub fn step_at(&self, unix_ms: f64) -> Option<usize> {
        let step = ((unix_ms - self.from_ms) / self.step_ms).floor();
        (step >= 0.0 && step < self.steps as f64).then_some(step as usize)
    }
}

/// A span of time that is marked in drawings, milliseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// What it is, in a few words.
    pub label: String,
    /// Its begin.
    pub from_ms: f64,
    /// Its end; infinite while it lasts.
    pub to_ms: f64,
}

/// What a time axis tells beside its span.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Times {
    /// Offset of the reader's clock from UTC, milliseconds.
    pub offset_ms: f64,
    /// Marked spans.
    pub marks: Vec<Mark>,
}

/// The mean of a series in each step; `None` without values.
pub fn means(
    history: &History,
    frame: &Frame,
    value: impl Fn(usize) -> Option<f64>,
) -> Vec<Option<f64>> {
    let mut sums = vec![(0.0, 0.0); frame.steps];
    for point in history.point_after(frame.from_ms)..history.points() {
        let (begin, end) = history.point_ms(point);
        if begin >= frame.to_ms() {
            break;
        }
        let Some(value) = value(point) else { continue };
        // A point longer than a step counts in each step that it covers.
        let first = ((begin - frame.from_ms) / frame.step_ms).floor().max(0.0) as usize;
        let last = ((end - 1.0 - frame.from_ms) / frame.step_ms)
            .floor()
            .max(0.0) as usize;
        for (step, sum) in sums.iter_mut().enumerate().take(last + 1).skip(first) {
            let from = frame.step_begin_ms(step);
            let share = (end.min(from + frame.step_ms) - begin.max(from)).max(0.0);
            sum.0 += value * share;
            sum.1 += share;
        }
    }
    // A step that is mostly uncovered has no mean.
    sums.into_iter()
        .map(|(sum, covered)| (covered > frame.step_ms * LEAST_COVERED).then(|| sum / covered))
        .collect()
}

/// The 95 % interval of a component in each step, as numbers of CPUs; `None` where it has none.
pub fn intervals(
    info: &Info,
    history: &History,
    frame: &Frame,
    cpus: usize,
    component: usize,
) -> Vec<Option<(f64, f64)>> {
    let interval = |step| {
        let from_ms = frame.step_begin_ms(step);
        let stretch = history.stretch(from_ms, from_ms + frame.step_ms, cpus);
        let covered_ns = stretch.capacity_ns() as f64 / cpus.max(1) as f64;
        let (low, high) = confidence::of_sums(info, &stretch, component)?;
        let is_covered = covered_ns > frame.step_ms * LEAST_COVERED * 1e6;
        is_covered.then(|| (low as f64 / covered_ns, high as f64 / covered_ns))
    };
    (0..frame.steps).map(interval).collect()
}

/// The mean of a series between two times.
pub fn mean(
    history: &History,
    from_ms: f64,
    to_ms: f64,
    value: impl Fn(usize) -> Option<f64>,
) -> Option<f64> {
    let frame = Frame {
        from_ms,
        step_ms: to_ms - from_ms,
        steps: 1,
    };
    means(history, &frame, value)[0]
}

/// Times for the labels of a time axis: at most `most`, at round times of the reader's clock, whose
/// offset from UTC is `offset_ms`.
pub fn ticks(frame: &Frame, most: usize, offset_ms: f64) -> Vec<(f64, String)> {
    const EVERY_SECONDS: [f64; 11] = [
        1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0,
    ];
    let span = frame.to_ms() - frame.from_ms;
    let every_ms = EVERY_SECONDS
        .iter()
        .map(|seconds| seconds * 1e3)
        .find(|every| span / every <= most.max(1) as f64)
        .unwrap_or(3_600_000.0);
    let first = ((frame.from_ms + offset_ms) / every_ms).ceil() as i64;
    let last = ((frame.to_ms() + offset_ms) / every_ms).floor() as i64;
    (first..=last)
        .map(|tick| tick as f64 * every_ms - offset_ms)
        .map(|at| (at, clock(at, offset_ms, every_ms < 60_000.0)))
        .collect()
}

/// A time on the reader's clock: `14:05`, or `14:05:30`.
pub fn clock(unix_ms: f64, offset_ms: f64, with_seconds: bool) -> String {
    let seconds = ((unix_ms + offset_ms) / 1e3).floor().rem_euclid(86_400.0) as u64;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    if with_seconds {
        format!("{hours:02}:{minutes:02}:{:02}", seconds % 60)
    } else {
        format!("{hours:02}:{minutes:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::state::End;

    fn range(span_ms: f64, end: End) -> TimeRange {
        TimeRange { span_ms, end }
    }

    #[test]
    fn steps_are_round_fit_and_stand_still_while_time_goes_on() {
        let frame = Frame::of(range(300_000.0, End::Now), 1_000_000_700.0, 500.0, 320);
        assert_eq!((frame.step_ms, frame.steps), (1_000.0, 300));
        assert_eq!(frame.to_ms(), 1_000_000_000.0);
        for later in [1_000_000_000.0, 1_000_000_999.0] {
            assert_eq!(
                frame,
                Frame::of(range(300_000.0, End::Now), later, 500.0, 320)
            );
        }
        let next = Frame::of(range(300_000.0, End::Now), 1_000_001_000.0, 500.0, 320);
        assert_eq!(next.from_ms, frame.from_ms + 1_000.0);
        let coarse = Frame::of(range(60_000.0, End::Now), 1e9, 10_000.0, 320);
        assert_eq!((coarse.step_ms, coarse.steps), (10_000.0, 6));
    }

    #[test]
    fn a_chosen_stretch_is_shown_to_its_end() {
        let frame = Frame::of(range(60_000.0, End::At(1_000_200.0)), 9e9, 500.0, 60);
        assert_eq!(frame.to_ms(), 1_001_000.0);
        assert_eq!(frame.step_at(1_000_999.0), Some(frame.steps - 1));
        assert_eq!(frame.step_at(1_001_000.0), None);
    }

    #[test]
    fn means_are_of_what_was_measured_and_gaps_stay_gaps() {
        // Half-second points with 1, 2, 3, … CPUs, and a gap from 3 s to 4 s.
        let history = fixture::history(&[1, 2, 3, 4, 5, 6, 9, 10]);
        let frame = Frame {
            from_ms: 0.0,
            step_ms: 1_000.0,
            steps: 6,
        };
        let value = |point| history.component_cpus(0, point);
        let shown = means(&history, &frame, value);
        let expected = [Some(1.5), Some(3.5), Some(5.5), None, Some(9.5), None];
        assert_eq!(shown, expected);
        assert_eq!(mean(&history, 0.0, 2_000.0, value), Some(2.5));
        assert_eq!(mean(&history, 7_000.0, 8_000.0, value), None);
    }

    #[test]
    fn a_point_longer_than_a_step_fills_all_of_its_steps() {
        let history = fixture::history(&[1, 2, 3, 4]);
        let frame = Frame {
            from_ms: 0.0,
            step_ms: 250.0,
            steps: 8,
        };
        let shown = means(&history, &frame, |point| history.component_cpus(0, point));
        assert_eq!(shown, [1, 1, 2, 2, 3, 3, 4, 4].map(|n| Some(f64::from(n))));
    }

    #[test]
    fn labels_stand_at_round_times_of_the_readers_clock() {
        let frame = Frame {
            from_ms: 30_000.0,
            step_ms: 1_000.0,
            steps: 300,
        };
        let labels: Vec<String> = ticks(&frame, 6, 5_400_000.0)
            .into_iter()
            .map(|t| t.1)
            .collect();
        assert_eq!(labels, ["01:31", "01:32", "01:33", "01:34", "01:35"]);
        assert_eq!(ticks(&frame, 6, 0.0)[0].0, 60_000.0);
        assert_eq!(clock(86_399_999.0, 0.0, true), "23:59:59");
        assert_eq!(clock(0.0, -3_600_000.0, false), "23:00");
    }
}
