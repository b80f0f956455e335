//! The slowest softirqs: when and where each ran, for how long, in which part, who caused it and who
//! paid.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize, Serializer};

use super::columns::Columns;
use super::owners::{Owner, place_in};
use super::recorded::Recorded;
use super::section::Section;
use crate::component::{COMPONENTS, SOFTIRQ_VECTORS, index_of};
use crate::packed::Damaged;
use crate::sort::sort_by_key;

mod view;

pub use view::{SLOWEST, SLOWEST_TABLES};

/// Most softirqs of an interval or a sum.
pub const MOST_SLOWEST: usize = 10;
/// Softirqs that take longer are slow, nanoseconds.
pub const SLOW_NS: u64 = 100_000;
/// The kernel's names of softirqs, by vector (`/proc/softirqs`).
pub const SOFTIRQS: [&str; SOFTIRQ_VECTORS as usize] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// The slowest softirqs of those that were timed, none that took less than 100 µs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slowest {
    /// By length, descending; 10 at most.
    #[cfg_attr(feature = "schema", schemars(length(max = 10)))]
    pub softirqs: Vec<SlowSoftirq>,
    /// How many softirqs were timed, on all CPUs.
    pub timed: u64,
    /// For how long softirqs were timed, nanoseconds.
    pub timed_ns: u64,
    /// Length of the intervals, nanoseconds: softirqs are sampled in the rest of them.
    pub measured_ns: u64,
}

/// A softirq.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowSoftirq {
    /// When it began, nanoseconds since the Unix epoch.
    pub began_unix_ns: u64,
    /// From its beginning to its end, without interrupts of network devices, nanoseconds.
    pub length_ns: u64,
    /// Its CPU.
    pub cpu: u32,
    /// The kernel's name of its vector, as in `/proc/softirqs`.
    pub softirq: String,
    /// Slug of the component that most of its samples showed; null if none was taken in it that
    /// shows networking.
    pub part: Option<String>,
    /// Samples that show networking.
    pub samples: u32,
    /// For whose packets most of its samples were, or else the one that it met last; of kind
    /// `unknown` where owners did not meet its packets, `nobody` where it met none.
    #[serde(serialize_with = "with_label")]
    #[cfg_attr(feature = "schema", schemars(with = "Labelled<'static>"))]
    pub cause: Owner,
    /// Who was interrupted.
    #[serde(serialize_with = "with_label")]
    #[cfg_attr(feature = "schema", schemars(with = "Labelled<'static>"))]
    pub payer: Owner,
}

/// An owner with its name for people.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Labelled<'a> {
    /// Its name for people.
    label: String,
    #[serde(flatten)]
    owner: &'a Owner,
}

fn with_label<S: Serializer>(owner: &Owner, serializer: S) -> Result<S::Ok, S::Error> {
    let label = owner.label();
    Labelled { label, owner }.serialize(serializer)
}

impl SlowSoftirq {
    /// Its part for people; `unknown` if there is none.
    pub fn part_label(&self) -> &str {
        let row = self.part.as_deref().and_then(index_of);
        match row.and_then(|row| COMPONENTS.get(row)) {
            Some(component) => component.label,
            None => self.part.as_deref().unwrap_or("unknown"),
        }
    }
}

impl Slowest {
    /// How many softirqs these are the slowest of, for people: `of 7 120 that were timed`, and for how
    /// long, if it was not all the time.
    pub fn basis(&self) -> String {
        let count = crate::text::count(self.timed);
        let seconds = |ns: u64| match ns as f64 / 1e9 {
            few if few < 9.95 => format!("{few:.1} s"),
            many => format!("{many:.0} s"),
        };
        if self.timed_ns < self.measured_ns {
            format!(
                "of {count} that were timed in {} of {}; in the rest they were sampled",
                seconds(self.timed_ns),
                seconds(self.measured_ns)
            )
        } else {
            format!("of {count} that were timed")
        }
    }

    /// That there are none, for people.
    pub fn none(&self) -> String {
        let basis = self.basis();
        format!("no softirq took more than {} µs, {basis}", SLOW_NS / 1_000)
    }
}

/// [`Slowest`] on the wire.
#[derive(Debug, Serialize, Deserialize)]
pub struct SlowestWire {
    timed: u64,
    timed_ns: u64,
    measured_ns: u64,
    /// Each once.
    owners: Vec<Owner>,
    softirqs: Vec<SoftirqWire>,
}

/// Beginning, length, CPU, vector's name, part, samples, and the places of cause and payer in the
/// list of owners.
type SoftirqWire = (u64, u64, u32, String, Option<String>, u32, (u32, u32));

impl Section for Slowest {
    type Wire = SlowestWire;

    fn to_wire(&self) -> SlowestWire {
        let mut owners: Vec<Owner> = Vec::new();
        let mut place_of = |owner: &Owner| place_in(&mut owners, owner);
        let softirqs = self.softirqs.iter().map(|slow| {
            let places = (place_of(&slow.cause), place_of(&slow.payer));
            let (softirq, part) = (slow.softirq.clone(), slow.part.clone());
            let SlowSoftirq {
                began_unix_ns,
                length_ns,
                cpu,
                samples,
                ..
            } = *slow;
            (
                began_unix_ns,
                length_ns,
                cpu,
                softirq,
                part,
                samples,
                places,
            )
        });
        let softirqs = softirqs.collect();
        SlowestWire {
            timed: self.timed,
            timed_ns: self.timed_ns,
            measured_ns: self.measured_ns,
            owners,
            softirqs,
        }
    }

