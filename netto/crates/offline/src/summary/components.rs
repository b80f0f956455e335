//! Sums of each component over intervals whose tables may differ, because netto was updated, or a
//! kernel module was loaded. Rows are identified by their slugs. Pure.

use metrics_common::confidence::{self, Sums};
use metrics_common::sections::sum_of_known;
use metrics_common::{Availability, Correction, Info};
use netto_estimate::Figure;
use netto_log_format::IMPLAUSIBLE;
use serde::Serialize;

use super::stretch::Stretch;

/// Most rows; the rest is left out.
const MOST_ROWS: usize = 512;

/// The sums of one component.
#[derive(Debug, Clone)]
struct Row {
    info: metrics_common::ComponentInfo,
    /// CPU time, nanoseconds.
    cpu_ns: u64,
    /// Total time of all CPUs while it was measured, nanoseconds.
    capacity_ns: u64,
    /// Length of those intervals, nanoseconds.
    measured_ns: u64,
    samples: Option<u64>,
    /// Its time × the time for which one of its samples stands; `None` from the first interval on that does
    /// not tell.
    sample_ns_ms: Option<u64>,
    ticks_shared_ns: u64,
    entries: Option<u64>,
    /// Its largest share of an interval, and that interval's end.
    peak: Option<(f64, u64)>,
}

/// All components seen.
#[derive(Debug, Clone, Default)]
pub struct Table {
    rows: Vec<Row>,
    /// For each row of the following intervals, its index here.
    places: Vec<Option<usize>>,
    /// The rows of the following intervals that have no parent.
    roots: Vec<usize>,
    info: Option<Box<Info>>,
    capacity_ns: u64,
    correction: Option<Correction>,
    /// Errors of the RX softirq's time, where it is not of samples alone.
    received: Option<Figure>,
    /// Number of samples that all CPUs would have taken at the rate of the least sampled one.
    room: Option<u64>,
    room_in_tasks: Option<u64>,
}

/// A component over the whole span.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComponentSummary {
    /// Its stable name.
    pub component: String,
    /// The name of its parent component.
    pub parent: Option<String>,
    /// Its name for people.
    pub label: String,
    /// How its time is found: sum, timed, estimated, carved, sampled or remainder.
    pub kind: String,
    /// The measured values, or `unavailable` with the reason.
    #[serde(flatten)]
    pub found: Outcome,
}

/// The result for a component.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Outcome {
    /// It was measured.
    Measured(Measured),
    /// It was not measured.
    Unavailable {
        /// The reason.
        unavailable: String,
    },
}

/// A component that was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// The method, in the last interval.
    pub method: String,
    /// CPU time, nanoseconds.
    pub cpu_ns: u64,
    /// Where that lies with a confidence of 95 %, nanoseconds; null of what is no estimate.
    pub cpu_interval_ns: Option<(u64, u64)>,
    /// Share of the time of all CPUs while it was measured, 0 to 1.
    pub share_ratio: f64,
    /// CPU seconds per second.
    pub cpus: f64,
    /// Its largest share of one interval, 0 to 1.
    pub max_share_ratio: f64,
    /// End of that interval, nanoseconds since the Unix epoch.
    pub max_time_unix_ns: u64,
    /// Stack samples on which it rests; null of what is not sampled.
    pub samples: Option<u64>,
    /// How often it was entered; null where that is not counted.
    pub entries: Option<u64>,
}

impl Table {
    /// Sets the meaning of the rows of the following intervals.
    pub fn describe(&mut self, info: &Info) {
        self.places = info
            .components
            .iter()
            .take(metrics_common::packed::MOST_ROWS)
            .map(|component| {
                let is_it = |row: &Row| row.info.slug == component.slug;
                match self.rows.iter().position(is_it) {
                    Some(place) => {
                        // The method of an earlier measurement is kept when it ends.
                        let row = &mut self.rows[place];
                        if component.availability.is_available() || row.capacity_ns == 0 {
                            row.info = component.clone();
                        }
                        Some(place)
                    }
                    None if self.rows.len() < MOST_ROWS => {
                        self.rows.push(Row {
                            info: component.clone(),
                            cpu_ns: 0,
                            capacity_ns: 0,
                            measured_ns: 0,
                            samples: None,
                            sample_ns_ms: Some(0),
                            ticks_shared_ns: 0,
                            entries: None,
                            peak: None,
                        });
                        Some(self.rows.len() - 1)
                    }
                    None => None,
                }
            })
            .collect();
        let is_root = |row: &usize| info.components[*row].parent.is_none();
        self.roots = (0..self.places.len()).filter(is_root).collect();
        self.info = Some(Box::new(Info {
            components: Vec::new(),
            ..info.clone()
        }));
    }

    /// Whether no component's time in this interval is far above the total time.
    pub fn is_plausible(&self, stretch: &impl Stretch, interval: usize) -> bool {
        let most_ns = stretch.capacity_ns(interval).saturating_mul(IMPLAUSIBLE);
        let mut totals = self.roots.iter();
        totals.all(|&row| {
            let total_ns = stretch.total_ns(interval, row);
            total_ns.is_none_or(|ns| ns <= most_ns)
        })
    }

