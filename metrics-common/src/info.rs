//! The daemon's description of itself and its host: the meaning of the rows of snapshots, the
//! method of each measurement, and the reasons for missing ones.

use serde::{Deserialize, Serialize};

use crate::component::COMPONENTS;
use crate::words::{KindName, Method};

/// Whether something is measured on this host, with the method or the reason why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Availability {
    /// Measured, by the method named (`tp_btf`, `fentry`, `sampling`, `derived`…).
    Available {
        /// `tp_btf`, `fentry`, `kprobe`, `sampling`, `sum`, `remainder`, `rapl`, or the name of a
        /// demonstration's.
        method: Method,
    },
    /// Not measured; never shown as zero.
    Unavailable {
        /// The reason and, if possible, a remedy, for people; see docs/TROUBLESHOOTING.md.
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

/// A part of the network stack: a row of the component table, with its availability on this daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComponentInfo {
    /// Stable name for machines.
    pub slug: String,
    /// Slug of the component that it is a part of.
    pub parent: Option<String>,
    /// Name for people.
    pub label: String,
    /// Its colour everywhere: `#rrggbb`.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^#[0-9a-f]{6}$")))]
    pub color: String,
    /// One sentence of explanation.
    pub help: String,
    /// How its time is found: sum, timed, estimated, carved, sampled or remainder.
    pub kind: KindName,
    /// Whether and how it is measured here.
    pub availability: Availability,
}

impl ComponentInfo {
    /// The whole table; `of` gives the availability of each index.
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

/// A BPF program: its purpose, and how it is attached or why it is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeInfo {
    /// The kernel function or tracepoint, e.g. `inet_sendmsg` or `softirq_entry`.
    pub name: String,
    /// How it is attached.
    pub method: Method,
    /// Slug of the component that it times, or another purpose.
    pub purpose: String,
    /// Why it is not attached; null if it is.
    pub failure: Option<String>,
}

/// A way in which a probe can miss events, as counted by the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Missable {
    /// The probe, by its name.
    pub probe: String,
    /// `recursion` (the kernel runs no program on top of itself), `state_lost` (the state of a
    /// sleeping task could not be kept) or `no_room` (the kernel tracks a limited number of returns
    /// at a time).
    pub reason: String,
    /// Slug of the component whose figures are too low as a result.
    pub component: String,
}

/// An instrument; its results are the section of the same name in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InstrumentInfo {
    /// Name for machines.
    pub name: String,
    /// Whether it runs.
    pub availability: Availability,
}

/// Prefix of a note in [`Info::notes`] for made-up values: a demonstration, which must be
/// labelled as such wherever it is shown.
pub const DEMO_NOTE_PREFIX: &str = "Demonstration:";

/// Prefix of a note in [`Info::notes`] for values from a log instead of the present, which must
/// be labelled as such wherever they are shown.
pub const RECORDING_NOTE_PREFIX: &str = "Recording:";

/// The daemon's description of itself and its host, once per connection or file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Info {
    /// netto's version.
    pub version: String,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// Host name.
    pub hostname: String,
    /// `/proc/sys/kernel/random/boot_id`; empty if unknown.
    pub boot_id: String,
    /// Start of the measurement, nanoseconds since the Unix epoch.
    pub started_unix_ns: u64,
    /// Length of an interval, milliseconds.
    pub user_period_ms: u64,
    /// Stack samples per second and CPU, at most.
    pub frequency_hz: u64,
    /// What takes the samples: `perf` (a timer of its own), or `tick+perf` (the kernel's, and that
    /// timer seldom); `tick` in what an older netto has written; null where nothing is sampled.
    pub sampler: Option<String>,
    /// The limit of netto's share of any CPU's time, 0 to 1; null: no limit.
    pub max_overhead_ratio: Option<f64>,
    /// Number of CPUs that the kernel can have at most.
    pub possible_cpus: u32,
    /// NUMA node of each possible CPU, by CPU number; empty if the host has only one node.
    pub numa_nodes: Vec<u32>,
    /// Every component, in the order of all tables.
    pub components: Vec<ComponentInfo>,
    /// Every probe, attached or not.
    pub probes: Vec<ProbeInfo>,
    /// What `probe_missed` of a snapshot counts, in its order; without events that this kernel
    /// cannot count.
    pub missable: Vec<Missable>,
    /// Whether networking's power can be estimated (RAPL).
    pub power: Availability,
    /// Every instrument: whether it runs, or why not.
    pub instruments: Vec<InstrumentInfo>,
    /// What the user should know about this measurement, one sentence each; see
    /// docs/TROUBLESHOOTING.md.
    pub notes: Vec<String>,
}

impl Info {
    /// Whether the values were made up, see [`DEMO_NOTE_PREFIX`].
    pub fn is_demonstration(&self) -> bool {
        self.has_note(DEMO_NOTE_PREFIX)
    }

    /// Whether the values are from a log, see [`RECORDING_NOTE_PREFIX`].
    pub fn is_recording(&self) -> bool {
        self.has_note(RECORDING_NOTE_PREFIX)
    }

    /// Sets the availability of an instrument.
    pub fn set_instrument(&mut self, name: &str, availability: Availability) {
        if name == "power" {
            self.power = availability.clone();
        }
        match self
            .instruments
            .iter_mut()
            .find(|instrument| instrument.name == name)
        {
            Some(known) => known.availability = availability,
            None => self.instruments.push(InstrumentInfo {
                name: name.to_owned(),
                availability,
            }),
        }
    }

    fn has_note(&self, prefix: &str) -> bool {
        self.notes.iter().any(|note| note.starts_with(prefix))
    }
}
