//! How far an estimate from samples may be off. Pure arithmetic.

use crate::component::{COMPONENTS, Kind, Source, index_of, index_of_source};
use crate::info::{Availability, ComponentInfo, Info};
use crate::sections::Correction;
use crate::snapshot::Snapshot;
use crate::words::{KindName, Method};

/// What intervals hold about each component, over all CPUs: what a confidence interval follows from.
pub trait Sums {
    /// CPU time of a component, nanoseconds; `None` if it was not measured.
    fn total_ns(&self, component: usize) -> Option<u64>;
    /// Samples on which the split of a component rests; `None` if it is not split.
    fn samples(&self, component: usize) -> Option<u64>;
    /// Nanoseconds that all CPUs had.
    fn capacity_ns(&self) -> u64;
    /// By what sampled softirqs were multiplied.
    fn softirq_correction(&self) -> Option<Correction>;
    /// Samples that all CPUs were due, had each been sampled as seldom as the one that was
    /// sampled least; `None` if not known.
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

    fn room(&self) -> Option<u64> {
        let cpus = self.cpus.len() as u64;
        Some(self.cost().fewest_due?.saturating_mul(cpus))
    }
}

/// The two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// The 95 % confidence interval of a share that was found in a number of
/// samples, as ratios from 0 to 1 (E. B. Wilson, 1927, with the correction for
/// continuity: R. G. Newcombe, 1998, method 4). Unlike the usual normal
/// approximation it is right for few samples and for shares near 0 and 1; without
/// the correction a rare part, of which there is seldom a sample, would lie outside
/// in up to a sixth of the cases.
/// Without a sample nothing is known: the interval is everything.
pub fn wilson(share_ratio: f64, samples: u64) -> (f64, f64) {
    if samples == 0 || !share_ratio.is_finite() {
        return (0.0, 1.0);
    }
    let share = share_ratio.clamp(0.0, 1.0);
    let n = samples as f64;
    let z2 = Z * Z;
    let low = |share: f64| {
        // Half a sample is what the correction takes away.
        if share * n <= 0.5 {
            return 0.0;
        }
        let root = z2 - 2.0 - 1.0 / n + 4.0 * share * (n * (1.0 - share) + 1.0);
        (2.0 * n * share + z2 - 1.0 - Z * root.sqrt()) / (2.0 * (n + z2))
    };
    // Rounding may push a bound just across the share itself.
    (
        low(share).clamp(0.0, share),
        (1.0 - low(1.0 - share)).clamp(share, 1.0),
    )
}

/// The most of a softirq that sampling without probes leaves to others, as a ratio:
/// its first and last instructions look like those of whoever was interrupted.
pub const UNSEEN_OF_SOFTIRQS: f64 = 0.18;

/// How much less than asked for a CPU is sampled at most, as a ratio.
const LEAST_SAMPLED: f64 = 0.93;

/// The 95 % confidence interval of a component's time over all CPUs,
/// nanoseconds; `None` if the component is not an estimate, or is not measured.
///
/// - A part's share of its whole is as uncertain as the share of the whole's samples.
///   So is what is carved out of a softirq, and what the softirq keeps. Of a whole
///   without a sample, a part may have everything or nothing.
/// - Work that is found by its samples alone is as uncertain as their number, of all
///   the samples that the interval had room for; so is a part of such work. No
///   sample says: hardly more than four would have been (the rule of three). Where CPUs
///   are sampled unequally, the one that is sampled least decides.
/// - What samples cannot see of a softirq that is found by them alone is above that
///   ([`UNSEEN_OF_SOFTIRQS`]), or, where it was corrected, as uncertain as the correction.
///
/// Only samples of the interval itself count, although its split may rest on older
/// ones too ([`crate::Cost::split_basis`]): these narrow no interval.
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
            if is_sampled(&info.components[whole]) {
                let (low, high) = counted(info, sums, whole, own_ns)?;
                let unseen_ns = match described.kind {
                    KindName::Remainder => unseen(info, sums, whole) * whole_ns as f64,
                    _ => 0.0,
                };
                (low, high + unseen_ns)
            } else {
                let (low, high) = wilson(ratio(own_ns, whole_ns), sums.samples(whole)?);
                (low * whole_ns as f64, high * whole_ns as f64)
            }
        }
        KindName::Timed | KindName::Estimated | KindName::Carved
            if is_sampled(&info.components[clocked(info, component)?]) =>
        {
            let (low, high) = counted(info, sums, component, own_ns)?;
            let low = low * (1.0 - miscorrected(info, sums, component));
            (low, high * (1.0 + unseen(info, sums, component)))
        }
        KindName::Timed | KindName::Carved => carved(info, sums, component, own_ns)?,
        _ => return None,
    };
    Some(((low as u64).min(own_ns), (high.ceil() as u64).max(own_ns)))
}

