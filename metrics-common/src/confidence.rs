//! The uncertainty of a component's time: which errors it has. How large they are, and the interval that
//! follows, is `netto_estimate`'s. Pure arithmetic.

use netto_estimate::Figure;
use netto_estimate::quantile::NORMAL;

use crate::component::{COMPONENTS, Kind, Source, index_of, index_of_source};
use crate::info::{Availability, ComponentInfo, Info};
use crate::sections::Correction;
use crate::snapshot::Snapshot;
use crate::words::{KindName, Method};

/// The sums over intervals and CPUs from which a confidence interval is computed.
pub trait Sums {
    /// CPU time of a component, nanoseconds; `None` if it was not measured.
    fn total_ns(&self, component: usize) -> Option<u64>;
    /// That time × the time for which one of its samples stands; see [`crate::Cost::sample_ns_ms`].
    fn sample_ns_ms(&self, component: usize) -> Option<u64>;
    /// The standard deviation of the error of ratios; see [`crate::Cost::ticks_shared_ns`]. 0 without any.
    fn ticks_shared_ns(&self, component: usize) -> u64;
    /// Total time of all CPUs, nanoseconds.
    fn capacity_ns(&self) -> u64;
    /// The factor by which sampled softirq time was multiplied.
    fn softirq_correction(&self) -> Option<Correction>;
    /// The errors of the RX softirq's time, where it was found by the length of softirqs that were timed
    /// in windows.
    fn received(&self) -> Option<Figure>;
    /// Number of samples that all CPUs would have taken at the rate of the least sampled CPU;
    /// `None` if unknown.
    fn room(&self) -> Option<u64>;
    /// The same for work of tasks; `None` if it is no other.
    fn room_in_tasks(&self) -> Option<u64>;
}

impl Sums for Snapshot {
    fn total_ns(&self, component: usize) -> Option<u64> {
        Snapshot::total_ns(self, component)
    }

    fn sample_ns_ms(&self, component: usize) -> Option<u64> {
        self.cost().sample_ns_ms.as_ref()?.get(component).copied()
    }

    fn ticks_shared_ns(&self, component: usize) -> u64 {
        let row = self.cost().ticks_shared_ns.as_ref();
        row.and_then(|row| row.get(component)).copied().unwrap_or(0)
    }

    fn capacity_ns(&self) -> u64 {
        Snapshot::capacity_ns(self)
    }

    fn softirq_correction(&self) -> Option<Correction> {
        self.cost().softirq_correction
    }

    fn received(&self) -> Option<Figure> {
        self.cost().received()
    }

    fn room(&self) -> Option<u64> {
        let cpus = self.cpus.len() as u64;
        Some(self.cost().fewest_due?.saturating_mul(cpus))
    }

    fn room_in_tasks(&self) -> Option<u64> {
        let cpus = self.cpus.len() as u64;
        Some(self.cost().fewest_due_in_tasks?.saturating_mul(cpus))
    }
}

/// Why a part of a log that an older netto has written has no intervals.
pub const UNWEIGHTED: &str =
    "written by a netto that did not record for how much time samples stand";

/// The largest share of a softirq that sampling without probes attributes to others: its first
/// and last instructions look like those of the interrupted code.
pub const UNSEEN_OF_SOFTIRQS: f64 = 0.18;

/// How far work that only the scheduler's ticks find may be off either way, as a ratio: a task that
/// competes for its CPU may run mostly after a tick, where none meets it, or until one. Beside
/// compilers, receives were 45 % less by ticks than by perf's clock, sends up to 30 % more.
pub const IN_STEP: f64 = 0.5;

/// Nanoseconds of a millisecond.
pub const NS_PER_MS: f64 = 1e6;

/// A variance, square nanoseconds, in the unit of sections: nanoseconds × milliseconds. A small one is at least
/// one, because small errors add up.
pub fn ns_ms(variance: f64) -> u64 {
    (variance / NS_PER_MS).ceil() as u64
}

/// The variance, square nanoseconds, of so many nanoseconds × milliseconds.
pub fn variance(ns_ms: u64) -> f64 {
    ns_ms as f64 * NS_PER_MS
}

/// Time with a variance in the unit of sections; see [`crate::Cost::sample_ns_ms`].
pub(crate) fn figure(ns: f64, ns_ms: u64) -> Figure {
    Figure {
        value: ns,
        variance: variance(ns_ms),
        ..Figure::default()
    }
}

/// Lowest ratio of a CPU's actual sampling rate to the requested one.
const LEAST_SAMPLED: f64 = 0.93;

