//! The subject of a report, networking or one component: its share over time, its peaks, its
//! distribution over CPUs, and the energy. Pure.

use std::collections::HashMap;

use metrics_common::{Availability, Info, Modes, Snapshot};
use serde::Serialize;

use super::components::{ComponentSummary, Outcome, Table};
use super::quantiles::Quantiles;
use super::stretch::Stretch;
use super::timeline::{Step, Timeline};

/// Most CPUs of a host; a log with more is damaged.
pub const MOST_CPUS: usize = 8_192;

/// A component and its parts over time.
#[derive(Debug, Clone)]
pub struct Strip {
    /// Name for people of the component.
    pub label: String,
    /// Its parts, in the order of [`Step::parts_ns`]: label and colour.
    pub parts: Vec<(String, String)>,
    /// The steps.
    pub timeline: Timeline,
}

/// Most peaks reported.
const PEAKS: usize = 3;
/// Least distance of peaks, nanoseconds; at least also this part of the span.
const APART_NS: u64 = 10_000_000_000;
const APART_OF_SPAN: u64 = 20;
/// Most parts; no netto has more.
const MOST_PARTS: usize = 128;

/// The distribution of a figure over intervals, weighted by their length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// Its mean.
    pub mean: f64,
    /// The median (within half a percent).
    pub p50: f64,
    /// The 95th percentile of the time (within half a percent).
    pub p95: f64,
    /// The maximum of all intervals.
    pub max: f64,
}

/// The subject's share of the host.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Headline {
    /// The component that is the subject.
    pub component: String,
    /// Its name for people.
    pub label: String,
    /// Its CPU time, nanoseconds; null where it was not measured.
    pub cpu_ns: Option<u64>,
    /// Share of the time of all CPUs, 0 to 1; null if not measured.
    pub share_ratio: Option<Spread>,
    /// CPU seconds per second; null if not measured.
    pub cpus: Option<Spread>,
    /// Share of the time in which CPUs were not idle, 0 to 1; null where that is not known.
    pub of_busy_ratio: Option<f64>,
}

/// The subject's share of one CPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuSummary {
    /// Its number.
    pub cpu: u32,
    /// CPU time on it, nanoseconds.
    pub cpu_ns: u64,
    /// Share of its time, 0 to 1.
    pub share_ratio: f64,
    /// The largest part there; null if there is none.
    pub largest_part: Option<(String, f64)>,
}

/// An interval with a large share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Peak {
    /// Its end, nanoseconds since the Unix epoch.
    pub time_unix_ns: u64,
    /// Share of the time of all CPUs, 0 to 1.
    pub share_ratio: f64,
}

/// Energy, if it was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum PowerSummary {
    /// It was measured.
    Measured {
        /// Packages and their memory, joules.
        host_joules: f64,
        /// The part of networking, attributed to what was busy: an estimate, by its share of the
        /// busy time.
        network_joules: f64,
        /// The part of networking, as a share of capacity: an estimate, by its share of the time of
        /// all CPUs.
        network_capacity_joules: f64,
        /// Length of the intervals in which it was measured, nanoseconds.
        measured_ns: u64,
    },
    /// It was not measured.
    Unavailable {
        /// The reason.
        unavailable: String,
    },
}

/// The results.
pub(super) struct Finished {
    pub(super) headline: Headline,
    pub(super) cpus: Vec<CpuSummary>,
    pub(super) peaks: Vec<Peak>,
    pub(super) power: PowerSummary,
    pub(super) strip: Strip,
}

#[derive(Debug, Clone, Default)]
struct CpuSums {
    cpu: u32,
    time_ns: u64,
    subject_ns: u64,
    parts_ns: Vec<u64>,
}

/// See the head of this file.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    slug: String,
    /// Its row in the following intervals.
    row: Option<usize>,
    /// The rows of its parts, with their indices in `parts`.
    part_rows: Vec<(usize, usize)>,
    /// Slugs of its parts, in order of appearance.
    parts: Vec<String>,
    shares: Quantiles,
    cpu_counts: Quantiles,
    timeline: Timeline,
    cpus: Vec<CpuSums>,
    place_of_cpu: HashMap<u32, usize>,
    /// The CPUs of the last interval, and their indices.
    last_cpus: (Vec<u32>, Vec<usize>),
    /// Busy time, in intervals in which it is known.
    busy_ns: u64,
    subject_while_known_ns: u64,
    host_joules: f64,
    network_joules: f64,
    network_capacity_joules: f64,
    power_ns: u64,
}

