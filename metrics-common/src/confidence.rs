//! The uncertainty of an estimate from samples. Pure arithmetic.

use crate::component::{COMPONENTS, Kind, Source, index_of, index_of_source};
use crate::info::{Availability, ComponentInfo, Info};
use crate::sections::Correction;
use crate::snapshot::Snapshot;
use crate::words::{KindName, Method};

/// The sums over intervals and CPUs from which a confidence interval is computed.
pub trait Sums {
    /// CPU time of a component, nanoseconds; `None` if it was not measured.
    fn total_ns(&self, component: usize) -> Option<u64>;
    /// Samples on which the split of a component rests; `None` if it is not split.
    fn samples(&self, component: usize) -> Option<u64>;
    /// Total time of all CPUs, nanoseconds.
    fn capacity_ns(&self) -> u64;
    /// The factor by which sampled softirq time was multiplied.
    fn softirq_correction(&self) -> Option<Correction>;
    /// The variance of the RX softirq's time, nanoseconds × milliseconds, where it was found by the
    /// length of softirqs that were timed in windows.
    fn received_ns_ms(&self) -> Option<u64>;
    /// Number of samples that all CPUs would have taken at the rate of the least sampled CPU;
    /// `None` if unknown.
    fn room(&self) -> Option<u64>;
}

impl Sums for Snapshot {
    fn total_ns(&self, component: usize) -> Option<u64> {
        Snapshot::total_ns(self, component)
    }

    fn samples(&self, component: usize) -> Option<u64> {
        let row = self.cost().samples_of(component)?;
        Some(row.iter().map(|&count| u64::from(count)).sum())
    }

    fn capacity_ns(&self) -> u64 {
        Snapshot::capacity_ns(self)
    }

    fn softirq_correction(&self) -> Option<Correction> {
        self.cost().softirq_correction
    }

    fn received_ns_ms(&self) -> Option<u64> {
        self.cost().received_ns_ms
    }

    fn room(&self) -> Option<u64> {
        let cpus = self.cpus.len() as u64;
        Some(self.cost().fewest_due?.saturating_mul(cpus))
    }
}

/// The two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// The 95 % confidence interval of a share that was found in a number of samples, as ratios
/// from 0 to 1 (E. B. Wilson, 1927, with the correction for continuity: R. G. Newcombe, 1998,
/// method 4). Unlike the usual normal approximation it is right for few samples and for shares near
/// 0 and 1. Without the correction, the true share of a rare part would lie outside the interval in
/// up to a sixth of the cases. With no sample, the interval is 0 to 1.
pub fn wilson(share_ratio: f64, samples: u64) -> (f64, f64) {
    if samples == 0 || !share_ratio.is_finite() {
        return (0.0, 1.0);
    }
    let share = share_ratio.clamp(0.0, 1.0);
    let n = samples as f64;
    let z2 = Z * Z;
    let low = |share: f64| {
        // The correction subtracts half a sample.
        if share * n <= 0.5 {
            return 0.0;
        }
        let root = z2 - 2.0 - 1.0 / n + 4.0 * share * (n * (1.0 - share) + 1.0);
        (2.0 * n * share + z2 - 1.0 - Z * root.sqrt()) / (2.0 * (n + z2))
    };
    // Rounding may move a bound just beyond the share itself.
    (
        low(share).clamp(0.0, share),
        (1.0 - low(1.0 - share)).clamp(share, 1.0),
    )
}

/// The largest share of a softirq that sampling without probes attributes to others: its first
/// and last instructions look like those of the interrupted code.
pub const UNSEEN_OF_SOFTIRQS: f64 = 0.18;

/// How far work that only the scheduler's ticks find may be off either way, as a ratio: a task that
/// competes for its CPU may run mostly after a tick, where none meets it, or until one. Beside
/// compilers, receives were 45 % less by ticks than by perf's clock, sends up to 30 % more.
pub const IN_STEP: f64 = 0.5;

const NS_PER_MS: f64 = 1e6;

/// Lowest ratio of a CPU's actual sampling rate to the requested one.
const LEAST_SAMPLED: f64 = 0.93;