/// The 95 % confidence interval of a component's time over all CPUs,
/// nanoseconds; `None` if the component is not an estimate, is not measured, or is of a log in which is
/// not recorded for how much time samples stand ([`UNWEIGHTED`]).
///
/// - A part of a whole, a part carved out of a softirq, and the rest of that softirq have the error of a
///   share ([`Figure::part_of`]). Samples of each CPU stand for as much time as they did.
/// - Work found by samples alone has the error of their sum, and so has a part of it. One more could have
///   been missed on the least sampled CPU.
/// - A softirq found by samples alone has an upper margin for the time that samples miss
///   ([`UNSEEN_OF_SOFTIRQS`]), or, if it was corrected, the error of the correction, which all CPUs,
///   intervals and parts share.
/// - The RX softirq, if its time was found by those that were timed in windows, has the errors that
///   were stated with it, and a part of it those of the whole besides that of its share.
/// - What rests on the scheduler's ticks, too, has the error of how often these meet it
///   ([`crate::Cost::ticks_shared_ns`]), which all intervals share.
/// - What the scheduler's ticks alone find may also be met too rarely or too often ([`IN_STEP`]),
///   unless a correction says by how much.
pub fn of_component(info: &Info, snapshot: &Snapshot, component: usize) -> Option<(u64, u64)> {
    of_sums(info, snapshot, component)
}

/// [`of_component`] of any sum of intervals.
pub fn of_sums(info: &Info, sums: &dyn Sums, component: usize) -> Option<(u64, u64)> {
    let described = info.components.get(component)?;
    let own_ns = sums.total_ns(component)?;
    let of_row = |row: usize| -> Option<Figure> {
        Some(Figure {
            shared: sums.ticks_shared_ns(row) as f64,
            ..figure(sums.total_ns(row)? as f64, sums.sample_ns_ms(row)?)
        })
    };
    let (low, high) = match described.kind {
        KindName::Sampled | KindName::Remainder => {
            let whole = info.row_of(described.parent.as_deref()?)?;
            if let Some(received) = received(info, sums, whole) {
                let share = ratio(own_ns, sums.total_ns(whole)?);
                let part = of_row(component)?.with_shared_error(share * received.deviation());
                part.part_of(&of_row(whole)?)
            } else if is_sampled(&info.components[whole]) {
                // What no sample shows is the remainder's.
                let unseen_ns = match (&described.kind, sums.softirq_correction()) {
                    (KindName::Remainder, None) => {
                        unseen(info, None, whole) * sums.total_ns(whole)? as f64
                    }
                    _ => 0.0,
                };
                let (low, high) = sampled(info, sums, whole, of_row(component)?)?;
                (low, high + unseen_ns)
            } else {
                of_row(component)?.part_of(&of_row(whole)?)
            }
        }
        KindName::Timed if received(info, sums, component).is_some() => {
            let received = received(info, sums, component)?;
            Figure {
                value: own_ns as f64,
                ..received
            }
            .of_clusters(0.0)
        }
        KindName::Timed | KindName::Estimated | KindName::Carved
            if is_sampled(&info.components[clocked(info, component)?]) =>
        {
            let (low, high) = sampled(info, sums, component, of_row(component)?)?;
            let unseen = match sums.softirq_correction() {
                Some(_) => 0.0,
                None => unseen(info, None, component),
            };
            (low, high * (1.0 + unseen))
        }
        KindName::Timed | KindName::Carved => {
            let whole = clocked(info, component)?;
            let rows = (0..info.components.len()).filter(|row| clocked(info, *row) == Some(whole));
            let rows: Vec<usize> = rows.filter(|row| sums.total_ns(*row).is_some()).collect();
            if rows == [whole] {
                return None;
            }
            let all: Option<Figure> = rows.into_iter().map(of_row).sum();
            of_row(component)?.part_of(&all?)
        }
        _ => return None,
    };
    Some(rounded((low, high), own_ns as f64))
}

/// Bounds in whole nanoseconds, with the value between them.
pub(crate) fn rounded((low, high): (f64, f64), value: f64) -> (u64, u64) {
    (low.min(value) as u64, high.max(value).ceil() as u64)
}

/// The interval of work that is found by samples alone, or of a part of the work in this row.
fn sampled(info: &Info, sums: &dyn Sums, row: usize, figure: Figure) -> Option<(f64, f64)> {
    let capacity_ns = sums.capacity_ns() as f64;
    let of_tasks = match kind_of(info, row) {
        kind if is_of_softirq(kind) => None,
        _ => sums.room_in_tasks(),
    };
    let period_ns = match of_tasks.or(sums.room()) {
        // Infinite where nothing was sampled.
        Some(room) => capacity_ns / room as f64,
        None => 1e9 / (LEAST_SAMPLED * info.frequency_hz.max(1) as f64),
    };
    let correction = sums.softirq_correction();
    let error = correction.map_or(0.0, |_| unseen(info, correction, row));
    let figure = figure.with_shared_error(figure.value * error / NORMAL);
    let (low, high) = figure.part_of(&Figure::weighted(capacity_ns, period_ns));
    let step = in_step(info, correction, row);
    Some((low * (1.0 - step), high * (1.0 + step)))
}

