//! Anomalies of a sequence of snapshots. Pure.
//!
//! Short intervals are joined to steps, so that what is judged does not depend on how often netto is
//! asked to look. Sums of many intervals are not judged: what lasted for seconds is not seen in them.

use serde::Serialize;

use super::judge::{Anomaly, Judge, Moved, Transition};
use super::metrics::{Direction, METRICS, Metric, Role};
use crate::advice::figures::Figures;
use metrics_common::snapshot::Snapshot;

/// Least length of a step, nanoseconds.
pub const STEP_NS: u64 = 400_000_000;
/// Intervals that are longer are not judged, and no longer gap leaves anything open.
pub const LONGEST_INTERVAL_NS: u64 = 60_000_000_000;

// An anomaly has a bit for each metric that moved with it.
const _: () = assert!(METRICS.len() <= u64::BITS as usize);

/// The anomalies of a host, by its snapshots in their order; see the head of this file.
#[derive(Debug, Clone)]
pub struct Detector {
    judge: Judge,
    /// The step that has begun: sums of values times their time, and that time.
    sums: Vec<(f64, u64)>,
    values: Vec<f64>,
    begin_unix_ns: u64,
    length_ns: u64,
    /// Sequence number and time of the last snapshot.
    last: Option<(u64, u64)>,
}

impl Default for Detector {
    fn default() -> Self {
        Detector {
            judge: Judge::new(METRICS),
            sums: vec![(0.0, 0); METRICS.len()],
            values: vec![f64::NAN; METRICS.len()],
            begin_unix_ns: 0,
            length_ns: 0,
            last: None,
        }
    }
}

impl Detector {
    /// Adds the next snapshot.
    pub fn push(&mut self, snapshot: &Snapshot) {
        let interval_ns = snapshot.interval_ns;
        if interval_ns == 0 {
            return;
        }
        let now = (snapshot.sequence, snapshot.time_unix_ns);
        let begin_unix_ns = now.1.saturating_sub(interval_ns);
        if let Some((sequence, time_unix_ns)) = self.last.replace(now) {
            let gap_ns = begin_unix_ns.saturating_sub(time_unix_ns);
            if now.1 <= time_unix_ns && now.0 <= sequence {
                // A recording goes back: what was known is of its future.
                *self = Detector {
                    last: Some(now),
                    ..Detector::default()
                };
            } else if now.0 <= sequence || now.1 <= time_unix_ns || gap_ns > LONGEST_INTERVAL_NS {
                // Another run, a clock that was set, or nothing known for long.
                self.judge.end_all();
                self.begin_step();
            }
        }
        if interval_ns > LONGEST_INTERVAL_NS {
            self.judge.end_all();
            self.begin_step();
            return;
        }
        if self.length_ns == 0 {
            self.begin_unix_ns = begin_unix_ns;
        }
        self.length_ns = self.length_ns.saturating_add(interval_ns);
        let figures = Figures::of(snapshot);
        for (metric, (sum, known_ns)) in METRICS.iter().zip(&mut self.sums) {
            let value = (metric.value)(&figures);
            if value.is_finite() {
                *sum += value * interval_ns as f64;
                *known_ns = known_ns.saturating_add(interval_ns);
            }
        }
        if self.length_ns >= STEP_NS {
            for (value, (sum, known_ns)) in self.values.iter_mut().zip(&self.sums) {
                // 0 of 0 is no number.
                *value = sum / *known_ns as f64;
            }
            let tell = |anomaly: &mut Anomaly, transition| {
                if matches!(transition, Transition::Begun(_)) {
                    anomaly.detail = (METRICS[anomaly.metric].detail)(snapshot);
                }
            };
            self.judge
                .step(self.begin_unix_ns, now.1, &self.values, tell);
            self.begin_step();
        }
    }

    fn begin_step(&mut self) {
        self.length_ns = 0;
        self.sums.fill((0.0, 0));
    }

    /// A copy that has the anomalies, and cannot go on.
    pub fn without_past(&self) -> Detector {
        Detector {
            judge: self.judge.without_past(),
            sums: Vec::new(),
            values: Vec::new(),
            ..*self
        }
    }