/// The 95 % confidence interval of a component's time over all CPUs,
/// nanoseconds; `None` if the component is not an estimate, or is not measured.
///
/// - A part's share of its whole has the uncertainty of a share of the whole's samples. The
///   same holds for a part carved out of a softirq, and for the rest of that softirq. With no sample
///   of the whole, a part may be anything between nothing and the whole.
/// - Work found by samples alone has the uncertainty of their count, relative to all samples
///   that the interval had room for; the same holds for a part of such work. With no sample, the
///   upper bound is about four samples (the rule of three). If CPUs are sampled at different rates,
///   the least sampled one decides.
/// - A softirq found by samples alone has an upper margin for the time that samples miss
///   ([`UNSEEN_OF_SOFTIRQS`]), or, if it was corrected, the uncertainty of the correction.
///   The latter is also that of each of its parts.
/// - The RX softirq, if its time was found by those that were timed in windows, has the variance that
///   was stated with it, and a part of it that of the whole besides that of its share.
/// - What the scheduler's ticks alone find may also be met too rarely or too often ([`IN_STEP`]),
///   unless a correction says by how much.
///
/// Only samples of the interval itself count. The split may also rest on older ones
/// ([`crate::Cost::split_basis`]), which narrow no interval.
pub fn of_component(info: &Info, snapshot: &Snapshot, component: usize) -> Option<(u64, u64)> {
    of_sums(info, snapshot, component)
}