/// How far the time of an event may be off whatever the number of its samples, as a ratio: 0 if it
/// is timed.
pub fn systematic(info: &Info, correction: Option<Correction>, component: usize) -> f64 {
    let clock = clocked(info, component).and_then(|row| info.components.get(row));
    if !clock.is_some_and(is_sampled) {
        return 0.0;
    }
    let step = in_step(info, correction, component);
    let miscorrected = correction.map_or(0.0, |_| unseen(info, correction, component));
    (1.0 + miscorrected) * (1.0 + step) - 1.0
}

/// The errors of a row whose time was found by the number of softirqs.
fn received(info: &Info, sums: &dyn Sums, row: usize) -> Option<Figure> {
    let is_received = matches!(kind_of(info, row), Some(Kind::Timed(Source::NET_RX, _)));
    sums.received().filter(|_| is_received)
}

/// The row whose clock times this row: the softirq that it is carved out of, or itself.
fn clocked(info: &Info, row: usize) -> Option<usize> {
    match COMPONENTS.get(index_of(&info.components[row].slug)?)?.kind {
        Kind::Carved(source, _) => info.row_of(COMPONENTS[index_of_source(source)?].slug),
        _ => Some(row),
    }
}

fn is_sampled(row: &ComponentInfo) -> bool {
    row.availability == Availability::by(Method::Sampling)
}

/// How far a sampled row may be off because ticks are in step with the scheduler.
fn in_step(info: &Info, correction: Option<Correction>, row: usize) -> f64 {
    let is_corrected = is_of_softirq(kind_of(info, row)) && correction.is_some();
    if info.sampler.as_deref() == Some("tick") && !is_corrected {
        IN_STEP
    } else {
        0.0
    }
}

fn kind_of(info: &Info, row: usize) -> Option<Kind> {
    index_of(&info.components[row].slug).map(|row| COMPONENTS[row].kind)
}

fn is_of_softirq(kind: Option<Kind>) -> bool {
    matches!(
        kind,
        Some(Kind::Timed(Source::Softirq(_), _) | Kind::Carved(Source::Softirq(_), _))
    )
}

/// How far a sampled row may lie above its estimate, as a ratio of it.
fn unseen(info: &Info, correction: Option<Correction>, row: usize) -> f64 {
    match correction {
        _ if !is_of_softirq(kind_of(info, row)) => 0.0,
        Some(correction) => correction.error_ratio,
        None => UNSEEN_OF_SOFTIRQS / (1.0 - UNSEEN_OF_SOFTIRQS),
    }
}