    fn from_wire(wire: SlowestWire, _: usize) -> Result<Self, Damaged> {
        let owner = |place: u32| wire.owners.get(place as usize).cloned().ok_or(Damaged);
        if wire.softirqs.len() > MOST_SLOWEST {
            return Err(Damaged);
        }
        let softirqs = wire.softirqs.into_iter().map(|row| {
            let (began_unix_ns, length_ns, cpu, softirq, part, samples, (cause, payer)) = row;
            Ok(SlowSoftirq {
                began_unix_ns,
                length_ns,
                cpu,
                softirq,
                part,
                samples,
                cause: owner(cause)?,
                payer: owner(payer)?,
            })
        });
        Ok(Slowest {
            softirqs: softirqs.collect::<Result<_, Damaged>>()?,
            timed: wire.timed,
            timed_ns: wire.timed_ns,
            measured_ns: wire.measured_ns,
        })
    }

    fn add(&mut self, later: &Self, _: &Columns) {
        self.timed = self.timed.saturating_add(later.timed);
        self.timed_ns = self.timed_ns.saturating_add(later.timed_ns);
        self.measured_ns = self.measured_ns.saturating_add(later.measured_ns);
        // A name may be learnt later.
        for more in later.softirqs.iter().flat_map(SlowSoftirq::owners) {
            for slow in &mut self.softirqs {
                for owner in [&mut slow.cause, &mut slow.payer] {
                    if owner.identity() == more.identity() {
                        owner.clone_from(more);
                    }
                }
            }
        }
        self.softirqs.extend(later.softirqs.iter().cloned());
        sort_by_key(&mut self.softirqs, |slow| Reverse(slow.length_ns));
        self.softirqs.truncate(MOST_SLOWEST);
    }
}

impl SlowSoftirq {
    fn owners(&self) -> [&Owner; 2] {
        [&self.cause, &self.payer]
    }
}

/// Nothing of it is kept.
impl Recorded for Slowest {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;
    use crate::sections::OwnerKind;
    use crate::{Sections, Snapshot};

    fn owner(id: u64, cgroup: &str) -> Owner {
        Owner {
            id,
            cgroup: cgroup.to_owned(),
            ..Owner::single(OwnerKind::Cgroup)
        }
    }

    fn slow(length_ns: u64, payer: Owner) -> SlowSoftirq {
        SlowSoftirq {
            began_unix_ns: 1_700_000_000_000_000_001,
            length_ns,
            cpu: 3,
            softirq: "NET_RX".to_owned(),
            part: (length_ns > 200_000).then(|| "gro".to_owned()),
            samples: 2,
            cause: Owner::single(OwnerKind::Unknown),
            payer,
        }
    }

    fn slowest(softirqs: Vec<SlowSoftirq>) -> Slowest {
        Slowest {
            softirqs,
            timed: 7_120,
            timed_ns: 500_000_000,
            measured_ns: 500_000_000,
        }
    }

    #[test]
    fn what_is_written_is_read_and_a_damaged_list_is_refused() {
        let all = slowest(vec![
            slow(300_000, owner(1, "/a")),
            slow(150_000, owner(2, "/b")),
        ]);
        let written = Snapshot {
            sections: Sections {
                slowest: Some(all.clone()),
                ..Sections::default()
            },
            ..Snapshot::default()
        };
        let read: Snapshot = codec::decode(&codec::encode(&written).unwrap()).unwrap();
        assert_eq!(read, written);
        let mut wire = all.to_wire();
        assert_eq!(wire.owners.len(), 3, "the unknown one is written once");
        wire.owners.pop();
        assert!(Slowest::from_wire(wire, 1).is_err());
        let many = vec![slow(1, owner(1, "/a")); MOST_SLOWEST + 1];
        assert!(Slowest::from_wire(slowest(many).to_wire(), 1).is_err());
    }

    #[test]
    fn a_sum_has_the_slowest_of_all_its_intervals_and_the_newest_names() {
        let mut sum = Slowest::default();
        for interval in 0..100_u64 {
            let length_ns = 100_000 + 1_000 * (interval * 37 % 100);
            let name = if interval == 99 { "/late" } else { "" };
            sum.add(
                &slowest(vec![slow(length_ns, owner(1, name))]),
                &Columns::folded(),
            );
        }
        let lengths: Vec<u64> = sum.softirqs.iter().map(|slow| slow.length_ns).collect();
        let expected: Vec<u64> = (0..10).map(|rank| 199_000 - 1_000 * rank).collect();
        assert_eq!(lengths, expected);
        assert!(sum.softirqs.iter().all(|slow| slow.payer.cgroup == "/late"));
        assert_eq!((sum.timed, sum.timed_ns), (712_000, 50_000_000_000));
        assert_eq!(sum.sum(), sum);
    }

    #[test]
    fn it_says_of_how_many_and_for_how_long_they_were_timed() {
        let mut section = slowest(Vec::new());
        assert_eq!(section.basis(), "of 7\u{202f}120 that were timed");
        section.measured_ns = 60_000_000_000;
        assert!(
            section
                .basis()
                .contains("timed in 0.5 s of 60 s; in the rest")
        );
        assert!(
            section
                .none()
                .starts_with("no softirq took more than 100 µs, of 7")
        );
        let [known, unknown] = [300_000, 150_000].map(|ns| slow(ns, owner(1, "/a")));
        assert_eq!(
            (known.part_label(), unknown.part_label()),
            ("GRO", "unknown")
        );
    }
}