/// The interval of work that its samples alone tell, or of a part of it, whose time is
/// `own_ns`.
fn counted(info: &Info, sums: &impl Sums, whole: usize, own_ns: u64) -> Option<(f64, f64)> {
    let samples = sums.samples(whole)?;
    let capacity_ns = sums.capacity_ns();
    let room_of = |period_ns: f64| (capacity_ns as f64 / period_ns.max(1.0)) as u64;
    let room = match (samples, sums.room()) {
        (0, Some(room)) => room,
        (0, None) => room_of(1e9 / (LEAST_SAMPLED * info.frequency_hz.max(1) as f64)),
        (samples, room) => {
            let mean = room_of(sums.total_ns(whole)? as f64 / samples as f64);
            // What was sampled seldom may hide behind what was sampled often.
            room.map_or(mean, |room| mean.min(room))
        }
    };
    let (low, high) = wilson(ratio(own_ns, capacity_ns), room.max(samples));
    Some((low * capacity_ns as f64, high * capacity_ns as f64))
}

/// The interval of what was carved out of a softirq's time, or of what that kept.
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

/// The row whose clock a row's time comes from: the softirq that it is carved out of, or itself.
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

/// How much less than found a row may be, because too much may have been added for what samples
/// do not see, as a ratio of it.
fn miscorrected(info: &Info, sums: &impl Sums, row: usize) -> f64 {
    match sums.softirq_correction() {
        Some(_) => unseen(info, sums, row).clamp(0.0, 1.0),
        None => 0.0,
    }
}

/// How much more than found a row may be that is found by sampling, as a ratio of that.
fn unseen(info: &Info, sums: &impl Sums, row: usize) -> f64 {
    let component = index_of(&info.components[row].slug).map(|row| COMPONENTS[row].kind);
    match component {
        Some(Kind::Timed(Source::Softirq(_), _) | Kind::Carved(Source::Softirq(_), _)) => {
            match sums.softirq_correction() {
                Some(correction) => correction.error_ratio,
                None => UNSEEN_OF_SOFTIRQS / (1.0 - UNSEEN_OF_SOFTIRQS),
            }
        }
        _ => 0.0,
    }
}

/// `part / whole`; 0 of nothing.
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
        // Values of the literature (Newcombe 1998, table I, method 4).
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

    /// The worst of all rates, by the Poisson distribution itself.
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

    /// A second of a host whose RX softirq is found by sampling, and of which no sample is.
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
            // Four samples or so, each of which stands for a fiftieth of a second.
            let seldom = most_ns(slug, Some(50));
            assert!((3_000_000..8_000_000).contains(&often), "{slug}: {often}");
            assert!(
                (60_000_000..160_000_000).contains(&seldom),
                "{slug}: {seldom}"
            );
            // Of an older log, the rate that was asked for is all that is known.
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
        // Two samples, a millisecond each, of the other CPU.
        cost.components[row] = Some(vec![2_000_000, 0]);
        cost.samples[row] = Some(vec![2, 0]);
        let (low, high) = of_component(&info, &snapshot, row).unwrap();
        assert_eq!(low, 0);
        assert!(high > 60_000_000, "{high}");
    }

    #[test]
    fn of_two_intervals_the_room_for_samples_adds_up() {
        let (_, mut sum) = seen_by_no_sample(Some(50));
        sum.add(&seen_by_no_sample(Some(1000)).1);
        sum.add(&seen_by_no_sample(None).1);
        assert_eq!(Sums::room(&sum), Some(2 * 1050));
    }
}
