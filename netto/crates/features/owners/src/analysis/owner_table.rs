//! The table of owners, by number: numbers are small, so that tables can be indexed by them.
//! Samples supply the details of a process. Between two intervals the table is bounded: when it is
//! full, the costliest owners stay, and all others are merged into one.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

/// No owner: always the first number.
pub const NOBODY: u32 = 0;
/// All owners that are no longer distinguished: always the second number.
pub const OTHER: u32 = 1;
/// Owners that were not looked for: always the third number.
pub const UNKNOWN: u32 = 2;

/// An owner that caused something or paid for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OwnerId {
    /// No owner.
    Nobody,
    /// Owners that are no longer distinguished.
    Other,
    /// An owner that was not looked for.
    Unknown,
    /// CPUs that idled.
    Idle,
    /// Threads of the kernel.
    Kernel,
    /// A control group, by its number.
    Cgroup(u64),
    /// A process.
    Process {
        /// Its number.
        pid: u32,
        /// Start time, in hundredths of a second since boot.
        started_cs: u64,
    },
    /// The path of packets through interfaces.
    Interface {
        /// Inode of the network namespace.
        netns: u64,
        /// Interface by which they came; 0 if unknown or irrelevant.
        from: u32,
        /// Interface by which they went; 0 if none.
        to: u32,
    },
}

impl OwnerId {
    /// Whether it is one of many, which can be shown by name.
    pub fn has_a_name(self) -> bool {
        matches!(
            self,
            OwnerId::Cgroup(_) | OwnerId::Process { .. } | OwnerId::Interface { .. }
        )
    }
}

/// The details of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Process {
    /// Number of its control group.
    pub cgroup: u64,
    /// Its name, padded with zeros.
    pub comm: [u8; 16],
}

/// Most owners between two intervals. If there are more, those without recent cost are forgotten.
const MOST: usize = 4096;
/// If that leaves too many, this many stay, so that it is done seldom, however fast new ones come.
const COSTLIEST: usize = 1024;
/// An owner with less recent cost counts as one without, nanoseconds.
const NOTHING_NS: f64 = 1000.0;

/// See the head of this file.
#[derive(Debug)]
pub struct OwnerTable {
    known: Vec<OwnerId>,
    numbers: FxHashMap<OwnerId, u32>,
    processes: FxHashMap<OwnerId, Process>,
}

impl Default for OwnerTable {
    fn default() -> Self {
        let mut register = OwnerTable {
            known: Vec::new(),
            numbers: FxHashMap::default(),
            processes: FxHashMap::default(),
        };
        let first =
            [OwnerId::Nobody, OwnerId::Other, OwnerId::Unknown].map(|who| register.number(who));
        debug_assert_eq!(first, [NOBODY, OTHER, UNKNOWN]);
        register
    }
}

impl OwnerTable {
    /// The number of an owner.
    pub fn number(&mut self, who: OwnerId) -> u32 {
        *self.numbers.entry(who).or_insert_with(|| {
            self.known.push(who);
            self.known.len() as u32 - 1
        })
    }

    /// The number of a process; known details stay.
    pub fn process(&mut self, who: OwnerId, process: Process) -> u32 {
        self.processes.entry(who).or_insert(process);
        self.number(who)
    }

    /// The owner with this number.
    pub fn who(&self, number: u32) -> OwnerId {
        let known = self.known.get(number as usize);
        known.copied().unwrap_or(OwnerId::Nobody)
    }

    /// The details of a process.
    pub fn of_process(&self, who: OwnerId) -> Process {
        self.processes.get(&who).copied().unwrap_or_default()
    }

