//! What a place of the probe's stands for, and what came there in an interval. Pure.

use std::collections::HashMap;

use metrics_common::{DropPlace, Drops};

/// What begins the kernel's names of reasons.
const PREFIXES: [&str; 2] = ["SKB_DROP_REASON_", "SKB_"];
/// The reason of packets that were used up.
const CONSUMED: &str = "CONSUMED";
/// What begins its names of subsystems that have reasons of their own.
const SUBSYSTEM: &str = "SUBSYS_";
/// The subsystem stands above so many bits of a reason.
const SUBSYSTEM_SHIFT: u32 = 16;

/// Where packets are dropped, as one word: see `bpf/drops.bpf.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place(pub u64);

impl Place {
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

    /// Whether this kernel gives any.
    pub fn are_given(&self) -> bool {
        !self.names.is_empty()
    }

    /// The reason of packets that were not dropped at all.
    pub fn consumed(&self) -> Option<u32> {
        let mut names = self.names.iter();
        names
            .find(|(_, name)| *name == CONSUMED)
            .map(|(number, _)| *number)
    }

    /// The name of a place's reason; empty where the kernel gives none.
    pub fn name(&self, place: Place) -> String {
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

/// What one CPU has counted since the probe was loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs of the probe.
    pub runs: u64,
    /// At places for which there was no room.
    pub other: u64,
    /// At each place that is known so far.
    pub packets: Vec<u64>,
}

/// Follows the counts of each CPU from one interval to the next.
#[derive(Debug, Default)]
pub struct Growth(Vec<Followed>);

#[derive(Debug, Clone, Default)]
struct Followed {
    /// As they were last read.
    last: Counts,
    /// Of the packets at each place, those that were in a section.
    shown: Vec<u64>,
}

impl Growth {
    /// Adds what came on a CPU since its last reading, as the section's next column; gives the
    /// probe's runs. `places` has what each is called; what came at one that has no name yet is
    /// shown in the interval in which it has, and until then only counted.
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
        let Followed { last, shown } = &mut self.0[cpu];
        let all = |counts: &Counts| {
            let places = counts.packets.iter();
            places.fold(counts.other, |sum, packets| sum.saturating_add(*packets))
        };
        drops.cpus.push(all(&now).saturating_sub(all(last)));
        drops.other_packets += now.other.saturating_sub(last.other);
        shown.resize(now.packets.len().max(shown.len()), 0);
        for ((packets, shown), place) in now.packets.iter().zip(shown).zip(places) {
            let Some(place) = place.as_ref().filter(|_| packets > shown) else {
                continue;
            };
            let grown = packets - *shown;
            *shown = *packets;
            let is_same =
                |own: &&mut DropPlace| own.function == place.function && own.reason == place.reason;
            match drops.places.iter_mut().find(is_same) {
                Some(own) => own.packets += grown,
                None => drops.places.push(DropPlace {
                    packets: grown,
                    ..place.clone()
                }),
            }
        }
        let runs = now.runs.saturating_sub(last.runs);
        *last = now;
        runs
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
        let place = Place(3 << 60 | 5 << 48 | 0xffff_8123_4567);
        assert_eq!(place.location(), 0xffff_ffff_8123_4567);
        assert_eq!(place.reason(), (3, 5));
    }

    #[test]
    fn reasons_have_the_kernels_names_or_at_least_their_subsystem() {
        let reasons = reasons();
        let name =
            |subsystem: u64, number: u64| reasons.name(Place(subsystem << 60 | number << 48));
        assert_eq!(name(0, 3), "NO_SOCKET");
        assert_eq!(name(0, 2), "NOT_SPECIFIED");
        assert_eq!(name(3, 7), "OPENVSWITCH_7");
        assert_eq!(name(4, 7), "0x40007");
        assert_eq!(reasons.consumed(), Some(1));
        let none = Reasons::default();
        assert_eq!(
            (none.name(Place(7)), none.consumed()),
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
                .map(|own| (own.function.clone(), own.packets))
                .collect();
            (shown, drops.other_packets, drops.cpus, runs)
        };
        let of = |function: &str, packets| (function.to_owned(), packets);
        assert_eq!(
            add(&[5, 7], 1, &[None, place("a")]),
            (vec![of("a", 7)], 1, vec![13], 13)
        );
        assert_eq!(
            add(&[6, 7], 1, &[None, place("a")]),
            (vec![], 0, vec![1], 1)
        );
        // Two calls of one function are one place.
        let named = [place("b"), place("a"), place("b")];
        assert_eq!(
            add(&[8, 9, 4], 1, &named),
            (vec![of("b", 12), of("a", 2)], 0, vec![8], 8)
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
}