impl Subject {
    pub(super) fn of(slug: &str) -> Self {
        Subject {
            slug: slug.to_owned(),
            row: None,
            part_rows: Vec::new(),
            parts: Vec::new(),
            shares: Quantiles::default(),
            cpu_counts: Quantiles::default(),
            timeline: Timeline::default(),
            cpus: Vec::new(),
            place_of_cpu: HashMap::new(),
            last_cpus: Default::default(),
            busy_ns: 0,
            subject_while_known_ns: 0,
            host_joules: 0.0,
            network_joules: 0.0,
            network_capacity_joules: 0.0,
            power_ns: 0,
        }
    }

    pub(super) fn describe(&mut self, table: &Table) {
        self.row = table.row_of(&self.slug);
        self.part_rows.clear();
        for (row, slug) in table.parts_of(&self.slug) {
            let known = self.parts.iter().position(|part| part == slug);
            match known {
                Some(place) => self.part_rows.push((row, place)),
                None if self.parts.len() < MOST_PARTS => {
                    self.part_rows.push((row, self.parts.len()));
                    self.parts.push(slug.to_owned());
                }
                None => {}
            }
        }
    }

    /// Whether the CPUs of this interval and earlier ones are at most [`MOST_CPUS`].
    pub(super) fn has_room(&mut self, snapshot: &Snapshot) -> bool {
        if self.last_cpus.0 == snapshot.cpus {
            return true;
        }
        let is_new = |cpu: &&u32| !self.place_of_cpu.contains_key(cpu);
        let more = snapshot.cpus.iter().filter(is_new).count();
        if self.cpus.len() + more > MOST_CPUS {
            return false;
        }
        let mut places = Vec::with_capacity(snapshot.cpus.len());
        for &cpu in &snapshot.cpus {
            let place = *self.place_of_cpu.entry(cpu).or_insert_with(|| {
                self.cpus.push(CpuSums {
                    cpu,
                    ..CpuSums::default()
                });
                self.cpus.len() - 1
            });
            places.push(place);
        }
        self.last_cpus = (snapshot.cpus.clone(), places);
        true
    }

    pub(super) fn add(&mut self, stretch: &impl Stretch) {
        let extremes = stretch.extremes();
        self.host_joules += extremes.host_joules;
        self.network_joules += extremes.network_joules;
        self.network_capacity_joules += extremes.network_capacity_joules;
        self.power_ns = self.power_ns.saturating_add(extremes.energy_ns);
        let all = stretch.sum();
        let cost = all.cost();
        for &place in &self.last_cpus.1 {
            let time_ns = &mut self.cpus[place].time_ns;
            *time_ns = time_ns.saturating_add(all.interval_ns);
        }
        let Some((row, by_cpu)) = self.row.and_then(|row| Some((row, cost.cpu_ns(row)?))) else {
            return;
        };
        for (&ns, &place) in by_cpu.iter().zip(&self.last_cpus.1) {
            let sum = &mut self.cpus[place].subject_ns;
            *sum = sum.saturating_add(ns);
        }
        for &(row, place) in &self.part_rows {
            let by_cpu = cost.cpu_ns(row).unwrap_or_default();
            if by_cpu.iter().all(|&ns| ns == 0) {
                continue;
            }
            for (&ns, &cpu) in by_cpu.iter().zip(&self.last_cpus.1) {
                let parts_ns = &mut self.cpus[cpu].parts_ns;
                if parts_ns.len() <= place {
                    parts_ns.resize(self.parts.len(), 0);
                }
                parts_ns[place] = parts_ns[place].saturating_add(ns);
            }
        }
        for interval in 0..stretch.intervals() {
            self.interval(stretch, interval, row);
        }
        if let Some(modes) = &all.sections.modes {
            self.busy_ns = self.busy_ns.saturating_add(busy_ns(modes));
            let known = &mut self.subject_while_known_ns;
            *known = known.saturating_add(sum(by_cpu));
        }
    }

    /// Adds one interval; the component has this row.
    fn interval(&mut self, stretch: &impl Stretch, interval: usize, row: usize) {
        let (capacity_ns, interval_ns) =
            (stretch.capacity_ns(interval), stretch.length_ns(interval));
        let end_unix_ns = stretch.end_unix_ns(interval);
        let subject_ns = stretch.total_ns(interval, row).unwrap_or(0);
        let share = subject_ns as f64 / capacity_ns as f64;
        self.shares.add(share, interval_ns);
        let cpus = subject_ns as f64 / interval_ns as f64;
        self.cpu_counts.add(cpus, interval_ns);
        let mut step = Step {
            capacity_ns,
            subject_ns,
            parts_ns: vec![0; self.parts.len()],
            peak: Some((share, end_unix_ns)),
        };
        for &(row, place) in &self.part_rows {
            step.parts_ns[place] = stretch.total_ns(interval, row).unwrap_or(0);
        }
        self.timeline.add(end_unix_ns, interval_ns, &step);
    }

