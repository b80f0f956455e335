//! One update of netto: the data of one interval, the same for every sink.
//!
//! A [`Snapshot`] is a header, and a section for each instrument (`sections/`).
//! Values are integers in nanoseconds of CPU time, so that sums are exact.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::packed::MOST_CPUS;
use crate::sections::{Columns, Cost, Sections, SectionsWire};

/// One interval of one host: its time, its CPUs, and the results of the instruments.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Counts up by one from 1; a gap means that a reader missed snapshots.
    pub sequence: u64,
    /// End of the interval, nanoseconds since the Unix epoch.
    pub time_unix_ns: u64,
    /// Length of the interval, by the monotonic clock.
    pub interval_ns: u64,
    /// Number of each CPU (the kernel's), ascending: the columns of everything per CPU.
    pub cpus: Vec<u32>,
    /// The results of the instruments.
    pub sections: Sections,
}

/// `part / whole`; 0 if both are 0.
pub fn ratio(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        whole => part as f64 / whole as f64,
    }
}

impl Snapshot {
    /// CPU time of networking; without that section, no component is measured.
    pub fn cost(&self) -> &Cost {
        static NOTHING: Cost = Cost::NOTHING;
        self.sections.cost.as_ref().unwrap_or(&NOTHING)
    }

    /// CPU time of a component over all CPUs, nanoseconds; `None` if not measured.
    pub fn total_ns(&self, component: usize) -> Option<u64> {
        self.cost().total_ns(component)
    }

    /// Total time of all CPUs in the interval, nanoseconds.
    pub fn capacity_ns(&self) -> u64 {
        self.interval_ns.saturating_mul(self.cpus.len() as u64)
    }

    /// Merges a later interval into this one. CPUs may have come and gone in between.
    pub fn add(&mut self, later: &Snapshot) {
        let columns = self.add_time(later);
        self.sections.add(&later.sections, &columns);
    }

    /// Merges a later interval into this one without its sections, whose columns are then these.
    pub fn add_time(&mut self, later: &Snapshot) -> Columns {
        self.sequence = later.sequence;
        self.time_unix_ns = later.time_unix_ns;
        self.interval_ns = self.interval_ns.saturating_add(later.interval_ns);
        Columns::join(&mut self.cpus, &later.cpus)
    }
}

/// A snapshot on the wire and in logs.
#[derive(Serialize, Deserialize)]
struct SnapshotWire {
    sequence: u64,
    time_unix_ns: u64,
    interval_ns: u64,
    cpus: Vec<u32>,
    sections: SectionsWire,
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let wire = SnapshotWire {
            sequence: self.sequence,
            time_unix_ns: self.time_unix_ns,
            interval_ns: self.interval_ns,
            cpus: self.cpus.clone(),
            sections: self.sections.to_wire(),
        };
        wire.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Snapshot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = SnapshotWire::deserialize(deserializer)?;
        // A packed row of a few bytes can stand for as many zeros as there are CPUs.
        if wire.cpus.len() > MOST_CPUS {
            return Err(D::Error::custom("more CPUs than a kernel can have"));
        }
        let sections = Sections::from_wire(wire.sections, wire.cpus.len());
        Ok(Snapshot {
            sequence: wire.sequence,
            time_unix_ns: wire.time_unix_ns,
            interval_ns: wire.interval_ns,
            cpus: wire.cpus,
            sections: sections.map_err(D::Error::custom)?,
        })
    }
}
