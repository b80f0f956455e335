//! The meaning of the probe's places, the drops at each in an interval, and the places whose slots
//! are released. Pure.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use metrics_common::{DropPlace, Drops};

/// Prefixes of the kernel's names of reasons.
const PREFIXES: [&str; 2] = ["SKB_DROP_REASON_", "SKB_"];
/// The reason of consumed packets.
const CONSUMED: &str = "CONSUMED";
/// Prefix of its names of subsystems with reasons of their own.
const SUBSYSTEM: &str = "SUBSYS_";
/// Bit position of the subsystem in a reason.
const SUBSYSTEM_SHIFT: u32 = 16;

/// A place without drops for this long releases its slot, nanoseconds.
const QUIET_NS: u64 = 300_000_000_000;
/// Time between two checks of all slots, nanoseconds: longer than any run of the probe.
const LOOK_NS: u64 = 10_000_000_000;
/// Value of a slot that is being released: the probe neither counts there nor claims it. No place
/// has this value, since no function has the address.
const RETIRED: u64 = 1;

/// Where packets are dropped, as one word: see `drops.bpf.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DropKey(pub u64);

impl DropKey {
    /// The address that the dropping call returns to.
    pub fn location(self) -> u64 {
        // All of the kernel's code is in the upper half.
        self.0 | 0xffff << 48
    }

    /// The number of the reason's subsystem, and of the reason in it.
    pub fn reason(self) -> (u32, u32) {
        let reason = (self.0 >> 48) as u32;
        (reason >> 12, reason & 0xfff)
    }
}

/// The kernel's own names of reasons.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reasons {
    names: HashMap<u32, String>,
    subsystems: HashMap<u32, String>,
}

impl Reasons {
    /// Those of `enum skb_drop_reason` and `enum skb_drop_reason_subsys`, as far as this kernel
    /// has them.
    pub fn of(reasons: &[(String, u32)], subsystems: &[(String, u32)]) -> Self {
        let short = |name: &str| {
            let stripped = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
            stripped.unwrap_or(name).to_owned()
        };
        let names = reasons.iter().map(|(name, number)| (*number, short(name)));
        let subsystems = subsystems.iter().map(|(name, number)| {
            let name = short(name);
            let short = name.strip_prefix(SUBSYSTEM).unwrap_or(&name);
            (*number, short.to_owned())
        });
        Reasons {
            names: names.collect(),
            subsystems: subsystems.collect(),
        }
    }

    /// Whether this kernel gives reasons.
    pub fn are_given(&self) -> bool {
        !self.names.is_empty()
    }

    /// The reason of packets that were not dropped.
    pub fn consumed(&self) -> Option<u32> {
        let mut names = self.names.iter();
        names
            .find(|(_, name)| *name == CONSUMED)
            .map(|(number, _)| *number)
    }

    /// The name of a place's reason; empty where the kernel gives none.
    pub fn name(&self, place: DropKey) -> String {
        if !self.are_given() {
            return String::new();
        }
        let (subsystem, number) = place.reason();
        let whole = subsystem << SUBSYSTEM_SHIFT | number;
        match (self.names.get(&whole), self.subsystems.get(&subsystem)) {
            (Some(name), _) => name.clone(),
            (None, Some(subsystem)) => format!("{subsystem}_{number}"),
            (None, None) => format!("{whole:#x}"),
        }
    }
}

/// A CPU's counts since the probe was loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs of the probe.
    pub runs: u64,
    /// Drops at places without a slot.
    pub other: u64,
    /// Drops at each known place.
    pub packets: Vec<u64>,
}

/// Follows the counts of each CPU from one interval to the next.
#[derive(Debug, Default)]
pub struct Growth(Vec<Followed>);

#[derive(Debug, Clone, Default)]
struct Followed {
    /// The last reading.
    last: Counts,
    /// Packets at each place that are already in a section.
    shown: Vec<u64>,
    /// Whether all of them are, and the last reading was unchanged.
    is_settled: bool,
}

impl Growth {
    /// Whether reading a CPU with this number of probe runs would return nothing new.
    pub fn is_settled(&self, cpu: usize, runs: u64) -> bool {
        let known = self.0.get(cpu);
        known.is_some_and(|known| known.is_settled && known.last.runs == runs)
    }

    /// Packets at the place of this slot that are already in a section.
    fn shown(&self, slot: usize) -> u64 {
        let each = self.0.iter().filter_map(|cpu| cpu.shown.get(slot));
        each.fold(0, |sum, shown| sum.wrapping_add(*shown))
    }