    /// Returns the results; the intervals span this many nanoseconds.
    pub(super) fn finish(
        self,
        table: &Table,
        info: &Info,
        components: &[ComponentSummary],
        span_ns: u64,
    ) -> Finished {
        let look = |slug: &str| {
            let (label, color) = table.look_of(slug).unwrap_or((slug, "#888888"));
            (label.to_owned(), color.to_owned())
        };
        let component = components.iter().find(|c| c.component == self.slug);
        let measured = component.and_then(|component| match &component.found {
            Outcome::Measured(measured) => Some(measured),
            Outcome::Unavailable { .. } => None,
        });
        let spread = |mean: f64, of: &Quantiles| {
            Some(Spread {
                mean,
                p50: of.at(0.5)?,
                p95: of.at(0.95)?,
                max: of.most()?,
            })
        };
        let (label, _) = look(&self.slug);
        let headline = Headline {
            component: self.slug.clone(),
            label: label.clone(),
            cpu_ns: measured.map(|measured| measured.cpu_ns),
            share_ratio: measured.and_then(|m| spread(m.share_ratio, &self.shares)),
            cpus: measured.and_then(|m| spread(m.cpus, &self.cpu_counts)),
            of_busy_ratio: (self.busy_ns > 0)
                .then(|| self.subject_while_known_ns as f64 / self.busy_ns as f64),
        };
        let apart_ns = APART_NS.max(span_ns / APART_OF_SPAN);
        let peaks = self.timeline.peaks(PEAKS, apart_ns);
        let peak = |(share_ratio, time_unix_ns): (f64, u64)| Peak {
            time_unix_ns,
            share_ratio,
        };
        Finished {
            headline,
            cpus: match measured {
                Some(_) => by_share(self.cpus, &self.parts),
                None => Vec::new(),
            },
            peaks: peaks.into_iter().map(peak).collect(),
            power: match self.power_ns {
                0 => PowerSummary::Unavailable {
                    unavailable: match &info.power {
                        Availability::Unavailable { reason } => reason.clone(),
                        Availability::Available { .. } => "not measured in this span".to_owned(),
                    },
                },
                measured_ns => PowerSummary::Measured {
                    host_joules: self.host_joules,
                    network_joules: self.network_joules,
                    network_capacity_joules: self.network_capacity_joules,
                    measured_ns,
                },
            },
            strip: Strip {
                label,
                parts: self.parts.iter().map(|slug| look(slug)).collect(),
                timeline: self.timeline,
            },
        }
    }
}

fn by_share(cpus: Vec<CpuSums>, parts: &[String]) -> Vec<CpuSummary> {
    let share = |ns: u64, time_ns: u64| ns as f64 / time_ns.max(1) as f64;
    let summary = |cpu: CpuSums| {
        let largest = cpu.parts_ns.iter().zip(parts).max_by_key(|(ns, _)| **ns);
        CpuSummary {
            cpu: cpu.cpu,
            cpu_ns: cpu.subject_ns,
            share_ratio: share(cpu.subject_ns, cpu.time_ns),
            largest_part: largest
                .filter(|(ns, _)| **ns > 0)
                .map(|(ns, slug)| (slug.clone(), share(*ns, cpu.time_ns))),
        }
    };
    let mut cpus: Vec<CpuSummary> = cpus.into_iter().map(summary).collect();
    cpus.sort_by(|a, b| {
        let shares = b.share_ratio.total_cmp(&a.share_ratio);
        shares.then(a.cpu.cmp(&b.cpu))
    });
    cpus
}

fn sum(row: &[u64]) -> u64 {
    row.iter().fold(0, |all, ns| all.saturating_add(*ns))
}

/// Everything except idle, waiting and stolen time; [`metrics_common::CpuModes::busy_ns`] for
/// values that may be damaged.
fn busy_ns(modes: &Modes) -> u64 {
    let host = &modes.host;
    sum(&[
        host.user_ns,
        host.nice_ns,
        host.system_ns,
        host.irq_ns,
        host.softirq_ns,
    ])
}
