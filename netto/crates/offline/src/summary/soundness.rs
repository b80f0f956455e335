//! Completeness and cost of a measurement: gaps, losses, netto's own share. Pure.

use std::collections::BTreeMap;

use metrics_common::codec::Gap;
use metrics_common::{Cost, Info, OwnCost, OwnPart, Snapshot};
use netto_log_format::Extremes;
use serde::Serialize;

use super::stretch::Stretch;

/// Most gaps listed individually; the rest is summed.
const LISTED: usize = 20;
/// Most kinds of missed events; no netto has more.
const MOST_WAYS: usize = 64;

/// Times without data, and the reasons.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gaps {
    /// Number of restarts of netto within the span.
    pub restarts: u64,
    /// Times between intervals that no interval covers.
    pub holes: u64,
    /// Their length together, nanoseconds.
    pub uncovered_ns: u64,
    /// The first gaps: begin and end, nanoseconds since the Unix epoch.
    pub listed_holes: Vec<(u64, u64)>,
    /// Snapshots that netto reported as not written.
    pub unwritten_snapshots: u64,
    /// The first of these.
    pub listed_unwritten: Vec<Unwritten>,
}

/// Snapshots that could not be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unwritten {
    /// End of the first, nanoseconds since the Unix epoch.
    pub first_time_unix_ns: u64,
    /// End of the last, nanoseconds since the Unix epoch.
    pub last_time_unix_ns: u64,
    /// Their number.
    pub snapshots: u64,
    /// The reason, as netto recorded it.
    pub reason: String,
}

/// Data lost while measuring.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Losses {
    /// Stacks taken.
    pub stacks_taken: u64,
    /// Stacks without room in the buffer.
    pub stacks_lost: u64,
    /// Events missed by probes, if the kernel counts them.
    pub probes_missed: Vec<Missed>,
}

/// Events that one probe missed for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Missed {
    /// The probe.
    pub probe: String,
    /// recursion, state_lost or no_room.
    pub reason: String,
    /// Slug of the component whose figures are too low as a result.
    pub component: String,
    /// Number of events.
    pub missed: u64,
}

/// netto's own cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OwnSummary {
    /// Time taken from all CPUs, by part, nanoseconds: an estimate. Unknown parts are absent.
    #[cfg_attr(feature = "schema", schemars(extend("propertyNames" = {"enum": OwnPart::ALL.map(OwnPart::slug)})))]
    pub taken_ns: BTreeMap<&'static str, u64>,
    /// The sum, as a share of the time of all CPUs, 0 to 1.
    pub taken_ratio: Option<f64>,
    /// The same in CPU seconds per second.
    pub taken_cpus: Option<f64>,
    /// CPU time of netto's process, nanoseconds.
    pub process_ns: Option<u64>,
    /// The largest share of a CPU's time over ten seconds; null until known.
    pub costliest: Option<(f64, u32)>,
    /// Peak resident memory of the process.
    pub max_resident_bytes: Option<u64>,
}

/// Collects all of these.
#[derive(Debug, Clone, Default)]
pub struct Soundness {
    gaps: Gaps,
    losses: Losses,
    own: OwnSummary,
    own_capacity_ns: u64,
    own_interval_ns: u64,
    has_own: bool,
    run: Option<u64>,
    /// For each row of missed events in the log, its index in `losses.probes_missed`.
    places: Vec<Option<usize>>,
    last_end_unix_ns: Option<u64>,
}

impl Soundness {
    /// Sets the description of the following intervals.
    pub fn describe(&mut self, info: &Info) {
        let is_other = self.run.is_some_and(|run| run != info.started_unix_ns);
        self.gaps.restarts += u64::from(is_other);
        self.run = Some(info.started_unix_ns);
        let known = &mut self.losses.probes_missed;
        let place = |way: &metrics_common::Missable| {
            let is_it = |missed: &Missed| {
                (&missed.probe, &missed.reason, &missed.component)
                    == (&way.probe, &way.reason, &way.component)
            };
            if let Some(place) = known.iter().position(is_it) {
                return Some(place);
            }
            if known.len() == MOST_WAYS {
                return None;
            }
            known.push(Missed {
                probe: way.probe.clone(),
                reason: way.reason.clone(),
                component: way.component.clone(),
                missed: 0,
            });
            Some(known.len() - 1)
        };
        self.places = info.missable.iter().take(MOST_WAYS).map(place).collect();
    }

