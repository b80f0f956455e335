//! Times and counts as a log keeps them: in steps that are narrower than what chance scatters,
//! with nothing lost in sums.
//!
//! The nanoseconds of an interval take four times as much room as everything that they say: the
//! next interval of the same load differs in all but the first digits. So CPU times are kept in
//! multiples of [`TIME_UNIT_NS`], and these as well as counts in `steps`; what a value is more or
//! less than its step is added to the next value of the same CPU and row that is not 0. Over any
//! time, therefore, a sum is right but for half a step at either end. A whole is the sum of its
//! rounded parts and its own rounded rest, so that parts still sum to their whole.
//!
//! What netto itself takes of each CPU, an estimate, is rounded in the same way, as are packets of
//! each CPU, messages and polls, and power to seven digits. All else stays as it is.

use super::steps;
use crate::component::COMPONENTS;
use crate::sections::SUMS;
use crate::snapshot::Snapshot;

/// Times are kept in multiples of this, nanoseconds: 20 millionths of half a second.
pub const TIME_UNIT_NS: u64 = 10_000;

/// What was left over, nanoseconds or counts, by row and CPU.
type Left = Vec<Vec<i64>>;

/// Rounds the snapshots of a log, one after the other; see the head of this file.
#[derive(Debug, Default)]
pub struct Rounding {
    /// The CPUs of what follows; when they change, what is left over is dropped.
    cpus: Vec<u32>,
    components: Left,
    entries: Left,
    ksoftirqd: Left,
    taken: Left,
    softnet: Left,
    work: Left,
}

impl Rounding {
    /// The snapshot as it is to be kept.
    pub fn round(&mut self, snapshot: &Snapshot) -> Snapshot {
        let mut snapshot = snapshot.clone();
        if self.cpus != snapshot.cpus {
            *self = Rounding {
                cpus: snapshot.cpus.clone(),
                ..Rounding::default()
            };
        }
        if let Some(own) = &mut snapshot.sections.own {
            round_rows(&mut own.taken_ns, &mut self.taken, 5 * TIME_UNIT_NS);
            for ratio in own
                .costliest
                .iter_mut()
                .map(|costliest| &mut costliest.ratio)
            {
                *ratio = seven_digits(*ratio);
            }
        }
        if let Some(traffic) = &mut snapshot.sections.traffic {
            round_rows(&mut traffic.softnet, &mut self.softnet, 1);
            if let Some(work) = &mut traffic.work {
                round_counts(&mut work.counts, &mut self.work);
            }
        }
        if let Some(power) = &mut snapshot.sections.power {
            let zones = power.zones.iter_mut().map(|zone| &mut zone.energy_joules);
            let host = [
                &mut power.host_watts,
                &mut power.network_watts,
                &mut power.network_energy_joules,
            ];
            for value in host.into_iter().chain(zones) {
                *value = seven_digits(*value);
            }
        }
        let Some(cost) = &mut snapshot.sections.cost else {
            return snapshot;
        };
        let sums = match cost.components.len() == COMPONENTS.len() {
            true => SUMS.as_slice(),
            false => &[],
        };
        // Wholes stand before their parts: what they have of their own, first.
        let is_sum: Vec<bool> = sums
            .iter()
            .rev()
            .map(|(whole, parts)| with_parts(&mut cost.components, *whole, parts, u64::checked_sub))
            .collect();
        round_rows(&mut cost.components, &mut self.components, TIME_UNIT_NS);
        for ((whole, parts), is_sum) in sums.iter().zip(is_sum.into_iter().rev()) {
            if is_sum {
                with_parts(&mut cost.components, *whole, parts, u64::checked_add);
            }
        }
        round_rows(&mut cost.entries, &mut self.entries, 1);
        if let Some(row) = cost.ksoftirqd_rx_ns.take() {
            let mut rows = vec![Some(row)];
            round_rows(&mut rows, &mut self.ksoftirqd, TIME_UNIT_NS);
            cost.ksoftirqd_rx_ns = rows.pop().flatten();
        }
        snapshot
    }
}

/// A value as exactly as half the room allows.
fn seven_digits(value: f64) -> f64 {
    f64::from(value as f32)
}

/// Takes the parts out of a whole, or adds them to it; `false`, and nothing done, where that is
/// not possible.
fn with_parts(
    rows: &mut [Option<Vec<u64>>],
    whole: usize,
    parts: &[usize],
    with: fn(u64, u64) -> Option<u64>,
) -> bool {
    let row = (|| {
        let mut row = rows.get(whole)?.clone()?;
        for part in parts.iter().filter_map(|&part| rows.get(part)?.as_ref()) {
            if part.len() != row.len() {
                return None;
            }
            for (value, part) in row.iter_mut().zip(part) {
                *value = with(*value, *part)?;
            }
        }
        Some(row)
    })();
    let is_done = row.is_some();
    if is_done {
        rows[whole] = row;
    }
    is_done
}

