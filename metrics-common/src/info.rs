//! What a daemon says of itself and its host: what the rows of snapshots mean, what is measured by
//! which means, and what is not and why.

use serde::{Deserialize, Serialize};

use crate::component::COMPONENTS;
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

/// An instrument, whose findings are the section of a snapshot that has its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstrumentInfo {
    /// Name for machines.
    pub name: String,
    /// Whether it runs.
    pub availability: Availability,
}

/// A note in [`Info::notes`] that begins so says that nothing of this was
/// measured: it is a demonstration, and must be labelled as one wherever it is shown.
pub const DEMO_NOTE_PREFIX: &str = "Demonstration:";

/// A note in [`Info::notes`] that begins so says that this is of a log and not of now, and must
/// be labelled as that wherever it is shown.
pub const RECORDING_NOTE_PREFIX: &str = "Recording:";

/// What a daemon says of itself and its host, once per connection or file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// Stack samples per second and CPU, at most.
    pub frequency_hz: u64,
    /// What takes the samples: `perf` (a timer of its own) or `tick` (the kernel's); `None`
    /// where nothing is sampled.
    pub sampler: Option<String>,
    /// The share of any CPU's time that netto may cost, 0 to 1; `None`: not limited.
    pub max_overhead_ratio: Option<f64>,
    /// Number of CPUs that the kernel can ever have.
    pub possible_cpus: u32,
    /// NUMA node of each possible CPU, by its number; empty if the host has one node only.
    pub numa_nodes: Vec<u32>,
    /// Rows of every snapshot, in order.
    pub components: Vec<ComponentInfo>,
    /// Every probe, attached or not.
    pub probes: Vec<ProbeInfo>,
    /// What [`crate::Cost::probe_missed`] counts, in order; what this kernel cannot count is not among it.
    pub missable: Vec<Missable>,
    /// Whether networking's power can be estimated (RAPL).
    pub power: Availability,
    /// Every instrument: whether it runs, or why not.
    pub instruments: Vec<InstrumentInfo>,
    /// What the user should know about this measurement, one sentence each.
    pub notes: Vec<String>,
}

impl Info {
    /// Whether the values were made up, see [`DEMO_NOTE_PREFIX`].
    pub fn is_demonstration(&self) -> bool {
        self.has_note(DEMO_NOTE_PREFIX)
    }

    /// Whether the values are of a log, see [`RECORDING_NOTE_PREFIX`].
    pub fn is_recording(&self) -> bool {
        self.has_note(RECORDING_NOTE_PREFIX)
    }

    /// Says of an instrument whether it runs.
    pub fn set_instrument(&mut self, name: &str, availability: Availability) {
        if name == "power" {
            self.power = availability.clone();
        }
        match self.instruments.iter_mut().find(|own| own.name == name) {
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