    /// Adds intervals.
    pub fn add(&mut self, stretch: &impl Stretch) {
        let sum = stretch.sum();
        let (cost, capacity_ns) = (sum.cost(), sum.capacity_ns());
        self.capacity_ns = self.capacity_ns.saturating_add(capacity_ns);
        self.correction = cost.softirq_correction.or(self.correction);
        if let Some(more) = cost.received() {
            *self.received.get_or_insert_default() += more;
        }
        self.room = sum_of_known(self.room, Sums::room(sum));
        self.room_in_tasks = sum_of_known(self.room_in_tasks, Sums::room_in_tasks(sum));
        for (row, place) in self.places.iter().enumerate() {
            let (Some(_), Some(sums)) = (
                cost.cpu_ns(row),
                place.and_then(|place| self.rows.get_mut(place)),
            ) else {
                continue;
            };
            for interval in 0..stretch.intervals() {
                let ns = stretch.total_ns(interval, row).unwrap_or(0);
                sums.cpu_ns = sums.cpu_ns.saturating_add(ns);
                let share = ns as f64 / stretch.capacity_ns(interval).max(1) as f64;
                if sums.peak.is_none_or(|(most, _)| share > most) {
                    sums.peak = Some((share, stretch.end_unix_ns(interval)));
                }
            }
            sums.capacity_ns = sums.capacity_ns.saturating_add(capacity_ns);
            sums.measured_ns = sums.measured_ns.saturating_add(sum.interval_ns);
            if let Some(samples) = cost.samples_of(row) {
                let more: u64 = samples.iter().map(|&count| u64::from(count)).sum();
                sums.samples = Some(sums.samples.unwrap_or(0).saturating_add(more));
            }
            let more = Sums::sample_ns_ms(sum, row);
            sums.sample_ns_ms =
                (sums.sample_ns_ms.zip(more)).map(|(sum, more)| sum.saturating_add(more));
            let more = Sums::ticks_shared_ns(sum, row);
            sums.ticks_shared_ns = sums.ticks_shared_ns.saturating_add(more);
            if let Some(entries) = cost.entries_of(row) {
                let more = entries.iter().fold(0_u64, |all, n| all.saturating_add(*n));
                sums.entries = Some(sums.entries.unwrap_or(0).saturating_add(more));
            }
        }
    }

    /// Whether an interval does not tell for how much time its samples stand.
    pub fn lacks_weights(&self) -> bool {
        self.rows.iter().any(|row| row.sample_ns_ms.is_none())
    }

    /// The row of the following intervals with this slug.
    pub fn row_of(&self, slug: &str) -> Option<usize> {
        let is_it =
            |place: &Option<usize>| place.is_some_and(|place| self.rows[place].info.slug == slug);
        self.places.iter().position(is_it)
    }

    /// The rows of the following intervals that are parts of this component, with their slugs.
    pub fn parts_of<'a>(&'a self, slug: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
        self.places
            .iter()
            .enumerate()
            .filter_map(move |(row, place)| {
                let info = &self.rows.get((*place)?)?.info;
                (info.parent.as_deref() == Some(slug)).then_some((row, info.slug.as_str()))
            })
    }

    /// Name for people and colour of a component.
    pub fn look_of(&self, slug: &str) -> Option<(&str, &str)> {
        let row = self.rows.iter().find(|row| row.info.slug == slug)?;
        Some((&row.info.label, &row.info.color))
    }

    /// Every component with its sums, in the order of the table.
    pub fn finish(&self) -> Vec<ComponentSummary> {
        let Some(info) = &self.info else {
            return Vec::new();
        };
        let info = Info {
            components: self.rows.iter().map(|row| row.info.clone()).collect(),
            ..(**info).clone()
        };
        let rows = self.rows.iter().enumerate();
        rows.map(|(index, row)| ComponentSummary {
            component: row.info.slug.clone(),
            parent: row.info.parent.clone(),
            label: row.info.label.clone(),
            kind: row.info.kind.as_str().to_owned(),
            found: self.found(&info, index, row),
        })
        .collect()
    }

    fn found(&self, info: &Info, index: usize, row: &Row) -> Outcome {
        if row.capacity_ns == 0 {
            let unavailable = match &row.info.availability {
                Availability::Unavailable { reason } => reason.clone(),
                Availability::Available { .. } => "not measured in this span".to_owned(),
            };
            return Outcome::Unavailable { unavailable };
        }
        let (max_share_ratio, max_time_unix_ns) = row.peak.unwrap_or_default();
        Outcome::Measured(Measured {
            method: match &row.info.availability {
                Availability::Available { method } => method.to_string(),
                Availability::Unavailable { .. } => "unknown".to_owned(),
            },
            cpu_ns: row.cpu_ns,
            cpu_interval_ns: confidence::of_sums(info, self, index),
            share_ratio: row.cpu_ns as f64 / row.capacity_ns as f64,
            cpus: row.cpu_ns as f64 / row.measured_ns.max(1) as f64,
            max_share_ratio,
            max_time_unix_ns,
            samples: row.samples,
            entries: row.entries,
        })
    }
}

impl Sums for Table {
    fn total_ns(&self, component: usize) -> Option<u64> {
        let row = self.rows.get(component)?;
        (row.capacity_ns > 0).then_some(row.cpu_ns)
    }

    fn sample_ns_ms(&self, component: usize) -> Option<u64> {
        self.rows.get(component)?.sample_ns_ms
    }

    fn ticks_shared_ns(&self, component: usize) -> u64 {
        self.rows
            .get(component)
            .map_or(0, |row| row.ticks_shared_ns)
    }

    fn capacity_ns(&self) -> u64 {
        self.capacity_ns
    }

    fn softirq_correction(&self) -> Option<Correction> {
        self.correction
    }

    fn received(&self) -> Option<Figure> {
        self.received.filter(|_| !self.lacks_weights())
    }

    fn room(&self) -> Option<u64> {
        self.room
    }

    fn room_in_tasks(&self) -> Option<u64> {
        self.room_in_tasks
    }
}
