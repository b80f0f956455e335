//! Snapshots of the formats 1.0 and 1.1, which had all fields in one row and no sections:
//! tables were arrays in logs and packed on the WebSocket. Only read, never written.

use serde::Deserialize;

use super::Snapshot;
use crate::packed::{self, Damaged, Packed, PackedOr};
use crate::sections::{
    self, Cost, CpuModes, Modes, OwnCost, Power, Rows, Section, Sections, SectionsWire, SplitBasis,
};

/// CPUs that a kernel can have at most (`NR_CPUS` of x86).
pub(crate) const MOST_CPUS: usize = 8192;

/// A snapshot of this format or of an older one.
#[derive(Debug, Deserialize)]
pub(super) struct AnyFormat {
    sequence: u64,
    time_unix_ns: u64,
    interval_ns: u64,
    cpus: Vec<u32>,
    sections: Option<SectionsWire>,
    // From here on: formats 1.0 and 1.1.
    components: Option<PackedOr<Option<Vec<u64>>>>,
    samples: Option<PackedOr<Option<Vec<u32>>>>,
    split_basis: Option<PackedOr<SplitBasis>>,
    entries: Option<PackedOr<Option<Vec<u64>>>>,
    ksoftirqd_rx_ns: Option<Vec<u64>>,
    cpu_modes: Option<PackedOr<CpuModes>>,
    host_modes: Option<CpuModes>,
    #[serde(default)]
    stacks_taken: Vec<u64>,
    #[serde(default)]
    stacks_lost: Vec<u64>,
    #[serde(default)]
    probe_missed: Vec<u64>,
    power: Option<Power>,
    own: Option<<OwnCost as Section>::Wire>,
}

impl AnyFormat {
    /// The snapshot.
    ///
    /// # Errors
    /// If a table is damaged, or does not have a column for each CPU.
    pub(super) fn into_snapshot(mut self) -> Result<Snapshot, Damaged> {
        let cpus = self.cpus.len();
        if cpus > MOST_CPUS {
            return Err(Damaged);
        }
        let sections = match self.sections.take() {
            Some(sections) => Sections::from_wire(sections, cpus)?,
            None => self.flat_sections(cpus)?,
        };
        Ok(Snapshot {
            sequence: self.sequence,
            time_unix_ns: self.time_unix_ns,
            interval_ns: self.interval_ns,
            cpus: self.cpus,
            sections,
        })
    }

    fn flat_sections(&mut self, cpus: usize) -> Result<Sections, Damaged> {
        let components = read(self.components.take(), cpus, Ok)?.ok_or(Damaged)?;
        let cost = Cost {
            components,
            samples: read(self.samples.take(), cpus, sections::narrow)?.unwrap_or_default(),
            split_basis: read(self.split_basis.take(), 5, sections::bases)?.unwrap_or_default(),
            entries: read(self.entries.take(), cpus, Ok)?.unwrap_or_default(),
            ksoftirqd_rx_ns: self.ksoftirqd_rx_ns.take(),
            stacks_taken: std::mem::take(&mut self.stacks_taken),
            stacks_lost: std::mem::take(&mut self.stacks_lost),
            probe_missed: std::mem::take(&mut self.probe_missed),
            softirq_correction: None,
            fewest_due: None,
        };
        let modes = read(self.cpu_modes.take(), cpus, sections::by_cpu)?;
        let own = self.own.take().map(|own| OwnCost::from_wire(own, cpus));
        Ok(Sections {
            cost: Some(cost),
            modes: modes
                .zip(self.host_modes)
                .map(|(cpus, host)| Modes { cpus, host }),
            power: self.power.take(),
            own: own.transpose()?,
            ..Sections::default()
        })
    }
}

/// A field in either form; `None` if it is not there.
fn read<T>(
    field: Option<PackedOr<T>>,
    width: usize,
    from_rows: fn(Rows<u64>) -> Result<Vec<T>, Damaged>,
) -> Result<Option<Vec<T>>, Damaged> {
    let unpack = |table: Packed| from_rows(packed::unpack(&table, width)?);
    field
        .map(|field| match field {
            PackedOr::Packed(table) => unpack(table),
            PackedOr::Array(values) => Ok(values),
        })
        .transpose()
}
