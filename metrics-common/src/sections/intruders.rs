//! Softirqs and network interrupts on CPUs that are meant to be quiet: who caused them, and whom
//! they interrupted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use super::columns::Columns;
use super::owners::{Owner, OwnerKind, place_in};
use super::recorded::Recorded;
use super::section::Section;
use crate::component::COMPONENTS;
use crate::packed::Damaged;
use crate::sort::sort_by_key;

mod view;

pub use view::INTRUDERS;

/// Most rows of a sum; the time of further ones is of [`OwnerKind::Other`].
pub const MOST_INTRUSIONS: usize = 256;
/// Places of rows, by CPU and event: there may be thousands of rows on a host with many quiet CPUs.
type Rows = BTreeMap<(u32, u32), Vec<usize>>;
/// Most rows and owners of a message, and most CPUs.
const MOST_ROWS: usize = 1 << 14;

/// What happened on CPUs that are meant to be quiet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Intruders {
    /// The CPUs that are meant to be quiet, ascending.
    pub cpus: Vec<QuietCpu>,
    /// Softirq time on them, without zeros. For each CPU and event it sums to the event's time.
    pub intrusions: Vec<Intrusion>,
    /// Where the causes sent and received otherwise.
    pub origins: Vec<Origin>,
}

/// A CPU that is meant to be quiet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuietCpu {
    /// Its number.
    pub cpu: u32,
    /// Why it is meant to be.
    pub why: Vec<Quietness>,
    /// Settings of the host that lead packets there: `RPS of eth0 rx-0`, `interrupt 31`.
    pub ways: Vec<String>,
}

/// A setting that keeps work off a CPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quietness {
    /// Its kind.
    pub kind: QuietKind,
    /// Path of the control group of a cpuset; absent for other kinds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cpuset: String,
}

/// The kind of such a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum QuietKind {
    /// The kernel's parameter `isolcpus`.
    Isolcpus,
    /// The kernel's parameter `nohz_full`.
    NohzFull,
    /// A cpuset that has its CPUs for itself.
    Cpuset,
}

/// Softirq time on a quiet CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Intrusion {
    /// The CPU.
    pub cpu: u32,
    /// The event, by the slug of its component.
    #[serde(serialize_with = "slug")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub event: u32,
    /// Who caused it; `unknown` of what is no networking, too.
    #[serde(serialize_with = "named")]
    #[cfg_attr(feature = "schema", schemars(with = "Named<'static>"))]
    pub cause: Owner,
    /// Who was interrupted.
    #[serde(serialize_with = "named")]
    #[cfg_attr(feature = "schema", schemars(with = "Named<'static>"))]
    pub victim: Owner,
    /// CPU time, nanoseconds.
    pub ns: u64,
}

/// Sends and softirqs of a cause on a CPU that is not meant to be quiet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Origin {
    /// The cause.
    #[serde(serialize_with = "named")]
    #[cfg_attr(feature = "schema", schemars(with = "Named<'static>"))]
    pub owner: Owner,
    /// The CPU.
    pub cpu: u32,
    /// CPU time, nanoseconds.
    pub ns: u64,
}

fn slug<S: Serializer>(event: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(COMPONENTS.get(*event as usize).map_or("", |row| row.slug))
}

/// An owner by its name for people; what else is known of it has the section of owners.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Named<'a> {
    /// Its name for people.
    label: String,
    /// What it is, as in `owners`.
    kind: OwnerKind,
    /// Path of its control group; absent if it has none.
    #[serde(skip_serializing_if = "str::is_empty")]
    cgroup: &'a str,
}

fn named<S: Serializer>(owner: &Owner, serializer: S) -> Result<S::Ok, S::Error> {
    let named = Named {
        label: owner.label(),
        kind: owner.kind,
        cgroup: &owner.cgroup,
    };
    named.serialize(serializer)
}

impl Quietness {
    /// For people: `isolcpus`, `nohz_full`, `cpuset /realtime`.
    pub fn label(&self) -> String {
        match self.kind {
            QuietKind::Isolcpus => "isolcpus".to_owned(),
            QuietKind::NohzFull => "nohz_full".to_owned(),
            QuietKind::Cpuset => format!("cpuset {}", self.cpuset),
        }
    }
}