    /// Adds a CPU's drops since its last reading as the section's next column; returns the probe's
    /// runs. `places` has their names; drops at a place without a name yet are only counted, and
    /// shown in the interval in which it gets one.
    pub fn add(
        &mut self,
        drops: &mut Drops,
        cpu: usize,
        now: Counts,
        places: &[Option<DropPlace>],
    ) -> u64 {
        if self.0.len() <= cpu {
            self.0.resize(cpu + 1, Followed::default());
        }
        let Followed {
            last,
            shown,
            is_settled,
        } = &mut self.0[cpu];
        let all = |counts: &Counts| {
            let places = counts.packets.iter();
            places.fold(counts.other, |sum, packets| sum.saturating_add(*packets))
        };
        drops.cpus.push(all(&now).saturating_sub(all(last)));
        drops.other_packets += now.other.saturating_sub(last.other);
        shown.resize(now.packets.len().max(shown.len()), 0);
        for ((packets, shown), place) in now.packets.iter().zip(shown.iter_mut()).zip(places) {
            let Some(place) = place.as_ref().filter(|_| packets > shown) else {
                continue;
            };
            let grown = packets - *shown;
            *shown = *packets;
            let is_same = |known: &&mut DropPlace| {
                known.function == place.function && known.reason == place.reason
            };
            match drops.places.iter_mut().find(is_same) {
                Some(known) => known.packets += grown,
                None => drops.places.push(DropPlace {
                    packets: grown,
                    ..place.clone()
                }),
            }
        }
        let runs = now.runs.saturating_sub(last.runs);
        // A counted run may not have counted its packet yet: read once more.
        *is_settled = runs == 0 && now.packets == *shown;
        *last = now;
        runs
    }
}

/// Follows which places have drops, to release the slots of the others.
#[derive(Debug, Default)]
pub struct Aging {
    slots: Vec<Aged>,
    from_ns: u64,
}

#[derive(Debug, Clone, Default)]
struct Aged {
    packets: u64,
    /// Since when the count is unchanged.
    since_ns: u64,
}

