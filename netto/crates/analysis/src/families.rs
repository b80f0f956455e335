//! Guesses the address family of socket calls whose stack does not show it.
//!
//! The socket layer's own functions serve Internet, AF_UNIX and netlink sockets alike. Stacks that
//! end in one of them are assigned to the families in the proportion of recent stacks of the same
//! call on the same CPU that showed the family. This is exact for a single family, and an estimate
//! for several, since a family with longer calls is seen more often. Counts samples only; knows no
//! stacks.

use metrics_common::component::SHARED_CALLS;

/// Samples over which a proportion is remembered: some intervals of a busy CPU.
const REMEMBERED: u32 = 1024;

/// Whether a socket call is networking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// Internet and packet sockets.
    Internet,
    /// Sockets that never leave the host.
    Local,
}

/// Counts for one call on one CPU.
#[derive(Debug, Clone, Copy, Default)]
struct FamilyCounts {
    internet: u32,
    local: u32,
    /// Samples due to the local family, by its proportion.
    owed_to_local: f64,
}

/// By CPU and number of the call in [`SHARED_CALLS`].
#[derive(Debug, Clone, Default)]
pub(super) struct Families(Vec<[FamilyCounts; SHARED_CALLS.len()]>);

impl Families {
    /// Records that a stack of this call showed its family.
    pub(super) fn saw(&mut self, cpu: usize, call: usize, family: Family) {
        if self.0.len() <= cpu {
            self.0.resize(cpu + 1, Default::default());
        }
        let seen = &mut self.0[cpu][call];
        match family {
            Family::Internet => seen.internet += 1,
            Family::Local => seen.local += 1,
        }
        if seen.internet + seen.local > REMEMBERED {
            seen.internet /= 2;
            seen.local /= 2;
        }
    }

    /// The family of the next stack of this call that does not show it; `None` if none was seen
    /// yet.
    pub(super) fn of_next(&mut self, cpu: usize, call: usize) -> Option<Family> {
        let seen = self.0.get_mut(cpu)?.get_mut(call)?;
        let all = seen.internet + seen.local;
        if all == 0 {
            return None;
        }
        seen.owed_to_local += f64::from(seen.local) / f64::from(all);
        if seen.owed_to_local < 0.5 {
            return Some(Family::Internet);
        }
        seen.owed_to_local -= 1.0;
        Some(Family::Local)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_family_alone_has_all_and_none_before_it_was_seen() {
        for (seen, other) in [
            (Family::Internet, Family::Local),
            (Family::Local, Family::Internet),
        ] {
            let mut families = Families::default();
            assert_eq!(families.of_next(1, 0), None);
            families.saw(1, 0, seen);
            for _ in 0..1000 {
                assert_eq!(families.of_next(1, 0), Some(seen));
            }
            assert_eq!(families.of_next(0, 0), None, "another CPU");
            assert_eq!(families.of_next(1, 1), None, "another call");
            // Old counts are outnumbered by newer ones.
            (0..20 * REMEMBERED).for_each(|_| families.saw(1, 0, other));
            for _ in 0..1000 {
                assert_eq!(families.of_next(1, 0), Some(other));
            }
        }
    }

    proptest! {
        #[test]
        fn stacks_are_handed_out_in_the_proportion_seen(internet in 0_u32..500, local in 0_u32..500, asked in 0_u32..2000) {
            prop_assume!(internet + local > 0);
            let mut families = Families::default();
            (0..internet).for_each(|_| families.saw(0, 0, Family::Internet));
            (0..local).for_each(|_| families.saw(0, 0, Family::Local));
            let to_local = (0..asked)
                .filter(|_| families.of_next(0, 0) == Some(Family::Local))
                .count();
            let due = f64::from(asked) * f64::from(local) / f64::from(internet + local);
            prop_assert!((to_local as f64 - due).abs() <= 0.5 + 1e-6, "{to_local} of {due}");
        }
    }
}