impl QuietCpu {
    /// Why it is meant to be quiet, for people.
    pub fn reasons(&self) -> String {
        let why: Vec<String> = self.why.iter().map(Quietness::label).collect();
        why.join(", ")
    }
}

/// What one owner caused on one quiet CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Intruder {
    /// The CPU.
    pub cpu: u32,
    /// Name of the cause for people.
    pub cause: String,
    /// CPU time, nanoseconds.
    pub ns: u64,
    /// Its share of all softirq time on that CPU.
    pub ratio: f64,
    /// By the name of the event for people, the largest first.
    pub events: Vec<(&'static str, u64)>,
    /// By the interrupted owner, the largest first.
    pub victims: Vec<(String, u64)>,
    /// By other CPU on which it sent and received, the largest first.
    pub origins: Vec<(u32, u64)>,
}

impl Intruders {
    /// CPU time, nanoseconds over all quiet CPUs.
    pub fn total_ns(&self) -> u64 {
        let all = self.intrusions.iter().map(|intrusion| intrusion.ns);
        all.fold(0, u64::saturating_add)
    }

    /// By CPU and cause, the largest first.
    pub fn intruders(&self) -> Vec<Intruder> {
        let mut found: Vec<Intruder> = Vec::new();
        for intrusion in &self.intrusions {
            let cause = intrusion.cause.label();
            let is_it = |known: &Intruder| known.cpu == intrusion.cpu && known.cause == cause;
            let known = found.iter().position(is_it);
            let place = known.unwrap_or_else(|| {
                let origins = self.origins.iter();
                let origins = origins.filter(|origin| origin.owner.label() == cause);
                let mut by_cpu = Vec::new();
                origins.for_each(|origin| add(&mut by_cpu, origin.cpu, origin.ns));
                found.push(Intruder {
                    cpu: intrusion.cpu,
                    cause: cause.clone(),
                    ns: 0,
                    ratio: 0.0,
                    events: Vec::new(),
                    victims: Vec::new(),
                    origins: by_cpu,
                });
                found.len() - 1
            });
            let known = &mut found[place];
            known.ns = known.ns.saturating_add(intrusion.ns);
            let event = COMPONENTS.get(intrusion.event as usize);
            add(
                &mut known.events,
                event.map_or("", |row| row.label),
                intrusion.ns,
            );
            add(&mut known.victims, intrusion.victim.label(), intrusion.ns);
        }
        let of_cpu = |cpu: u32| {
            let all = self
                .intrusions
                .iter()
                .filter(|intrusion| intrusion.cpu == cpu);
            all.fold(0, |sum: u64, intrusion| sum.saturating_add(intrusion.ns))
        };
        for intruder in &mut found {
            intruder.ratio = intruder.ns as f64 / of_cpu(intruder.cpu).max(1) as f64;
            sort_by_key(&mut intruder.events, |(_, ns)| std::cmp::Reverse(*ns));
            sort_by_key(&mut intruder.victims, |(_, ns)| std::cmp::Reverse(*ns));
            sort_by_key(&mut intruder.origins, |(_, ns)| std::cmp::Reverse(*ns));
        }
        sort_by_key(&mut found, |intruder| {
            (intruder.cpu, std::cmp::Reverse(intruder.ns))
        });
        found
    }

    /// Adds time of a row, which there may be already: then it is one of `rows`, by CPU and event.
    fn add_intrusion(&mut self, more: &Intrusion, rows: &mut Rows) {
        let of_event = rows.entry((more.cpu, more.event)).or_default();
        let mut known = of_event.iter().copied();
        let same = known.find(|row| {
            let intrusion = &self.intrusions[*row];
            intrusion.cause == more.cause && intrusion.victim == more.victim
        });
        let has_room = self.intrusions.len() < MOST_INTRUSIONS;
        match same {
            Some(row) => {
                let intrusion = &mut self.intrusions[row];
                intrusion.ns = intrusion.ns.saturating_add(more.ns);
            }
            None if !has_room && more.cause.kind != OwnerKind::Other => {
                let row = Intrusion {
                    cause: Owner::single(OwnerKind::Other),
                    victim: Owner::single(OwnerKind::Other),
                    ..*more
                };
                self.add_intrusion(&row, rows);
            }
            // One of others for each CPU and event.
            None if has_room || self.intrusions.len() < MOST_ROWS => {
                of_event.push(self.intrusions.len());
                self.intrusions.push(more.clone());
            }
            None => {}
        }
    }