/// [`of_component`] of any sum of intervals.
pub fn of_sums(info: &Info, sums: &impl Sums, component: usize) -> Option<(u64, u64)> {
    let described = info.components.get(component)?;
    let own_ns = sums.total_ns(component)?;
    let parent = || row_of(info, described.parent.as_deref()?);
    let (low, high) = match described.kind {
        KindName::Sampled | KindName::Remainder => {
            let whole = parent()?;
            let whole_ns = sums.total_ns(whole)?;
            let share = || Some(wilson(ratio(own_ns, whole_ns), sums.samples(whole)?));
            if let Some(off_ns) = counted_off_ns(info, sums, whole) {
                let (low, high) = share()?;
                let least_ns = (whole_ns as f64 - off_ns).max(0.0);
                (low * least_ns, high * (whole_ns as f64 + off_ns))
            } else if is_sampled(&info.components[whole]) {
                let (low, high) = counted(info, sums, whole, own_ns)?;
                let correction = sums.softirq_correction();
                let step = in_step(info, correction, whole);
                let low = low * (1.0 - miscorrected(info, correction, whole)) * (1.0 - step);
                let high = high * (1.0 + step);
                // What no sample shows is the remainder's; a wrong factor is every part's.
                let off = unseen(info, correction, whole);
                let high = match (&described.kind, correction) {
                    (KindName::Remainder, _) => high + off * whole_ns as f64,
                    (_, Some(_)) => high * (1.0 + off),
                    (_, None) => high,
                };
                (low, high)
            } else {
                let (low, high) = share()?;
                (low * whole_ns as f64, high * whole_ns as f64)
            }
        }
        KindName::Timed if counted_off_ns(info, sums, component).is_some() => {
            let off_ns = counted_off_ns(info, sums, component)?;
            ((own_ns as f64 - off_ns).max(0.0), own_ns as f64 + off_ns)
        }
        KindName::Timed | KindName::Estimated | KindName::Carved
            if is_sampled(&info.components[clocked(info, component)?]) =>
        {
            let (low, high) = counted(info, sums, component, own_ns)?;
            let correction = sums.softirq_correction();
            let step = in_step(info, correction, component);
            let low = low * (1.0 - miscorrected(info, correction, component)) * (1.0 - step);
            let high = high * (1.0 + unseen(info, correction, component));
            (low, high * (1.0 + step))
        }
        KindName::Timed | KindName::Carved => carved(info, sums, component, own_ns)?,
        _ => return None,
    };
    Some(((low as u64).min(own_ns), (high.ceil() as u64).max(own_ns)))
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

/// How far the time of an event may be off that was found by the number of softirqs, nanoseconds.
fn counted_off_ns(info: &Info, sums: &impl Sums, row: usize) -> Option<f64> {
    let component = index_of(&info.components[row].slug).map(|row| COMPONENTS[row].kind);
    let is_received = matches!(component, Some(Kind::Timed(Source::NET_RX, _)));
    let variance = sums.received_ns_ms().filter(|_| is_received)?;
    Some(Z * (variance as f64 * NS_PER_MS).sqrt())
}

/// The interval of work that is found by samples alone, or of a part of it; `own_ns` is its
/// time.
fn counted(info: &Info, sums: &impl Sums, whole: usize, own_ns: u64) -> Option<(f64, f64)> {
    let samples = sums.samples(whole)?;
    let capacity_ns = sums.capacity_ns();
    let room_of = |period_ns: f64| (capacity_ns as f64 / period_ns.max(1.0)) as u64;
    let room = match (samples, sums.room()) {
        (0, Some(room)) => room,
        (0, None) => room_of(1e9 / (LEAST_SAMPLED * info.frequency_hz.max(1) as f64)),
        (samples, room) => {
            let mean = room_of(sums.total_ns(whole)? as f64 / samples as f64);
            // Work on rarely sampled CPUs may be missed by the others' samples.
            room.map_or(mean, |room| mean.min(room))
        }
    };
    let (low, high) = wilson(ratio(own_ns, capacity_ns), room.max(samples));
    Some((low * capacity_ns as f64, high * capacity_ns as f64))
}

/// The interval of a part carved out of a softirq's time, or of the softirq's rest.
fn carved(info: &Info, sums: &impl Sums, row: usize, own_ns: u64) -> Option<(f64, f64)> {
    let whole = clocked(info, row)?;
    let (mut whole_ns, mut samples, mut is_split) = (0_u64, 0_u64, false);
    for row in 0..info.components.len() {
        if let (true, Some(ns)) = (clocked(info, row) == Some(whole), sums.total_ns(row)) {
            is_split |= row != whole;
            whole_ns = whole_ns.saturating_add(ns);
            samples = samples.saturating_add(sums.samples(row).unwrap_or(0));
        }
    }
    let (low, high) = wilson(ratio(own_ns, whole_ns), samples);
    is_split.then_some((low * whole_ns as f64, high * whole_ns as f64))
}

/// The row whose clock times this row: the softirq that it is carved out of, or itself.
fn clocked(info: &Info, row: usize) -> Option<usize> {
    match COMPONENTS.get(index_of(&info.components[row].slug)?)?.kind {
        Kind::Carved(source, _) => row_of(info, COMPONENTS[index_of_source(source)?].slug),
        _ => Some(row),
    }
}

fn row_of(info: &Info, slug: &str) -> Option<usize> {
    info.components.iter().position(|c| c.slug == slug)
}

fn is_sampled(row: &ComponentInfo) -> bool {
    row.availability == Availability::by(Method::Sampling)
}

/// How far a row may lie below its estimate, because the correction for unseen time may be too
/// large, as a ratio of the estimate.
fn miscorrected(info: &Info, correction: Option<Correction>, row: usize) -> f64 {
    match correction {
        Some(_) => unseen(info, correction, row).clamp(0.0, 1.0),
        None => 0.0,
    }
}

/// How far a sampled row may be off because ticks are in step with the scheduler.
fn in_step(info: &Info, correction: Option<Correction>, row: usize) -> f64 {
    let component = index_of(&info.components[row].slug).map(|row| COMPONENTS[row].kind);
    let is_corrected = is_of_softirq(component) && correction.is_some();
    match info.sampler.as_deref() == Some("tick") && !is_corrected {
        true => IN_STEP,
        false => 0.0,
    }
}

fn is_of_softirq(kind: Option<Kind>) -> bool {
    matches!(
        kind,
        Some(Kind::Timed(Source::Softirq(_), _) | Kind::Carved(Source::Softirq(_), _))
    )
}

/// How far a sampled row may lie above its estimate, as a ratio of it.
fn unseen(info: &Info, correction: Option<Correction>, row: usize) -> f64 {
    let component = index_of(&info.components[row].slug).map(|row| COMPONENTS[row].kind);
    match correction {
        _ if !is_of_softirq(component) => 0.0,
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

    #[test]
    fn known_intervals_come_out() {
        // Values from the literature (Newcombe 1998, table I, method 4).
        for (hits, samples, low, high) in [
            (81, 263, 0.2535, 0.3682),
            (15, 148, 0.0598, 0.1644),
            (0, 20, 0.0, 0.2005),
            (1, 29, 0.0018, 0.1963),
        ] {
            let found = wilson(f64::from(hits) / samples as f64, samples);
            assert!((found.0 - low).abs() < 1e-4, "{hits}/{samples}: {found:?}");
            assert!((found.1 - high).abs() < 1e-4, "{hits}/{samples}: {found:?}");
        }
    }

    /// The worst coverage over all rates, computed by the Poisson distribution itself.
    #[test]
    fn however_rare_a_part_is_its_interval_contains_it_as_often_as_it_says() {
        const SAMPLES: u64 = 100_000;
        for expected in (1..2_000).map(|hundredth| f64::from(hundredth) / 100.0) {
            let mut chance = (-expected).exp();
            let mut covered = 0.0;
            for count in 0..100 {
                let (low, high) = wilson(f64::from(count) / SAMPLES as f64, SAMPLES);
                if (low..=high).contains(&(expected / SAMPLES as f64)) {
                    covered += chance;
                }
                chance *= expected / f64::from(count + 1);
            }
            assert!(covered >= 0.945, "{expected} expected samples: {covered}");
        }
    }

    #[test]
    fn more_samples_know_more_and_none_know_nothing() {
        assert_eq!(wilson(0.3, 0), (0.0, 1.0));
        let widths: Vec<f64> = [1, 10, 100, 10_000]
            .map(|samples| wilson(0.3, samples))
            .map(|(low, high)| high - low)
            .to_vec();
        assert!(widths.is_sorted_by(|a, b| a > b), "{widths:?}");
    }

    #[test]
    fn a_share_of_less_than_half_a_sample_may_be_nothing() {
        for samples in [1, 2, 50] {
            assert_eq!(wilson(0.4 / samples as f64, samples).0, 0.0);
            assert_eq!(wilson(1.0 - 0.4 / samples as f64, samples).1, 1.0);
        }
    }

    #[test]
    fn the_share_lies_in_its_interval_and_the_interval_among_the_ratios() {
        for share in [-1.0, 0.0, 1e-9, 0.5, 1.0 - 1e-12, 1.0, 2.0] {
            for samples in [1, 7, 1_000_000] {
                let (low, high) = wilson(share, samples);
                let share = share.clamp(0.0, 1.0);
                assert!(0.0 <= low && low <= share && share <= high && high <= 1.0);
            }
        }
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
        cost.components[row] = Some(vec![2_000_000, 0]);
        cost.samples[row] = Some(vec![2, 0]);
        let (low, high) = of_component(&info, &snapshot, row).unwrap();
        assert_eq!(low, 0);
        assert!(high > 60_000_000, "{high}");
    }

    #[test]
    fn what_ticks_alone_find_may_be_off_by_half_unless_a_correction_says_by_how_much() {
        let (mut info, mut snapshot) = seen_by_no_sample(Some(1000));
        let row = index_of("rx_softirq").unwrap();
        let cost = snapshot.sections.cost.as_mut().unwrap();
        cost.components[row] = Some(vec![500_000_000, 400_000_000]);
        cost.samples[row] = Some(vec![500, 400]);
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
            cost.components[row] = Some(vec![ns, 0]);
            cost.samples[row] = Some(vec![samples, 0]);
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
        assert!(low < 0.8 && high > 1.2, "{low} … {high}");
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
            cost.components[row] = Some(vec![ns, 0]);
            cost.samples[row] = Some(vec![samples, 0]);
        }
        let by_samples = of_component(&info, &snapshot, row).unwrap();
        // A standard deviation of 40 ms.
        snapshot.sections.cost.as_mut().unwrap().received_ns_ms = Some(1_600_000_000);
        let (low, high) = of_component(&info, &snapshot, row).unwrap();
        assert!(low > 820_000_000 && high < 980_000_000, "{low} … {high}");
        assert!(high - low < (by_samples.1 - by_samples.0) / 3);
        let (low, high) = of_component(&info, &snapshot, part).unwrap();
        let (least, most) = wilson(1.0 / 3.0, 8);
        assert!((low as f64) < least * 9e8 && high as f64 > most * 9e8);
        // That of the sum of two is the root of the sum of their squares.
        let more = snapshot.clone();
        snapshot.add(&more);
        let (low, high) = of_component(&info, &snapshot, row).unwrap();
        let width = (high - low) as f64 / 2.0;
        assert!(
            (width / (Z * 40e6 * 2f64.sqrt()) - 1.0).abs() < 0.01,
            "{width}"
        );
    }

    #[test]
    fn of_two_intervals_the_room_for_samples_adds_up() {
        let (_, mut sum) = seen_by_no_sample(Some(50));
        sum.add(&seen_by_no_sample(Some(1000)).1);
        sum.add(&seen_by_no_sample(None).1);
        assert_eq!(Sums::room(&sum), Some(2 * 1050));
    }
}