    /// Number of owners.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether the table is empty, which it never is.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// If the table is full, forgets owners with little recent cost, by number. Returns each one's
    /// new number by the old one, if numbers changed: forgotten owners become [`OTHER`].
    pub fn forget(&mut self, of_late_ns: impl Fn(u32) -> f64) -> Option<Vec<u32>> {
        if self.known.len() <= MOST {
            return None;
        }
        let has_a_name = |number: &u32| self.who(*number).has_a_name();
        let (mut named, mut stay): (Vec<u32>, Vec<u32>) =
            (0..self.known.len() as u32).partition(has_a_name);
        named.retain(|number| of_late_ns(*number) >= NOTHING_NS);
        if stay.len() + named.len() > MOST {
            named.sort_by_key(|number| Reverse(of_late_ns(*number) as u64));
            named.truncate(COSTLIEST);
        }
        stay.append(&mut named);
        stay.sort_unstable();
        let mut moved = vec![OTHER; self.known.len()];
        for (now, before) in stay.iter().enumerate() {
            moved[*before as usize] = now as u32;
        }
        self.known = stay.into_iter().map(|number| self.who(number)).collect();
        self.numbers = self.known.iter().copied().zip(0..).collect();
        self.processes
            .retain(|who, _| self.numbers.contains_key(who));
        Some(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32) -> OwnerId {
        OwnerId::Process { pid, started_cs: 7 }
    }

    #[test]
    fn of_ever_more_processes_those_are_forgotten_that_cost_nothing_any_more() {
        let mut register = OwnerTable::default();
        for pid in 1..20_000 {
            let number = register.process(process(pid), Process::default());
            assert_eq!(register.who(number), process(pid));
            let costs = |number: u32| f64::from(u8::from(number % 100 == 7)) * 2.0 * NOTHING_NS;
            if register.forget(costs).is_some() {
                assert!(register.len() < MOST / 50);
            }
            assert!(register.len() <= MOST && register.processes.len() <= MOST);
        }
    }

    #[test]
    fn of_ever_more_that_cost_something_the_costliest_stay() {
        let mut register = OwnerTable::default();
        let mut cost: FxHashMap<OwnerId, f64> = FxHashMap::default();
        for pid in 1..50_000_u32 {
            // A few cost much, at any position among the others.
            let ns = if pid % 100 == 0 { 9e6 } else { 2e6 };
            cost.insert(process(pid), ns);
            register.process(process(pid), Process::default());
            if register.len() > MOST {
                let of_late = register.known.iter().map(|who| cost.get(who));
                let of_late: Vec<f64> = of_late.map(|ns| ns.copied().unwrap_or(0.0)).collect();
                register.forget(|number| of_late[number as usize]);
                assert!(register.len() <= COSTLIEST + 3);
            }
            assert!(register.len() <= MOST && register.processes.len() <= MOST);
        }
        let known = register.known.iter();
        let many = known.filter(|who| cost.get(*who) == Some(&9e6)).count();
        assert_eq!(many, 499);
    }

    #[test]
    fn who_stays_has_the_number_that_is_told_and_who_does_not_is_one_of_others() {
        let mut register = OwnerTable::default();
        let singles = [OwnerId::Idle, OwnerId::Kernel].map(|who| (who, register.number(who)));
        let groups = (0..MOST as u64).map(OwnerId::Cgroup);
        let groups: Vec<_> = groups.map(|who| (who, register.number(who))).collect();
        let costs = |number: u32| if number > 4000 { 1e9 } else { 1.0 };
        let moved = register.forget(costs).unwrap();
        for (who, before) in groups {
            let now = moved[before as usize];
            if costs(before) < NOTHING_NS {
                assert_eq!(now, OTHER);
            } else {
                assert_eq!(register.who(now), who);
            }
        }
        // These are never merged, whatever their cost.
        for (who, before) in singles {
            assert_eq!(register.who(moved[before as usize]), who);
        }
        assert_eq!(moved[..3], [NOBODY, OTHER, UNKNOWN]);
        assert_eq!(register.number(OwnerId::Other), OTHER);
    }

    #[test]
    fn what_was_learnt_of_a_process_first_is_kept() {
        let mut register = OwnerTable::default();
        let first = Process {
            cgroup: 5,
            ..Process::default()
        };
        register.process(process(1), first);
        register.process(process(1), Process { cgroup: 6, ..first });
        assert_eq!(register.of_process(process(1)), first);
    }
}