    /// Those that are open and the newest that have ended, by their begin.
    pub fn kept(&self) -> impl DoubleEndedIterator<Item = &Anomaly> {
        self.judge.kept()
    }

    /// How many have begun, by the places of [`METRICS`].
    pub fn begun(&self) -> &[u64] {
        self.judge.begun()
    }

    /// How often any has begun, gone on or ended.
    pub fn changes(&self) -> u64 {
        self.judge.changes()
    }

    /// End of the last snapshot, nanoseconds since the Unix epoch; 0 before the first.
    pub fn now_unix_ns(&self) -> u64 {
        self.last.map_or(0, |(_, time_unix_ns)| time_unix_ns)
    }

    /// Metrics that make anomalies, and whether each is judged by now.
    fn watched(&self) -> impl Iterator<Item = (&'static Metric, bool)> {
        let watched = METRICS.iter().enumerate();
        let watched = watched.filter(|(_, metric)| metric.role == Role::Trouble);
        watched.map(|(place, metric)| (metric, self.judge.is_warm(place)))
    }

    /// How many metrics make anomalies, and how many of them are judged by now.
    pub fn judged(&self) -> (usize, usize) {
        let judged = self.watched().filter(|(_, is_judged)| *is_judged);
        (self.watched().count(), judged.count())
    }

    /// Those of them that are not judged yet, or not measured here: [`Metric::slug`].
    pub fn unjudged(&self) -> impl Iterator<Item = &'static Metric> {
        let unjudged = self.watched().filter(|(_, is_judged)| !is_judged);
        unjudged.map(|(metric, _)| metric)
    }
}

/// An anomaly.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Described {
    /// Counts up by one from 1.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub id: u64,
    /// Its metric's name, as in docs/ANOMALIES.md.
    pub metric: &'static str,
    /// The same for people.
    pub name: &'static str,
    /// Where it went.
    pub direction: Direction,
    /// When it began, seconds since the Unix epoch.
    pub begin_unix_seconds: f64,
    /// When it ended; absent while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_unix_seconds: Option<f64>,
    /// How long it has lasted.
    pub seconds: f64,
    /// It ended because it had lasted so long that it is usual now; absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub usual_now: bool,
    /// 1, and one more each time that it came back after it had ended.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub spells: u32,
    /// The worst value.
    pub value: f64,
    /// What was usual when it began.
    pub usual: f64,
    /// The unit of both.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = super::metrics::Unit::ALL.map(super::metrics::Unit::slug))))]
    pub unit: &'static str,
    /// How far the worst value was from what is usual, in deviations.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub deviations: f64,
    /// The same in words.
    pub evidence: String,
    /// Metrics that left their usual values within five seconds of its begin.
    pub moved: Vec<Moved>,
}

impl Anomaly {
    /// For machines and people.
    pub fn described(&self) -> Described {
        let metric = &METRICS[self.metric.min(METRICS.len() - 1)];
        let shown = |value| metric.unit.shown(value);
        let (worst, usual) = (shown(self.value), shown(self.usual));
        let deviations = self.deviations.round();
        let mut evidence =
            format!("{worst} at worst, where {usual} is usual: {deviations} deviations");
        if let Some(detail) = &self.detail {
            evidence.push_str("; ");
            evidence.push_str(detail);
        }
        Described {
            id: self.id,
            metric: metric.slug,
            name: metric.name,
            direction: self.direction,
            begin_unix_seconds: self.begin_unix_ns as f64 / 1e9,
            end_unix_seconds: (!self.is_open).then_some(self.last_unix_ns as f64 / 1e9),
            seconds: self.length_ns() as f64 / 1e9,
            usual_now: self.is_usual_now,
            spells: self.spells,
            value: self.value,
            usual: self.usual,
            unit: metric.unit.slug(),
            deviations: self.deviations,
            evidence,
            moved: self.moved_of(METRICS).collect(),
        }
    }
}