    fn add_origin(&mut self, more: &Origin) {
        let rows = self.origins.len();
        let mut known = self.origins.iter_mut();
        let same = known.find(|origin| origin.cpu == more.cpu && origin.owner == more.owner);
        match same {
            Some(origin) => origin.ns = origin.ns.saturating_add(more.ns),
            None if rows < MOST_INTRUSIONS => self.origins.push(more.clone()),
            None => {}
        }
    }
}

fn add<K: PartialEq>(sums: &mut Vec<(K, u64)>, key: K, ns: u64) {
    match sums.iter_mut().find(|(known, _)| *known == key) {
        Some((_, sum)) => *sum = sum.saturating_add(ns),
        None => sums.push((key, ns)),
    }
}

/// [`Intruders`] on the wire: each owner once.
#[derive(Debug, Serialize, Deserialize)]
pub struct IntrudersWire {
    cpus: Vec<QuietCpu>,
    owners: Vec<Owner>,
    /// CPU, event, cause, victim and time.
    intrusions: Vec<(u32, u32, u32, u32, u64)>,
    /// Cause, CPU and time.
    origins: Vec<(u32, u32, u64)>,
}

impl Section for Intruders {
    type Wire = IntrudersWire;

    fn to_wire(&self) -> IntrudersWire {
        let mut owners: Vec<Owner> = Vec::new();
        let mut place = |owner: &Owner| place_in(&mut owners, owner);
        let intrusions = self.intrusions.iter();
        let intrusions = intrusions
            .map(|intrusion| {
                let (cause, victim) = (place(&intrusion.cause), place(&intrusion.victim));
                (intrusion.cpu, intrusion.event, cause, victim, intrusion.ns)
            })
            .collect();
        let origins = self.origins.iter();
        let origins = origins.map(|origin| (place(&origin.owner), origin.cpu, origin.ns));
        IntrudersWire {
            cpus: self.cpus.clone(),
            intrusions,
            origins: origins.collect(),
            owners,
        }
    }

    fn from_wire(wire: IntrudersWire, _: usize) -> Result<Self, Damaged> {
        let rows = [
            wire.cpus.len(),
            wire.owners.len(),
            wire.intrusions.len(),
            wire.origins.len(),
        ];
        if rows.iter().any(|rows| *rows > MOST_ROWS) {
            return Err(Damaged);
        }
        let owner = |place: u32| wire.owners.get(place as usize).cloned().ok_or(Damaged);
        let intrusions = wire.intrusions.iter().map(|intrusion| {
            Ok(Intrusion {
                cpu: intrusion.0,
                event: intrusion.1,
                cause: owner(intrusion.2)?,
                victim: owner(intrusion.3)?,
                ns: intrusion.4,
            })
        });
        let origins = wire.origins.iter().map(|origin| {
            Ok(Origin {
                owner: owner(origin.0)?,
                cpu: origin.1,
                ns: origin.2,
            })
        });
        Ok(Intruders {
            intrusions: intrusions.collect::<Result<_, Damaged>>()?,
            origins: origins.collect::<Result<_, Damaged>>()?,
            cpus: wire.cpus,
        })
    }

    fn add(&mut self, later: &Self, _: &Columns) {
        for more in &later.cpus {
            match self.cpus.binary_search_by_key(&more.cpu, |cpu| cpu.cpu) {
                Ok(place) => self.cpus[place].clone_from(more),
                Err(place) => self.cpus.insert(place, more.clone()),
            }
        }
        let mut rows = Rows::new();
        for (row, intrusion) in self.intrusions.iter().enumerate() {
            rows.entry((intrusion.cpu, intrusion.event))
                .or_default()
                .push(row);
        }
        let intrusions = later.intrusions.iter();
        intrusions.for_each(|more| self.add_intrusion(more, &mut rows));
        later.origins.iter().for_each(|more| self.add_origin(more));
    }
}