    /// Records missing snapshots.
    pub fn missing(&mut self, gap: &Gap) {
        let all = &mut self.gaps.unwritten_snapshots;
        *all = all.saturating_add(gap.snapshots);
        if self.gaps.listed_unwritten.len() < LISTED {
            self.gaps.listed_unwritten.push(Unwritten {
                first_time_unix_ns: gap.first_time_unix_ns,
                last_time_unix_ns: gap.last_time_unix_ns,
                snapshots: gap.snapshots,
                reason: gap.reason.clone(),
            });
        }
    }

    /// Adds intervals.
    pub fn add(&mut self, stretch: &impl Stretch) {
        for interval in 0..stretch.intervals() {
            let end = stretch.end_unix_ns(interval);
            let begin = end.saturating_sub(stretch.length_ns(interval));
            // Wall clocks are corrected by small amounts all the time.
            if let Some(last) = self.last_end_unix_ns
                && begin.saturating_sub(last) > stretch.length_ns(interval) / 2
            {
                self.gaps.holes += 1;
                let uncovered = &mut self.gaps.uncovered_ns;
                *uncovered = uncovered.saturating_add(begin - last);
                if self.gaps.listed_holes.len() < LISTED {
                    self.gaps.listed_holes.push((last, begin));
                }
            }
            self.last_end_unix_ns = Some(end);
        }
        let sum = stretch.sum();
        self.lost(sum.cost());
        if let Some(own_cost) = &sum.sections.own {
            self.own(own_cost, sum, &stretch.extremes());
        }
    }

    fn lost(&mut self, cost: &Cost) {
        let sum = |row: &[u64]| row.iter().fold(0_u64, |all, n| all.saturating_add(*n));
        let losses = &mut self.losses;
        losses.stacks_taken = losses.stacks_taken.saturating_add(sum(&cost.stacks_taken));
        losses.stacks_lost = losses.stacks_lost.saturating_add(sum(&cost.stacks_lost));
        for (count, place) in cost.probe_missed.iter().zip(&self.places) {
            if let Some(way) = place.and_then(|place| losses.probes_missed.get_mut(place)) {
                way.missed = way.missed.saturating_add(*count);
            }
        }
    }

    fn own(&mut self, own_cost: &OwnCost, sum: &Snapshot, extremes: &Extremes) {
        self.has_own = true;
        let sums = &mut self.own;
        for part in OwnPart::ALL {
            if let Some(ns) = own_cost.part_total_ns(part) {
                let sum = sums.taken_ns.entry(part.slug()).or_default();
                *sum = sum.saturating_add(ns);
            }
        }
        if own_cost.taken_total_ns().is_some() {
            self.own_capacity_ns = self.own_capacity_ns.saturating_add(sum.capacity_ns());
            self.own_interval_ns = self.own_interval_ns.saturating_add(sum.interval_ns);
        }
        // A selection of CPUs has no data of the process.
        if own_cost.resident_bytes > 0 {
            let process_ns = own_cost.user_ns.saturating_add(own_cost.system_ns);
            let before_ns = sums.process_ns.unwrap_or(0);
            sums.process_ns = Some(before_ns.saturating_add(process_ns));
            let most_bytes = extremes.most_resident_bytes;
            sums.max_resident_bytes = sums.max_resident_bytes.max(Some(most_bytes));
        }
        if let Some(costliest) = extremes.costliest
            && sums
                .costliest
                .is_none_or(|(most, _)| costliest.ratio > most)
        {
            sums.costliest = Some((costliest.ratio, costliest.cpu));
        }
    }

    /// The results; no cost of netto if it is unknown.
    pub fn finish(self) -> (Gaps, Losses, Option<OwnSummary>) {
        let Soundness {
            gaps,
            losses,
            mut own,
            own_capacity_ns,
            own_interval_ns,
            has_own,
            ..
        } = self;
        let parts = own.taken_ns.values();
        let taken_ns = parts.fold(0_u64, |all, ns| all.saturating_add(*ns)) as f64;
        if own_capacity_ns > 0 {
            own.taken_ratio = Some(taken_ns / own_capacity_ns as f64);
            own.taken_cpus = Some(taken_ns / own_interval_ns as f64);
        }
        (gaps, losses, has_own.then_some(own))
    }
}
