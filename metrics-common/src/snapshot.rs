//! One update of netto, and the description of the host that made it.
//!
//! A [`Snapshot`] is what every sink sees of one interval. Its rows stand in
//! the order of [`Info::components`], its columns in that of [`Snapshot::cpus`].
//! Values are integers in nanoseconds of CPU time, so that sums are exact.

use serde::{Deserialize, Deserializer, Serialize};

use crate::component::COMPONENTS;
use crate::packed;
use crate::words::{KindName, Method};

/// Whether a thing can be measured here, and by which means or why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Availability {
    /// Measured, by the method named (`tp_btf`, `fentry`, `sampling`, `derived`…).
    Available {
        /// How it is measured.
        method: Method,
    },
    /// Not measured, and never shown as zero.
    Unavailable {
        /// Why, and where possible what to do about it.
        reason: String,
    },
}

impl Availability {
    /// Available by this method.
    pub fn by(method: impl Into<Method>) -> Self {
        Availability::Available {
            method: method.into(),
        }
    }

    /// Unavailable for this reason.
    pub fn missing(reason: impl Into<String>) -> Self {
        Availability::Unavailable {
            reason: reason.into(),
        }
    }

    /// Whether it is measured.
    pub fn is_available(&self) -> bool {
        matches!(self, Availability::Available { .. })
    }
}

/// A row of the component table as the daemon at hand measures it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentInfo {
    /// Stable name for machines.
    pub slug: String,
    /// Slug of the component that it is a part of.
    pub parent: Option<String>,
    /// Name for people.
    pub label: String,
    /// `#rrggbb`.
    pub color: String,
    /// One sentence of explanation.
    pub help: String,
    /// How its time is found: see [`crate::Kind`].
    pub kind: KindName,
    /// Whether and how it is measured here.
    pub availability: Availability,
}

impl ComponentInfo {
    /// The whole table, each row with the availability that `of` gives for its index.
    pub fn table(of: impl Fn(usize) -> Availability) -> Vec<ComponentInfo> {
        COMPONENTS
            .iter()
            .enumerate()
            .map(|(index, c)| ComponentInfo {
                slug: c.slug.to_owned(),
                parent: c.parent.map(str::to_owned),
                label: c.label.to_owned(),
                color: c.color.to_owned(),
                help: c.help.to_owned(),
                kind: c.kind.name(),
                availability: of(index),
            })
            .collect()
    }
}

/// One BPF program: what it is for, how it is attached or why it is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeInfo {
    /// The kernel function or tracepoint, e.g. `inet_sendmsg` or `softirq_entry`.
    pub name: String,
    /// How it is attached.
    pub method: Method,
    /// Slug of the component that it times, or what else it is for.
    pub purpose: String,
    /// Why it is not attached; `None` when it is.
    pub failure: Option<String>,
}

/// A way in which a probe can miss what it is there to see, where the kernel counts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missable {
    /// The probe, as in [`ProbeInfo::name`].
    pub probe: String,
    /// `recursion` (the kernel runs no program on top of itself), `state_lost` (what a task
    /// was doing could not be kept while it slept) or `no_room` (the kernel waits for a
    /// limited number of returns at a time).
    pub reason: String,
    /// Slug of the component whose figures fall short by it.
    pub component: String,
}

/// A note in [`Info::notes`] that begins so says that nothing of this was
/// measured: it is a demonstration, and must be labelled as one wherever it is shown.
pub const DEMO_NOTE_PREFIX: &str = "Demonstration:";