fn round_rows(rows: &mut [Option<Vec<u64>>], left: &mut Left, unit: u64) {
    left.resize_with(rows.len(), Vec::new);
    for (row, left) in rows.iter_mut().zip(left) {
        let Some(row) = row else {
            continue;
        };
        left.resize(row.len(), 0);
        for (value, left) in row.iter_mut().zip(left) {
            *value = round(*value, left, unit);
        }
    }
}

/// The same of counts of all CPUs together.
fn round_counts(counts: &mut [Option<u64>], left: &mut Left) {
    left.resize(counts.len(), vec![0]);
    for (count, left) in counts.iter_mut().zip(left) {
        if let (Some(count), Some(left)) = (count, left.first_mut()) {
            *count = round(*count, left, 1);
        }
    }
}

/// The multiple of its step that is nearest to the value and what was left.
fn round(value: u64, left: &mut i64, unit: u64) -> u64 {
    // Beyond 2^62, which is a century, nothing is rounded.
    let Some(wanted) = i64::try_from(value)
        .ok()
        .filter(|&value| 0 < value && value < 1 << 62)
    else {
        return value;
    };
    let wanted = wanted + *left;
    let kept = match u64::try_from(wanted) {
        Ok(wanted) => steps::nearest((wanted + unit / 2) / unit).saturating_mul(unit),
        Err(_) => 0,
    };
    *left = wanted.saturating_sub_unsigned(kept);
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Cost;
    use crate::component::{children, index_of};
    use crate::sections::Sections;

    const CPUS: usize = 3;

    /// A snapshot whose parts sum to their wholes.
    fn snapshot(values: &[u64]) -> Snapshot {
        let mut values = values.iter().copied().cycle();
        let mut row = || Some((0..CPUS).map(|_| values.next().unwrap()).collect());
        let mut components: Vec<Option<Vec<u64>>> = COMPONENTS.iter().map(|_| row()).collect();
        components[index_of("gro").unwrap()] = None;
        for (whole, parts) in SUMS.iter() {
            with_parts(&mut components, *whole, parts, u64::checked_add);
        }
        let cost = Cost {
            components,
            entries: COMPONENTS.iter().map(|_| row()).collect(),
            ksoftirqd_rx_ns: row(),
            ..Cost::default()
        };
        Snapshot {
            cpus: (0..CPUS as u32).collect(),
            sections: Sections {
                cost: Some(cost),
                ..Sections::default()
            },
            ..Snapshot::default()
        }
    }

    proptest! {
        #[test]
        fn parts_sum_to_their_whole_and_sums_over_time_are_right_to_half_a_step_of_each_row(
            intervals in prop::collection::vec(prop::collection::vec(prop_oneof![Just(0_u64), 0..300_000_000_u64], 1..50), 1..20),
        ) {
            let mut rounding = Rounding::default();
            let mut own = vec![[0_i64; CPUS]; COMPONENTS.len()];
            let mut largest = 0;
            for values in &intervals {
                let exact = snapshot(values);
                let kept = rounding.round(&exact);
                for (row, own) in own.iter_mut().enumerate() {
                    let Some(cells) = kept.cost().cpu_ns(row) else {
                        prop_assert!(exact.cost().cpu_ns(row).is_none());
                        continue;
                    };
                    for cpu in 0..CPUS {
                        let of = |snapshot: &Snapshot| {
                            let ns = |row: usize| Some(snapshot.cost().cpu_ns(row)?[cpu] as i64);
                            let parts: i64 = children(row).iter().filter_map(|&part| ns(part)).sum();
                            ns(row).unwrap() - parts
                        };
                        prop_assert!(of(&kept) >= 0, "{row}: parts are more than their whole");
                        prop_assert_eq!(cells[cpu] % TIME_UNIT_NS, 0);
                        own[cpu] += of(&exact) - of(&kept);
                        largest = largest.max(of(&exact) as u64);
                    }
                }
            }
            // 300 ms and what is carried to it.
            let half = steps::step(largest / TIME_UNIT_NS + 1000) * TIME_UNIT_NS / 2 + TIME_UNIT_NS;
            for row in own {
                prop_assert!(row.iter().all(|left| left.unsigned_abs() <= half), "{row:?} beyond {half}");
            }
        }
    }

    #[test]
    fn small_counts_are_exact_and_idle_cpus_stay_idle() {
        let mut rounding = Rounding::default();
        let mut left = 0;
        assert_eq!(
            (1..=8).map(|count| round(count, &mut left, 1)).sum::<u64>(),
            36
        );
        let busy = snapshot(&[123_456_789]);
        let idle = snapshot(&[0]);
        rounding.round(&busy);
        assert_eq!(rounding.round(&idle), idle);
    }
}
