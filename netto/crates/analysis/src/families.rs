//! Guesses the address family of socket calls whose stack does not show it.
//!
//! The socket layer's own functions serve Internet, AF_UNIX and netlink sockets alike. Stacks that
//! end in one of them are assigned to the families in the proportion of recent stacks of the same
//! call in the same process that showed the family; in a process that has shown none yet, on the
//! same CPU. This is exact for a process with a single family, and an estimate for several, since a
//! family with longer calls is seen more often. Counts samples only; knows no stacks.

use metrics_common::component::SHARED_CALLS;

/// Samples over which a proportion is remembered: less than an interval of a busy CPU. What a
/// process or CPU did before is soon outnumbered.
const REMEMBERED: f32 = 128.0;
/// Processes of which proportions are remembered, each with one place; it replaces another one
/// there.
const PROCESSES: usize = 512;

/// Whether a socket call is networking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// Internet and packet sockets.
    Internet,
    /// Sockets that never leave the host.
    Local,
}

/// Counts for one call, of one process or CPU.
#[derive(Debug, Clone, Copy, Default)]
struct FamilyCounts {
    internet: f32,
    local: f32,
    /// Samples due to the local family, by its proportion.
    owed_to_local: f32,
}

impl FamilyCounts {
    fn saw(&mut self, family: Family) {
        match family {
            Family::Internet => self.internet += 1.0,
            Family::Local => self.local += 1.0,
        }
        if self.internet + self.local > REMEMBERED {
            self.internet /= 2.0;
            self.local /= 2.0;
        }
    }

    fn of_next(&mut self) -> Option<Family> {
        let all = self.internet + self.local;
        if all == 0.0 {
            return None;
        }
        self.owed_to_local += self.local / all;
        if self.owed_to_local < 0.5 {
            return Some(Family::Internet);
        }
        self.owed_to_local -= 1.0;
        Some(Family::Local)
    }
}

/// By number of the call in [`SHARED_CALLS`].
type Calls = [FamilyCounts; SHARED_CALLS.len()];

/// See the head of this file.
#[derive(Debug, Clone, Default)]
pub(super) struct Families {
    cpus: Vec<Calls>,
    /// By the lower bits of the process' number.
    processes: Vec<(u32, Calls)>,
}

impl Families {
    /// Records that a stack of this call showed its family.
    pub(super) fn saw(&mut self, cpu: usize, process: u32, call: usize, family: Family) {
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, Default::default());
        }
        self.cpus[cpu][call].saw(family);
        self.processes.resize(PROCESSES, Default::default());
        let place = &mut self.processes[process as usize % PROCESSES];
        if place.0 != process {
            *place = (process, Default::default());
        }
        place.1[call].saw(family);
    }

    /// The family of the next stack of this call that does not show it; `None` if none was seen
    /// yet.
    pub(super) fn of_next(&mut self, cpu: usize, process: u32, call: usize) -> Option<Family> {
        let slot = self.processes.get_mut(process as usize % PROCESSES);
        let slot = slot.filter(|slot| slot.0 == process);
        slot.and_then(|slot| slot.1[call].of_next())
            .or_else(|| self.cpus.get_mut(cpu)?.get_mut(call)?.of_next())
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
            assert_eq!(families.of_next(1, 7, 0), None);
            families.saw(1, 7, 0, seen);
            for _ in 0..1000 {
                assert_eq!(families.of_next(1, 7, 0), Some(seen));
            }
            assert_eq!(families.of_next(0, 8, 0), None, "another CPU");
            assert_eq!(families.of_next(0, 7, 0), Some(seen), "the same process");
            assert_eq!(families.of_next(1, 7, 1), None, "another call");
            // Old counts are outnumbered by newer ones.
            (0..20 * REMEMBERED as u32).for_each(|_| families.saw(1, 7, 0, other));
            for _ in 0..1000 {
                assert_eq!(families.of_next(1, 7, 0), Some(other));
            }
        }
    }

    #[test]
    fn what_others_did_on_the_cpu_counts_only_until_the_process_has_shown_its_own() {
        let mut families = Families::default();
        (0..10_000).for_each(|_| families.saw(0, 7, 2, Family::Internet));
        assert_eq!(families.of_next(0, 8, 2), Some(Family::Internet));
        families.saw(0, 8, 2, Family::Local);
        for _ in 0..1000 {
            assert_eq!(families.of_next(0, 8, 2), Some(Family::Local));
            assert_eq!(families.of_next(0, 7, 2), Some(Family::Internet));
            families.saw(0, 7, 2, Family::Internet);
        }
        // Another process in the same place begins anew.
        let other = 8 + PROCESSES as u32;
        families.saw(1, other, 2, Family::Internet);
        assert_eq!(families.of_next(1, other, 2), Some(Family::Internet));
    }

    proptest! {
        #[test]
        fn stacks_are_handed_out_in_the_proportion_seen(internet in 0_u32..60, local in 0_u32..60, asked in 0_u32..2000) {
            prop_assume!(internet + local > 0);
            let mut families = Families::default();
            (0..internet).for_each(|_| families.saw(0, 7, 0, Family::Internet));
            (0..local).for_each(|_| families.saw(0, 7, 0, Family::Local));
            let to_local = (0..asked)
                .filter(|_| families.of_next(0, 7, 0) == Some(Family::Local))
                .count();
            let due = f64::from(asked) * f64::from(local) / f64::from(internet + local);
            prop_assert!((to_local as f64 - due).abs() <= 0.5 + 1e-2, "{to_local} of {due}");
        }
    }
}