/// What a daemon says of itself and its host, once per connection or file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    /// netto's version.
    pub version: String,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// Host name.
    pub hostname: String,
    /// `/proc/sys/kernel/random/boot_id`; empty if unknown.
    pub boot_id: String,
    /// When the measurement began, nanoseconds since the Unix epoch.
    pub started_unix_ns: u64,
    /// Length of an interval, milliseconds.
    pub user_period_ms: u64,
    /// Stack samples per second and CPU.
    pub frequency_hz: u64,
    /// Number of CPUs that the kernel can ever have.
    pub possible_cpus: u32,
    /// NUMA node of each possible CPU, by its number; empty if the host has one node only.
    #[serde(default)]
    pub numa_nodes: Vec<u32>,
    /// Rows of every snapshot, in order.
    pub components: Vec<ComponentInfo>,
    /// Every probe, attached or not.
    pub probes: Vec<ProbeInfo>,
    /// What [`Snapshot::probe_missed`] counts, in order; what this kernel cannot count is not among it.
    #[serde(default)]
    pub missable: Vec<Missable>,
    /// Whether networking's power can be estimated (RAPL).
    pub power: Availability,
    /// What the user should know about this measurement, one sentence each.
    pub notes: Vec<String>,
}

impl Info {
    /// Whether the values were made up, see [`DEMO_NOTE_PREFIX`].
    pub fn is_demonstration(&self) -> bool {
        self.notes
            .iter()
            .any(|note| note.starts_with(DEMO_NOTE_PREFIX))
    }
}

/// CPU time by mode, nanoseconds in the interval, from `/proc/stat`
/// (which counts in ticks of 10 ms, `man 5 proc_stat`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Names of the modes, as `/proc/stat`'s manual has them, in the order of [`CpuModes::values`].
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
        self.user_ns + self.nice_ns + self.system_ns + self.irq_ns + self.softirq_ns
    }
}

/// Energy of one RAPL zone in the interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ZonePower {
    /// The zone's name with its path of parents, e.g. `package-0` or `package-0/dram`.
    /// Zones of different depth overlap: never add a zone to its parent.
    pub zone: String,
    /// Joules used in the interval.
    pub energy_joules: f64,
}

/// Power in the interval, measured by RAPL and divided by share of CPU time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Power {
    /// Packages and their memory together, watts.
    pub host_watts: f64,
    /// The part that falls to networking: `host_watts` × networking's share of
    /// all busy CPU time. An estimate.
    pub network_watts: f64,
    /// `network_watts` × the interval.
    pub network_energy_joules: f64,
    /// Every zone that was read.
    pub zones: Vec<ZonePower>,
}

/// What netto itself costs, in the interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnCost {
    /// The daemon's CPU time in user mode.
    pub user_ns: u64,
    /// The daemon's CPU time in the kernel.
    pub system_ns: u64,
    /// Resident memory now.
    pub resident_bytes: u64,
    /// Time to drain and analyse this interval.
    pub analysis_ns: u64,
}

/// On what the split of a component's time among its parts rests, nanoseconds over
/// all CPUs. The four sum to the component's time, and with what was carved out of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitBasis {
    /// Row of the component.
    pub component: u32,
    /// On the stacks that were taken in the interval.
    pub stacks_ns: u64,
    /// On those that were taken on the same CPU within the last half minute or so.
    pub past_ns: u64,
    /// On those of the host's other CPUs, of the interval and the half minute before.
    pub host_ns: u64,
    /// On none, for there were none: the remainder has all of it.
    pub nothing_ns: u64,
}

impl SplitBasis {
    /// Its fields, in order.
    pub fn values(&self) -> [u64; 5] {
        [
            u64::from(self.component),
            self.stacks_ns,
            self.past_ns,
            self.host_ns,
            self.nothing_ns,
        ]
    }

    /// The inverse of [`SplitBasis::values`]; `None` if there is no such row.
    pub fn from_values(values: [u64; 5]) -> Option<Self> {
        let [component, stacks_ns, past_ns, host_ns, nothing_ns] = values;
        Some(SplitBasis {
            component: u32::try_from(component).ok()?,
            stacks_ns,
            past_ns,
            host_ns,
            nothing_ns,
        })
    }

    /// All of the time that was split, nanoseconds.
    pub fn total_ns(&self) -> u64 {
        let times = &self.values()[1..];
        times.iter().fold(0, |sum, &ns| sum.saturating_add(ns))
    }
}