/// Nothing of it is kept.
impl Recorded for Intruders {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;
    use crate::component::index_of;
    use crate::{Sections, Snapshot};

    fn group(path: &str) -> Owner {
        Owner {
            cgroup: path.to_owned(),
            ..Owner::single(OwnerKind::Cgroup)
        }
    }

    fn intrusion(cpu: u32, event: &str, cause: Owner, ns: u64) -> Intrusion {
        Intrusion {
            cpu,
            event: index_of(event).unwrap() as u32,
            cause,
            victim: group("/trader"),
            ns,
        }
    }

    fn section() -> Intruders {
        let why = |kind, cpuset: &str| Quietness {
            kind,
            cpuset: cpuset.to_owned(),
        };
        Intruders {
            cpus: vec![QuietCpu {
                cpu: 3,
                why: vec![
                    why(QuietKind::Isolcpus, ""),
                    why(QuietKind::Cpuset, "/trader"),
                ],
                ways: vec!["RPS of eth0 rx-0".to_owned()],
            }],
            intrusions: vec![
                intrusion(3, "rx_softirq", group("/noisy"), 30),
                intrusion(3, "tx_softirq", group("/noisy"), 20),
                intrusion(3, "rx_softirq", Owner::single(OwnerKind::Unknown), 50),
            ],
            origins: vec![Origin {
                owner: group("/noisy"),
                cpu: 0,
                ns: 7,
            }],
        }
    }

    #[test]
    fn what_is_written_is_read_and_a_row_of_nobody_is_damage() {
        let written = Snapshot {
            cpus: vec![0, 3],
            sections: Sections {
                intruders: Some(section()),
                ..Sections::default()
            },
            ..Snapshot::default()
        };
        let read: Snapshot = codec::decode(&codec::encode(&written).unwrap()).unwrap();
        assert_eq!(read, written);
        let mut wire = section().to_wire();
        assert_eq!(wire.owners.len(), 3, "each once");
        wire.intrusions[0].2 = 9;
        assert_eq!(Intruders::from_wire(wire, 2), Err(Damaged));
    }

    #[test]
    fn each_cause_has_its_share_of_the_cpu_its_events_its_victims_and_its_other_cpus() {
        let mut sum = section();
        sum.add(&section(), &Columns::folded());
        assert_eq!((sum.total_ns(), sum.cpus.len()), (200, 1));
        let [first, second] = &sum.intruders()[..] else {
            panic!("two causes");
        };
        let causes =
            [first, second].map(|intruder| (intruder.cause.as_str(), intruder.ns, intruder.ratio));
        assert_eq!(causes, [("/noisy", 100, 0.5), ("unknown", 100, 0.5)]);
        assert_eq!(first.events, [("RX softirq", 60), ("TX softirq", 40)]);
        assert_eq!(first.victims, [("/trader".to_owned(), 100)]);
        assert_eq!(
            (&first.origins[..], second.origins.len()),
            (&[(0, 14)][..], 0)
        );
        assert_eq!(sum.cpus[0].reasons(), "isolcpus, cpuset /trader");
    }

    #[test]
    fn json_names_events_and_owners() {
        let json = serde_json::to_value(section()).unwrap();
        let first = &json["intrusions"][0];
        assert_eq!(first["event"], "rx_softirq");
        assert_eq!(first["cause"]["label"], "/noisy");
        assert_eq!(first["victim"]["kind"], "cgroup");
        assert_eq!(json["origins"][0]["owner"]["cgroup"], "/noisy");
        assert_eq!(json["cpus"][0]["why"][1]["cpuset"], "/trader");
    }

    #[test]
    fn a_sum_of_ever_other_causes_does_not_grow_for_ever_and_loses_no_time() {
        let mut sum = Intruders::default();
        for number in 0..1_000 {
            let cause = group(&format!("/{number}"));
            let later = Intruders {
                intrusions: vec![intrusion(1, "rx_softirq", cause, 2)],
                ..Intruders::default()
            };
            sum.add(&later, &Columns::folded());
        }
        assert_eq!(sum.intrusions.len(), MOST_INTRUSIONS + 1);
        assert_eq!(sum.total_ns(), 2_000);
    }
}