impl Aging {
    /// Checks now and then which slots had no drop for long: they are retired first, and freed at
    /// the next check, when no run of the probe can still count there. Returns those that are free
    /// now. `packets` are those of all CPUs at a slot, including offline ones; while some were not
    /// shown yet, the place keeps its slot.
    pub fn give_back(
        &mut self,
        slots: &[AtomicU64],
        packets: impl Fn(usize) -> u64,
        growth: &Growth,
        now_ns: u64,
    ) -> Vec<usize> {
        let mut free = Vec::new();
        if now_ns < self.from_ns {
            return free;
        }
        self.from_ns = now_ns + LOOK_NS;
        self.slots.resize(slots.len(), Aged::default());
        for (number, (slot, aged)) in slots.iter().zip(&mut self.slots).enumerate() {
            let place = slot.load(Relaxed);
            let packets = packets(number);
            let is_shown = packets == growth.shown(number);
            if place == RETIRED && is_shown {
                slot.store(0, Relaxed);
                free.push(number);
            } else if place == 0 || aged.packets != packets || !is_shown {
                *aged = Aged {
                    packets,
                    since_ns: now_ns,
                };
            } else if place != RETIRED && now_ns - aged.since_ns >= QUIET_NS {
                // The probe changes no slot that has a place.
                slot.store(RETIRED, Relaxed);
            }
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[(&str, u32)]) -> Vec<(String, u32)> {
        all.iter()
            .map(|(name, number)| ((*name).to_owned(), *number))
            .collect()
    }

    /// As Linux 6.12 has them.
    fn reasons() -> Reasons {
        Reasons::of(
            &names(&[
                ("SKB_NOT_DROPPED_YET", 0),
                ("SKB_CONSUMED", 1),
                ("SKB_DROP_REASON_NOT_SPECIFIED", 2),
                ("SKB_DROP_REASON_NO_SOCKET", 3),
                ("SKB_DROP_REASON_SUBSYS_MASK", 0xffff_0000),
            ]),
            &names(&[
                ("SKB_DROP_REASON_SUBSYS_CORE", 0),
                ("SKB_DROP_REASON_SUBSYS_OPENVSWITCH", 3),
            ]),
        )
    }

    #[test]
    fn a_place_is_an_address_of_the_kernel_and_a_reason() {
        let place = DropKey(3 << 60 | 5 << 48 | 0xffff_8123_4567);
        assert_eq!(place.location(), 0xffff_ffff_8123_4567);
        assert_eq!(place.reason(), (3, 5));
    }

    #[test]
    fn reasons_have_the_kernels_names_or_at_least_their_subsystem() {
        let reasons = reasons();
        let name =
            |subsystem: u64, number: u64| reasons.name(DropKey(subsystem << 60 | number << 48));
        assert_eq!(name(0, 3), "NO_SOCKET");
        assert_eq!(name(0, 2), "NOT_SPECIFIED");
        assert_eq!(name(3, 7), "OPENVSWITCH_7");
        assert_eq!(name(4, 7), "0x40007");
        assert_eq!(reasons.consumed(), Some(1));
        let none = Reasons::default();
        assert_eq!(
            (none.name(DropKey(7)), none.consumed()),
            (String::new(), None)
        );
        assert!(!none.are_given());
    }

    fn counts(packets: &[u64], other: u64) -> Counts {
        Counts {
            runs: packets.iter().sum::<u64>() + other,
            other,
            packets: packets.to_vec(),
        }
    }

    fn place(function: &str) -> Option<DropPlace> {
        Some(DropPlace {
            reason: "NO_SOCKET".to_owned(),
            function: function.to_owned(),
            packets: 0,
        })
    }

    #[test]
    fn what_came_before_a_place_had_a_name_is_shown_when_it_has() {
        let mut growth = Growth::default();
        let mut add = |packets: &[u64], other: u64, places: &[Option<DropPlace>]| {
            let mut drops = Drops::default();
            let runs = growth.add(&mut drops, 3, counts(packets, other), places);
            let shown: Vec<_> = drops
                .places
                .iter()
                .map(|place| (place.function.clone(), place.packets))
                .collect();
            (shown, drops.other_packets, drops.cpus, runs)
        };
        let total = |function: &str, packets| (function.to_owned(), packets);
        assert_eq!(
            add(&[5, 7], 1, &[None, place("a")]),
            (vec![total("a", 7)], 1, vec![13], 13)
        );
        assert_eq!(
            add(&[6, 7], 1, &[None, place("a")]),
            (vec![], 0, vec![1], 1)
        );
        // Two calls of one function are one place.
        let named = [place("b"), place("a"), place("b")];
        assert_eq!(
            add(&[8, 9, 4], 1, &named),
            (vec![total("b", 12), total("a", 2)], 0, vec![8], 8)
        );
        assert_eq!(add(&[8, 9, 4], 1, &named), (vec![], 0, vec![0], 0));
    }

    #[test]
    fn each_cpu_is_a_column_and_all_places_are_the_hosts() {
        let mut growth = Growth::default();
        let mut drops = Drops::default();
        for cpu in [0, 5] {
            growth.add(&mut drops, cpu, counts(&[2], 0), &[place("a")]);
        }
        assert_eq!(drops.cpus, [2, 2]);
        assert_eq!(drops.places.len(), 1);
        assert_eq!(drops.places[0].packets, 4);
    }

    const SECOND: u64 = 1_000_000_000;
    const SLOTS: usize = 16;

    /// The probe's behaviour, for one CPU.
    struct Kernel {
        slots: Vec<AtomicU64>,
        counts: Counts,
    }

    impl Kernel {
        fn drop_at(&mut self, place: u64) {
            self.counts.runs += 1;
            for tried in 0..8 {
                let slot = (place as usize + tried) % SLOTS;
                let _ = self.slots[slot].compare_exchange(0, place, Relaxed, Relaxed);
                if self.slots[slot].load(Relaxed) == place {
                    self.counts.packets[slot] += 1;
                    return;
                }
            }
            self.counts.other += 1;
        }
    }

    /// User space, at the end of an interval.
    struct User {
        growth: Growth,
        aging: Aging,
        names: Vec<Option<DropPlace>>,
        now_ns: u64,
        all: Drops,
    }

    impl User {
        fn collect(&mut self, kernel: &Kernel) {
            for (name, slot) in self.names.iter_mut().zip(&kernel.slots) {
                let place_here = slot.load(Relaxed);
                if name.is_none() && place_here != 0 {
                    *name = place(&place_here.to_string());
                }
            }
            let drops = &mut self.all;
            self.growth
                .add(drops, 0, kernel.counts.clone(), &self.names);
            let packets = |slot: usize| kernel.counts.packets[slot];
            let (slots, now_ns) = (&kernel.slots, self.now_ns);
            for slot in self.aging.give_back(slots, packets, &self.growth, now_ns) {
                self.names[slot] = None;
            }
        }

        fn packets_of(&self, place: u64) -> u64 {
            let name = place.to_string();
            let found = self.all.places.iter().find(|place| place.function == name);
            found.map_or(0, |place| place.packets)
        }
    }

    fn host() -> (Kernel, User) {
        let kernel = Kernel {
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            counts: counts(&[0; SLOTS], 0),
        };
        let user = User {
            growth: Growth::default(),
            aging: Aging::default(),
            names: vec![None; SLOTS],
            now_ns: SECOND,
            all: Drops::default(),
        };
        (kernel, user)
    }

    #[test]
    fn places_that_have_no_drops_any_more_make_room_and_no_packet_is_lost() {
        let (mut kernel, mut user) = host();
        let mut dropped = 0;
        // One place stays, all others are new every two thousand seconds.
        for interval in 0..4000_u64 {
            user.now_ns += 5 * SECOND;
            kernel.drop_at(100);
            let others = 1000 + interval / 400 * SLOTS as u64;
            for place in others..others + SLOTS as u64 / 2 {
                kernel.drop_at(place);
            }
            dropped += 1 + SLOTS as u64 / 2;
            user.collect(&kernel);
        }
        assert_eq!(user.packets_of(100), 4000);
        let newest = 1000 + 9 * SLOTS as u64;
        let known: u64 = (newest..newest + 8)
            .map(|place| user.packets_of(place))
            .sum();
        assert!(known > 8 * 300, "{known} of {} are known", 8 * 400);
        let shown: u64 = user.all.places.iter().map(|place| place.packets).sum();
        assert_eq!(shown + user.all.other_packets, dropped);
    }

    #[test]
    fn a_slot_is_free_only_when_no_run_can_still_count_there() {
        let (mut kernel, mut user) = host();
        kernel.drop_at(5);
        user.collect(&kernel);
        user.now_ns += QUIET_NS + LOOK_NS;
        user.collect(&kernel);
        assert_eq!(kernel.slots[5].load(Relaxed), RETIRED);
        // A run had found the slot before that; and a drop at the same place has another.
        kernel.counts.packets[5] += 1;
        kernel.counts.runs += 1;
        kernel.drop_at(5);
        assert_eq!(kernel.counts.packets[6], 1);
        user.now_ns += LOOK_NS - 1;
        user.collect(&kernel);
        assert_eq!(kernel.slots[5].load(Relaxed), RETIRED, "too soon");
        assert_eq!(user.packets_of(5), 3);
        user.now_ns += 1;
        user.collect(&kernel);
        assert_eq!(kernel.slots[5].load(Relaxed), 0);
        assert!(user.names[5].is_none());
        // Packets of another place there are its own.
        kernel.drop_at(5 + SLOTS as u64);
        user.collect(&kernel);
        assert_eq!((user.packets_of(5), user.packets_of(21)), (3, 1));
    }

    #[test]
    fn what_was_not_shown_keeps_its_place() {
        let (mut kernel, mut user) = host();
        kernel.drop_at(5);
        let nobody = vec![None; SLOTS];
        for _ in 0..100 {
            user.now_ns += LOOK_NS;
            user.growth
                .add(&mut user.all, 0, kernel.counts.clone(), &nobody);
            let packets = |slot: usize| kernel.counts.packets[slot];
            let (slots, now_ns) = (&kernel.slots, user.now_ns);
            user.aging.give_back(slots, packets, &user.growth, now_ns);
        }
        assert_eq!(kernel.slots[5].load(Relaxed), 5);
    }

    #[test]
    fn a_cpu_is_read_again_until_nothing_new_is_said() {
        let mut growth = Growth::default();
        let mut add = |packets: &[u64], name: &[Option<DropPlace>]| {
            let now = counts(packets, 0);
            let runs = now.runs;
            growth.add(&mut Drops::default(), 0, now, name);
            (growth.is_settled(0, runs), growth.is_settled(0, runs + 1))
        };
        assert_eq!(add(&[1], &[place("a")]), (false, false));
        assert_eq!(add(&[1], &[place("a")]), (true, false));
        assert_eq!(add(&[1, 1], &[place("a"), None]), (false, false));
        assert_eq!(add(&[1, 1], &[place("a"), None]), (false, false));
        assert!(!Growth::default().is_settled(0, 0));
    }
}