/// One interval of one host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Counts up by one from 1; a gap means that a reader missed snapshots.
    pub sequence: u64,
    /// End of the interval, nanoseconds since the Unix epoch.
    pub time_unix_ns: u64,
    /// Length of the interval, by the monotonic clock.
    pub interval_ns: u64,
    /// Number of each CPU (the kernel's), ascending: the columns of everything per CPU.
    pub cpus: Vec<u32>,
    /// CPU time in nanoseconds by component (row) and CPU (column).
    /// `None`: not measured; [`Info::components`] says why.
    #[serde(deserialize_with = "rows_of_ns")]
    pub components: Vec<Option<Vec<u64>>>,
    /// Stack samples by component and CPU on which the split of this row rests;
    /// `None` where the row is not split or itself found by sampling.
    #[serde(deserialize_with = "rows_of_samples")]
    pub samples: Vec<Option<Vec<u32>>>,
    /// For each component that is split by stacks, on which ones; of an interval that
    /// an older netto wrote, nothing.
    #[serde(default, deserialize_with = "bases")]
    pub split_basis: Vec<SplitBasis>,
    /// How often a timed component was entered (sends, receives, softirqs), by
    /// component and CPU; `None` where that is not counted.
    #[serde(default, deserialize_with = "rows_of_ns")]
    pub entries: Vec<Option<Vec<u64>>>,
    /// Part of the RX softirq's time that ran in ksoftirqd rather than on top of
    /// whatever was interrupted, nanoseconds per CPU; `None` where not measured.
    #[serde(default)]
    pub ksoftirqd_rx_ns: Option<Vec<u64>>,
    /// Modes of each CPU.
    #[serde(deserialize_with = "modes")]
    pub cpu_modes: Vec<CpuModes>,
    /// Modes of the whole host.
    pub host_modes: CpuModes,
    /// Stacks taken in the interval, per CPU.
    pub stacks_taken: Vec<u64>,
    /// Stacks that did not fit into the buffer in the interval, per CPU.
    pub stacks_lost: Vec<u64>,
    /// What probes missed in the interval, on all CPUs, by the rows of [`Info::missable`].
    #[serde(default)]
    pub probe_missed: Vec<u64>,
    /// Power, where RAPL is.
    pub power: Option<Power>,
    /// netto's own cost.
    pub own: OwnCost,
}

impl Snapshot {
    /// CPU time of a component over all CPUs, nanoseconds; `None` if not measured.
    pub fn total_ns(&self, component: usize) -> Option<u64> {
        self.components
            .get(component)?
            .as_ref()
            .map(|row| row.iter().fold(0_u64, |sum, &ns| sum.saturating_add(ns)))
    }

    /// Nanoseconds that all CPUs had in the interval.
    pub fn capacity_ns(&self) -> u64 {
        self.interval_ns.saturating_mul(self.cpus.len() as u64)
    }
}

// The same fields as the log has them (arrays) and as the WebSocket has them
// (packed tables); whoever reads a snapshot need not know which it is.

fn rows_of_ns<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Option<Vec<u64>>>, D::Error> {
    packed::either(from, Some)
}

fn rows_of_samples<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Option<Vec<u32>>>, D::Error> {
    packed::either(from, |rows| {
        let narrow = |row: Vec<u64>| {
            row.into_iter()
                .map(|n| u32::try_from(n).ok())
                .collect::<Option<_>>()
        };
        rows.into_iter()
            .map(|row| row.map_or(Some(None), |row| narrow(row).map(Some)))
            .collect()
    })
}

fn bases<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SplitBasis>, D::Error> {
    packed::either(from, |rows| {
        let basis = |row: Option<Vec<u64>>| SplitBasis::from_values(row?.try_into().ok()?);
        rows.into_iter().map(basis).collect()
    })
}

fn modes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<CpuModes>, D::Error> {
    packed::either(from, |rows| {
        let rows: Vec<Vec<u64>> = rows.into_iter().collect::<Option<_>>()?;
        let cpus = rows.first()?.len();
        (0..cpus)
            .map(|cpu| {
                let values: Option<Vec<u64>> =
                    rows.iter().map(|row| row.get(cpu).copied()).collect();
                Some(CpuModes::from_values(values?.try_into().ok()?))
            })
            .collect()
    })
}
