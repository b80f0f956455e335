//! How far an estimate from samples may be off. Pure arithmetic.

use crate::snapshot::{Availability, ComponentInfo, Info, Snapshot};

/// The two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// The 95 % confidence interval of a share that was found in a number of
/// samples, as ratios from 0 to 1 (E. B. Wilson, 1927). Unlike the usual normal
/// approximation it is right for few samples and for shares near 0 and 1.
/// Without a sample nothing is known: the interval is everything.
pub fn wilson(share_ratio: f64, samples: u64) -> (f64, f64) {
    if samples == 0 || !share_ratio.is_finite() {
        return (0.0, 1.0);
    }
    let share = share_ratio.clamp(0.0, 1.0);
    let n = samples as f64;
    let z2 = Z * Z;
    let scale = 1.0 / (1.0 + z2 / n);
    let center = scale * (share + z2 / (2.0 * n));
    let half = scale * Z * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    // Rounding may push a bound just across the share itself.
    (
        (center - half).clamp(0.0, share),
        (center + half).clamp(share, 1.0),
    )
}

/// The 95 % confidence interval of a component's time over all CPUs,
/// nanoseconds; `None` if the component is not an estimate, or rests on nothing.
///
/// A part's share of its whole is uncertain as the share of the whole's samples
/// is; work that is found by its samples alone is uncertain as their number is,
/// of all the samples that the interval had room for; so is a part of such work.
pub fn of_component(info: &Info, snapshot: &Snapshot, component: usize) -> Option<(u64, u64)> {
    let samples_of = |row: usize| -> Option<u64> {
        let row = snapshot.samples.get(row)?.as_ref()?;
        Some(row.iter().map(|&count| u64::from(count)).sum()).filter(|&samples| samples > 0)
    };
    let described = info.components.get(component)?;
    let own_ns = snapshot.total_ns(component)? as f64;
    let scaled =
        |(low, high): (f64, f64), to: f64| Some(((low * to) as u64, (high * to).ceil() as u64));
    let is_sampled = |row: &ComponentInfo| row.availability == Availability::by("sampling");
    let room = (snapshot.capacity_ns() as f64 * info.frequency_hz as f64 / 1e9) as u64;
    match described.kind.as_str() {
        "sampled" | "remainder" => {
            let parent = described.parent.as_deref()?;
            let whole = info.components.iter().position(|c| c.slug == parent)?;
            let whole_ns = snapshot.total_ns(whole)? as f64;
            let samples = samples_of(whole)?;
            let share = own_ns / whole_ns;
            if is_sampled(&info.components[whole]) {
                let whole_share = samples as f64 / room.max(samples) as f64;
                let bounds = wilson(share * whole_share, room.max(samples));
                return scaled(bounds, whole_ns / whole_share);
            }
            scaled(wilson(share, samples), whole_ns)
        }
        "timed" | "estimated" | "carved" if described.kind != "timed" || is_sampled(described) => {
            let samples = samples_of(component)?;
            let share = samples as f64 / room.max(samples) as f64;
            scaled(wilson(share, room.max(samples)), own_ns / share)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_intervals_come_out() {
        // Values of the literature (Newcombe 1998, table I): 81 of 263, 15 of 148, 0 of 20, 1 of 29.
        for (hits, samples, low, high) in [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
        ] {
            let found = wilson(f64::from(hits) / samples as f64, samples);
            assert!((found.0 - low).abs() < 1e-4, "{hits}/{samples}: {found:?}");
            assert!((found.1 - high).abs() < 1e-4, "{hits}/{samples}: {found:?}");
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
    fn the_share_lies_in_its_interval_and_the_interval_among_the_ratios() {
        for share in [-1.0, 0.0, 1e-9, 0.5, 1.0 - 1e-12, 1.0, 2.0] {
            for samples in [1, 7, 1_000_000] {
                let (low, high) = wilson(share, samples);
                let share = share.clamp(0.0, 1.0);
                assert!(0.0 <= low && low <= share && share <= high && high <= 1.0);
            }
        }
    }
}
