//! CPU time by mode (user, system, idle …), from `/proc/stat`.

use serde::{Deserialize, Serialize};

use super::columns::{Cell, Columns};
use super::recorded::{Quantity, Recorded, Unit};
use super::section::Section;
use crate::info::Info;
use crate::packed::{self, Damaged, Packed};

/// CPU time by mode, nanoseconds in the interval, from `/proc/stat`
/// (which counts in ticks of 10 ms, `man 5 proc_stat`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuModes {
    /// User mode, guests included.
    pub user_ns: u64,
    /// User mode with low priority.
    pub nice_ns: u64,
    /// Kernel mode in the context of a task.
    pub system_ns: u64,
    /// Idle.
    pub idle_ns: u64,
    /// Idle with input or output outstanding.
    pub iowait_ns: u64,
    /// Hard interrupts.
    pub irq_ns: u64,
    /// Softirqs.
    pub softirq_ns: u64,
    /// Taken by the hypervisor.
    pub steal_ns: u64,
}

impl CpuModes {
    /// Names of the modes as in `man 5 proc_stat`, in the order of [`CpuModes::values`].
    pub const NAMES: [&'static str; 8] = [
        "user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal",
    ];

    /// The modes' times in nanoseconds, in the order of [`CpuModes::NAMES`].
    pub fn values(&self) -> [u64; 8] {
        [
            self.user_ns,
            self.nice_ns,
            self.system_ns,
            self.idle_ns,
            self.iowait_ns,
            self.irq_ns,
            self.softirq_ns,
            self.steal_ns,
        ]
    }

    /// The inverse of [`CpuModes::values`].
    pub fn from_values(values: [u64; 8]) -> Self {
        let [
            user_ns,
            nice_ns,
            system_ns,
            idle_ns,
            iowait_ns,
            irq_ns,
            softirq_ns,
            steal_ns,
        ] = values;
        CpuModes {
            user_ns,
            nice_ns,
            system_ns,
            idle_ns,
            iowait_ns,
            irq_ns,
            softirq_ns,
            steal_ns,
        }
    }

    /// All modes together.
    pub fn total_ns(&self) -> u64 {
        self.values().iter().sum()
    }

    /// Everything but idle, waiting for input or output, and stolen time.
    pub fn busy_ns(&self) -> u64 {
        let busy = [
            self.user_ns,
            self.nice_ns,
            self.system_ns,
            self.irq_ns,
            self.softirq_ns,
        ];
        busy.into_iter().fold(0, u64::saturating_add)
    }
}

impl Cell for CpuModes {
    fn plus(&self, more: &CpuModes) -> CpuModes {
        let mut values = self.values();
        for (value, more) in values.iter_mut().zip(more.values()) {
            *value = value.saturating_add(more);
        }
        CpuModes::from_values(values)
    }
}

/// CPU time by mode in an interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Modes {
    /// Modes of each CPU, in the order of the CPUs of the snapshot.
    pub cpus: Vec<CpuModes>,
    /// Modes of the whole host, which `/proc/stat` counts separately.
    pub host: CpuModes,
}

/// [`Modes`] on the wire.
#[derive(Debug, Serialize, Deserialize)]
pub struct ModesWire {
    /// A row for each mode.
    cpus: Packed,
    host: CpuModes,
}

impl Section for Modes {
    type Wire = ModesWire;

    fn to_wire(&self) -> ModesWire {
        let rows: Vec<Vec<u64>> = (0..CpuModes::NAMES.len())
            .map(|mode| self.cpus.iter().map(|modes| modes.values()[mode]).collect())
            .collect();
        ModesWire {
            cpus: packed::pack(rows.iter().map(|row| Some(row.as_slice()))),
            host: self.host,
        }
    }

    fn from_wire(wire: ModesWire, cpus: usize) -> Result<Self, Damaged> {
        Ok(Modes {
            cpus: by_cpu(packed::unpack(&wire.cpus, cpus)?)?,
            host: wire.host,
        })
    }

    fn add(&mut self, later: &Self, columns: &Columns) {
        let Modes { cpus, host } = self;
        columns.add(cpus, &later.cpus);
        *host = host.plus(&later.host);
    }
}

/// A series for each of [`CpuModes::NAMES`], of the whole host.
impl Recorded for Modes {
    fn series(_: &Info) -> Vec<Quantity> {
        let quantity = |name: &str| Quantity {
            name: name.to_owned(),
            unit: Unit::Cpus,
        };
        CpuModes::NAMES.map(quantity).to_vec()
    }

    fn value(&self, series: usize, interval_ns: u64) -> Option<f64> {
        let ns = *self.host.values().get(series)?;
        Some(ns as f64 / interval_ns as f64)
    }
}

/// Converts rows by mode to modes by CPU.
fn by_cpu(rows: packed::Rows) -> Result<Vec<CpuModes>, Damaged> {
    let rows: Vec<Vec<u64>> = rows.into_iter().collect::<Option<_>>().ok_or(Damaged)?;
    let rows: [Vec<u64>; CpuModes::NAMES.len()] = rows.try_into().map_err(|_| Damaged)?;
    (0..rows[0].len())
        .map(|cpu| {
            let mut values = [0; CpuModes::NAMES.len()];
            for (value, row) in values.iter_mut().zip(&rows) {
                *value = *row.get(cpu).ok_or(Damaged)?;
            }
            Ok(CpuModes::from_values(values))
        })
        .collect()
}