/// `part / whole`; 0 if both are 0.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sections::{Cost, Sections};

    /// Says of a row that it was sampled so many times in so long, on the first CPU.
    fn set(cost: &mut Cost, row: usize, ns: u64, samples: u32) {
        cost.components[row] = Some(vec![ns, 0]);
        cost.samples[row] = Some(vec![samples, 0]);
        let sample_ms = ns as f64 / f64::from(samples) / NS_PER_MS;
        cost.sample_ns_ms.as_mut().unwrap()[row] = (ns as f64 * sample_ms) as u64;
    }

    /// One second of a host whose RX softirq is found by sampling, without a sample of it.
    fn seen_by_no_sample(fewest_due: Option<u64>) -> (Info, Snapshot) {
        let mut info = crate::fixture::info();
        let row = index_of("rx_softirq").unwrap();
        info.components[row].availability = Availability::by(Method::Sampling);
        let rows = || (0..COMPONENTS.len()).map(|_| Some(vec![0; 2]));
        let cost = Cost {
            components: rows().collect(),
            samples: (0..COMPONENTS.len()).map(|_| Some(vec![0; 2])).collect(),
            sample_ns_ms: Some(vec![0; COMPONENTS.len()]),
            fewest_due,
            ..Cost::default()
        };
        let snapshot = Snapshot {
            sequence: 1,
            time_unix_ns: 1_000_000_000,
            interval_ns: 1_000_000_000,
            cpus: vec![0, 1],
            sections: Sections {
                cost: Some(cost),
                ..Sections::default()
            },
        };
        (info, snapshot)
    }

    #[test]
    fn what_no_sample_has_met_may_be_as_much_as_the_seldomest_sampled_cpu_could_hide() {
        let most_ns = |slug: &str, fewest_due| {
            let (info, snapshot) = seen_by_no_sample(fewest_due);
            let bounds = of_component(&info, &snapshot, index_of(slug).unwrap());
            let (low, high) = bounds.unwrap();
            assert_eq!(low, 0);
            high
        };
        for slug in ["rx_softirq", "tc_classify"] {
            let often = most_ns(slug, Some(1000));
            // About four samples, each of which stands for a fiftieth of a second.
            let seldom = most_ns(slug, Some(50));
            assert!((3_000_000..8_000_000).contains(&often), "{slug}: {often}");
            assert!(
                (60_000_000..160_000_000).contains(&seldom),
                "{slug}: {seldom}"
            );
            // An older log only has the requested rate.
            let unknown = most_ns(slug, None);
            assert!((often..2 * often).contains(&unknown), "{slug}: {unknown}");
            assert!(most_ns(slug, Some(0)) >= 2_000_000_000, "{slug}");
        }
    }

    #[test]
    fn few_samples_that_came_quickly_hide_nothing_that_is_sampled_seldom() {
        let (info, mut snapshot) = seen_by_no_sample(Some(50));
        let row = index_of("rx_softirq").unwrap();
        let cost = snapshot.sections.cost.as_mut().unwrap();
        // Two samples of the other CPU, a millisecond each.
        set(cost, row, 2_000_000, 2);
        let (low, high) = of_component(&info, &snapshot, row).unwrap();
        assert!((1..1_000_000).contains(&low), "{low}");
        assert!(high > 60_000_000, "{high}");
    }

    #[test]
    fn what_ticks_alone_find_may_be_off_by_half_unless_a_correction_says_by_how_much() {
        let (mut info, mut snapshot) = seen_by_no_sample(Some(1000));
        let row = index_of("rx_softirq").unwrap();
        let cost = snapshot.sections.cost.as_mut().unwrap();
        set(cost, row, 900_000_000, 900);
        let mut width = |sampler: &str, corrected: bool| {
            info.sampler = Some(sampler.to_owned());
            let cost = snapshot.sections.cost.as_mut().unwrap();
            cost.softirq_correction = corrected.then_some(Correction {
                ratio: 1.0,
                error_ratio: 0.1,
            });
            let (low, high) = of_component(&info, &snapshot, row).unwrap();
            (low as f64 / 9e8, high as f64 / 9e8)
        };
        let (low, high) = width("tick", false);
        assert!(low < 0.5 && high > 1.5, "{low} … {high}");
        assert_eq!(width("tick", true), width("perf", true));
        assert!(width("perf", false).0 > 0.9);
    }

    #[test]
    fn a_part_of_a_corrected_softirq_is_as_uncertain_as_the_correction() {
        let (info, mut snapshot) = seen_by_no_sample(Some(1_000));
        let [row, part] = ["rx_softirq", "tc_classify"].map(|slug| index_of(slug).unwrap());
        let cost = snapshot.sections.cost.as_mut().unwrap();
        for (row, ns, samples) in [(row, 900_000_000, 90_000), (part, 300_000_000, 30_000)] {
            set(cost, row, ns, samples);
        }
        cost.fewest_due = Some(100_000);
        let mut width = |error_ratio: Option<f64>| {
            let cost = snapshot.sections.cost.as_mut().unwrap();
            cost.softirq_correction = error_ratio.map(|error_ratio| Correction {
                ratio: 1.0,
                error_ratio,
            });
            let (low, high) = of_component(&info, &snapshot, part).unwrap();
            (low as f64 / 3e8, high as f64 / 3e8)
        };
        let (low, high) = width(Some(0.2));
        assert!(low < 0.801 && high > 1.199, "{low} … {high}");
        let (low, high) = width(None);
        assert!(low > 0.95 && high < 1.05, "{low} … {high}");
        for (correction, expected) in [(0.2, 0.2), (0.0, 0.0)] {
            let correction = Correction {
                ratio: 1.0,
                error_ratio: correction,
            };
            let found = systematic(&info, Some(correction), row);
            assert!((found - expected).abs() < 1e-9, "{found}");
        }
        assert_eq!(systematic(&crate::fixture::info(), None, row), 0.0);
    }

    #[test]
    fn a_softirq_that_was_counted_is_as_uncertain_as_the_length_of_those_that_were_timed() {
        let (info, mut snapshot) = seen_by_no_sample(Some(20));
        let [row, part] = ["rx_softirq", "tc_classify"].map(|slug| index_of(slug).unwrap());
        let cost = snapshot.sections.cost.as_mut().unwrap();
        for (row, ns, samples) in [(row, 900_000_000, 8), (part, 300_000_000, 4)] {
            set(cost, row, ns, samples);
        }
        let by_samples = of_component(&info, &snapshot, row).unwrap();
        // A standard deviation of 40 ms.
        let cost = snapshot.sections.cost.as_mut().unwrap();
        (cost.received_ns_ms, cost.received_shared_ns) = (Some(1_600_000_000), Some(0));
        let (low, high) = of_component(&info, &snapshot, row).unwrap();
        assert!(low > 820_000_000 && high < 980_000_000, "{low} … {high}");
        assert!(high - low < (by_samples.1 - by_samples.0) / 3);
        let (low, high) = of_component(&info, &snapshot, part).unwrap();
        // Four samples of eight, each of which stands for 75 ms of 900.
        assert!(low < 140_000_000 && high > 560_000_000, "{low} … {high}");
        // That of the sum of two is the root of the sum of their squares.
        let more = snapshot.clone();
        snapshot.add(&more);
        let (low, high) = of_component(&info, &snapshot, row).unwrap();
        let width = (high - low) as f64 / 2.0;
        assert!(
            (width / (NORMAL * 40e6 * 2f64.sqrt()) - 1.0).abs() < 0.01,
            "{width}"
        );
        // But an error that intervals share adds up.
        let cost = snapshot.sections.cost.as_mut().unwrap();
        (cost.received_ns_ms, cost.received_shared_ns) = (Some(0), Some(40_000_000));
        let more = snapshot.clone();
        snapshot.add(&more);
        let (low, high) = of_component(&info, &snapshot, row).unwrap();
        let width = (high - low) as f64 / 2.0;
        assert!((width / (NORMAL * 80e6) - 1.0).abs() < 0.01, "{width}");
    }

    #[test]
    fn what_rests_on_ticks_is_as_uncertain_as_how_often_they_meet_it_in_all_intervals_alike() {
        let (mut info, mut snapshot) = seen_by_no_sample(Some(1_000));
        let [row, part] = ["rx_softirq", "tc_classify"].map(|slug| index_of(slug).unwrap());
        info.components[row].availability = Availability::by(Method::TpBtf);
        let cost = snapshot.sections.cost.as_mut().unwrap();
        for (row, ns, samples) in [(row, 900_000_000, 90_000), (part, 300_000_000, 30_000)] {
            set(cost, row, ns, samples);
        }
        let width = |snapshot: &Snapshot| {
            let (low, high) = of_component(&info, snapshot, part).unwrap();
            (high - low) as f64 / 2e6
        };
        assert!(width(&snapshot) < 5.0);
        let cost = snapshot.sections.cost.as_mut().unwrap();
        let mut shared_ns = vec![0; COMPONENTS.len()];
        shared_ns[part] = 20_000_000;
        cost.ticks_shared_ns = Some(shared_ns);
        let one = width(&snapshot);
        assert!((one / (NORMAL * 20.0) - 1.0).abs() < 0.02, "{one}");
        let more = snapshot.clone();
        snapshot.add(&more);
        let two = width(&snapshot);
        assert!((two / (2.0 * one) - 1.0).abs() < 0.02, "{two}");
        let mut without = more;
        without.sections.cost.as_mut().unwrap().ticks_shared_ns = None;
        snapshot.add(&without);
        assert!((width(&snapshot) / two - 1.0).abs() < 0.02, "perf alone");
    }

    #[test]
    fn what_an_older_netto_has_written_has_no_intervals_and_neither_has_a_sum_with_it() {
        let row = index_of("rx_softirq").unwrap();
        let (info, new) = seen_by_no_sample(Some(50));
        let (_, mut old) = seen_by_no_sample(Some(50));
        old.sections.cost.as_mut().unwrap().sample_ns_ms = None;
        assert!(of_component(&info, &new, row).is_some());
        assert_eq!(of_component(&info, &old, row), None);
        for (first, second) in [(&old, &new), (&new, &old)] {
            let mut sum = first.clone();
            sum.add(second);
            assert_eq!(of_component(&info, &sum, row), None);
        }
    }

    #[test]
    fn of_two_intervals_the_room_for_samples_adds_up() {
        let (_, mut sum) = seen_by_no_sample(Some(50));
        sum.add(&seen_by_no_sample(Some(1000)).1);
        sum.add(&seen_by_no_sample(None).1);
        assert_eq!(Sums::room(&sum), Some(2 * 1050));
    }
}
