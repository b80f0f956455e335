//! The owners of networking's CPU time: who caused it, and who paid for it.
//!
//! CPU time is *caused* by the owner of the socket that the work was for, and *taken from* the task
//! that a softirq interrupted. For each CPU and component, the times caused by the owners sum to
//! the component's time in the section `cost`, to the nanosecond.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::recorded::Recorded;
use crate::component::COMPONENTS;
use crate::named;

mod accounts;
mod flows;
mod intervals;
mod samples;
mod sum;
mod wire;

pub use accounts::{Account, event_of, is_softirq};
pub use flows::{MOST_FLOWS_OF_OWNER, OwnerFlow};
pub use intervals::{AccountIntervals, Bounds, Intervals};
pub use samples::{SampledFigure, Samples};

/// Most owners of a sum. A further one replaces the first of those without time in the current
/// interval, whose earlier time moves to [`OwnerKind::Forgotten`].
pub const MOST_OWNERS: usize = 512;

named! {
    /// The kind of an owner.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    OwnerKind:
    /// A control group, with all processes in it.
    Cgroup "cgroup";
    /// A process, in its control group.
    Process "process";
    /// An interface, for packets without a socket on this host.
    Interface "interface";
    /// No owner: the packet met neither a socket nor an interface.
    Nobody "nobody";
    /// An owner that was not looked for, because looking for it would have cost too much.
    Unknown "unknown";
    /// All owners beyond the largest.
    Other "other";
    /// In a sum: owners that are no longer kept separately.
    Forgotten "forgotten";
    /// Only as payer: idle CPUs.
    Idle "idle";
    /// Only as payer: kernel threads such as ksoftirqd, when no task was interrupted.
    Kernel "kernel";
}

impl OwnerKind {
    /// Whether there is at most one, which needs no name.
    pub fn is_single(self) -> bool {
        !matches!(
            self,
            OwnerKind::Cgroup | OwnerKind::Process | OwnerKind::Interface
        )
    }
}

/// An owner. Fields that are unknown, or meaningless for its kind, are empty, and absent from JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Owner {
    /// What it is.
    pub kind: OwnerKind,
    /// Of a control group or process, the kernel's number of the group; of an interface, the inode
    /// of its network namespace.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub id: u64,
    /// Path of the control group from the root of its hierarchy. Bytes that are not UTF-8 are
    /// escaped (`\xff`).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cgroup: String,
    /// Of an interface, the direction of packets: `forwarded to veth12`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub interface: String,
    /// Of a process, its number; 0 for other kinds, which JSON leaves out.
    #[serde(default, skip_serializing_if = "is_zero_pid")]
    pub pid: u32,
    /// Start of the process, nanoseconds since boot: distinguishes processes with a reused number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub started_ns: u64,
    /// The process' name, at most 15 bytes, escaped as the path is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comm: String,
    /// Its container: the runtime's full identifier.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container: String,
    /// The container's runtime: `docker`, `containerd`, `cri-o`, `podman`…
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub runtime: String,
    /// Kubernetes pod: its name, or its identifier if the name is unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// Kubernetes namespace of the pod.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// systemd unit or slice.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn is_zero_pid(value: &u32) -> bool {
    *value == 0
}

/// The fields that identify an owner; all others may be learnt later.
type Identity<'a> = (OwnerKind, u64, u32, u64, &'a str);

impl Owner {
    /// An owner of a kind that needs no name.
    pub const fn single(kind: OwnerKind) -> Owner {
        Owner {
            kind,
            id: 0,
            cgroup: String::new(),
            interface: String::new(),
            pid: 0,
            started_ns: 0,
            comm: String::new(),
            container: String::new(),
            runtime: String::new(),
            pod: String::new(),
            namespace: String::new(),
            unit: String::new(),
        }
    }

    /// Whether it is the same one, of which more or less is known.
    pub fn is(&self, other: &Owner) -> bool {
        self.identity() == other.identity()
    }

    pub(super) fn identity(&self) -> Identity<'_> {
        (
            self.kind,
            self.id,
            self.pid,
            self.started_ns,
            &self.interface,
        )
    }

    /// Its kind in metrics. Processes have no series of their own: they count in their group's.
    pub fn series_kind(&self) -> &'static str {
        match self.kind {
            OwnerKind::Cgroup => "cgroup",
            OwnerKind::Process if self.id == 0 && self.cgroup.is_empty() => "process",
            OwnerKind::Process => "cgroup",
            OwnerKind::Interface => "interface",
            OwnerKind::Nobody => "nobody",
            OwnerKind::Unknown => "unknown",
            // Time of forgotten owners still belongs to the interval.
            OwnerKind::Other | OwnerKind::Forgotten => "other",
            OwnerKind::Idle => "idle",
            OwnerKind::Kernel => "kernel",
        }
    }

    /// Its labels in metrics: owner, cgroup, container, pod and namespace.
    pub fn series_labels(&self) -> [&str; 5] {
        [
            self.series_kind(),
            &self.cgroup,
            &self.container,
            &self.pod,
            &self.namespace,
        ]
    }

    /// Its name for people: the shortest unambiguous one.
    pub fn label(&self) -> String {
        let short = |id: &str| id.chars().take(12).collect::<String>();
        let group = || {
            if !self.pod.is_empty() && !self.container.is_empty() {
                format!("{} ({})", self.pod, short(&self.container))
            } else if !self.pod.is_empty() {
                self.pod.clone()
            } else if !self.container.is_empty() {
                format!("container {}", short(&self.container))
            } else if !self.unit.is_empty() {
                self.unit.clone()
            } else if self.cgroup == "/" {
                "root control group (no container)".to_owned()
            } else if !self.cgroup.is_empty() {
                self.cgroup.clone()
            } else {
                format!("control group {}", self.id)
            }
        };
        match self.kind {
            OwnerKind::Cgroup => group(),
            OwnerKind::Process if self.id == 0 && self.cgroup.is_empty() => {
                format!("{} [{}]", self.comm, self.pid)
            }
            OwnerKind::Process => format!("{} [{}] in {}", self.comm, self.pid, group()),
            OwnerKind::Interface => {
                if self.container.is_empty() && self.pod.is_empty() {
                    self.interface.clone()
                } else {
                    format!("{} ({})", self.interface, group())
                }
            }
            OwnerKind::Nobody => "no owner".to_owned(),
            OwnerKind::Unknown => "unknown".to_owned(),
            OwnerKind::Other => "other".to_owned(),
            OwnerKind::Forgotten => "gone".to_owned(),
            OwnerKind::Idle => "idle CPUs".to_owned(),
            OwnerKind::Kernel => "kernel threads".to_owned(),
        }
    }
}

/// CPU time that an owner caused in a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Caused {
    /// Index in [`Owners::owners`].
    pub owner: u32,
    /// Row of the component: one without parts, or the remainder of one with parts.
    pub component: u32,
    /// CPU time by column, nanoseconds; a single value is of all CPUs together.
    pub cpu_ns: Vec<u64>,
}

/// Softirq time that one owner caused and another paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interruption {
    /// The owner that caused it: place in `owners`, from 0.
    pub cause: u32,
    /// The interrupted owner: place in `owners`, from 0.
    pub payer: u32,
    /// CPU time on all CPUs, nanoseconds.
    pub ns: u64,
}

/// How the owners of an event's time were found, nanoseconds over all CPUs. The six sum to the
/// event's time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerBasis {
    /// Row of the event.
    pub component: u32,
    /// By the task that ran.
    pub task_ns: u64,
    /// By the socket at the end or beginning of a packet's way.
    pub socket_ns: u64,
    /// By the interface of a packet without a socket.
    pub interface_ns: u64,
    /// In proportion to known work on that CPU in this interval or shortly before.
    pub proportion_ns: u64,
    /// Without an owner.
    pub nothing_ns: u64,
    /// Not looked for: the time of [`OwnerKind::Unknown`].
    #[serde(default)]
    pub unknown_ns: u64,
    /// The sum over intervals of the event's time times the time for which one independent sample
    /// of a cause stands, in nanoseconds times milliseconds: the square of the whole time over
    /// this is the number of independent samples. `None` if it was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause_ns_ms: Option<u64>,
    /// The same of samples with a known payer; `None` of what is no softirq, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payer_ns_ms: Option<u64>,
}

impl OwnerBasis {
    /// The event's time, nanoseconds over all CPUs.
    pub fn total_ns(&self) -> u64 {
        let OwnerBasis {
            component: _,
            task_ns,
            socket_ns,
            interface_ns,
            proportion_ns,
            nothing_ns,
            unknown_ns,
            cause_ns_ms: _,
            payer_ns_ms: _,
        } = *self;
        let ways = [
            socket_ns,
            interface_ns,
            proportion_ns,
            nothing_ns,
            unknown_ns,
        ];
        ways.into_iter().fold(task_ns, u64::saturating_add)
    }

    fn add(&mut self, more: &OwnerBasis) {
        for (sum, more) in [
            (&mut self.task_ns, more.task_ns),
            (&mut self.socket_ns, more.socket_ns),
            (&mut self.interface_ns, more.interface_ns),
            (&mut self.proportion_ns, more.proportion_ns),
            (&mut self.nothing_ns, more.nothing_ns),
            (&mut self.unknown_ns, more.unknown_ns),
        ] {
            *sum = sum.saturating_add(more);
        }
        for (sum, more) in [
            (&mut self.cause_ns_ms, more.cause_ns_ms),
            (&mut self.payer_ns_ms, more.payer_ns_ms),
        ] {
            *sum = sum.zip(more).map(|(sum, more)| sum.saturating_add(more));
        }
    }
}

/// The owners of networking's CPU time in an interval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Owners {
    /// All owners named below, each once.
    pub owners: Vec<Owner>,
    /// By owner and component, without zeros.
    pub caused: Vec<Caused>,
    /// Pairs of causing and interrupted owners, without zeros.
    pub taken: Vec<Interruption>,
    /// How the owners were found, by event.
    pub basis: Vec<OwnerBasis>,
    /// For each of [`Owners::owners`]: time in which all tasks of a control group were stalled by
    /// interrupts, as counted by the kernel (`irq.pressure`), nanoseconds; `None` if it is not
    /// counted.
    pub irq_pressure_ns: Vec<Option<u64>>,
    /// The largest flows of each owner, where samples show flows; in a sum, of intervals in which they
    /// were among the largest.
    pub flows: Vec<OwnerFlow>,
    /// For how much time the samples of each figure stand; `None` in what an older netto has written, and
    /// in a sum that contains it: its figures have no intervals.
    #[serde(skip)]
    pub samples: Option<Samples>,
}

/// Index of this owner in a list that has each once, and gets it if it is missing.
pub(super) fn place_in(owners: &mut Vec<Owner>, owner: &Owner) -> u32 {
    let place = owners.iter().position(|known| known == owner);
    place.unwrap_or_else(|| {
        owners.push(owner.clone());
        owners.len() - 1
    }) as u32
}

impl Owners {
    /// Keeps of what was caused only the sums of all CPUs.
    pub(crate) fn sum_over_cpus(&mut self) {
        for caused in &mut self.caused {
            let sum_ns = caused
                .cpu_ns
                .iter()
                .fold(0_u64, |sum, ns| sum.saturating_add(*ns));
            caused.cpu_ns = vec![sum_ns];
        }
    }

    /// Index of this owner, which is added if missing.
    pub fn place_of(&mut self, owner: &Owner) -> u32 {
        let mut known = self.owners.iter();
        let place = known.position(|known| known.identity() == owner.identity());
        place.unwrap_or_else(|| self.push(owner.clone())) as u32
    }

    fn push(&mut self, owner: Owner) -> usize {
        self.owners.push(owner);
        self.irq_pressure_ns.push(None);
        self.owners.len() - 1
    }

    /// CPU time that one owner caused in a component and its parts on all CPUs, nanoseconds.
    pub fn caused_ns(&self, owner: u32, component: usize) -> u64 {
        let is_it = |caused: &&Caused| {
            caused.owner == owner && is_within(caused.component as usize, component)
        };
        let values = self.caused.iter().filter(is_it).flat_map(|c| &c.cpu_ns);
        values.fold(0, |sum: u64, ns| sum.saturating_add(*ns))
    }

    /// Total CPU time that each owner caused, nanoseconds, by its index.
    pub fn totals_ns(&self) -> Vec<u64> {
        let mut totals = vec![0_u64; self.owners.len()];
        for caused in &self.caused {
            if let Some(total) = totals.get_mut(caused.owner as usize) {
                let sum = caused.cpu_ns.iter();
                *total = sum.fold(*total, |sum, ns| sum.saturating_add(*ns));
            }
        }
        totals
    }
}

/// Whether a component is another one or a part of it.
fn is_within(mut component: usize, whole: usize) -> bool {
    loop {
        if component == whole {
            return true;
        }
        let parent = COMPONENTS.get(component).and_then(|row| row.parent);
        match parent.and_then(crate::component::index_of) {
            Some(parent) => component = parent,
            None => return false,
        }
    }
}

/// The CPU time that each owner caused, nanoseconds, by name.
impl Recorded for Owners {
    fn tops() -> &'static [&'static str] {
        &["caused"]
    }

    fn amounts(&self, _: usize) -> Option<Vec<(Cow<'_, str>, u64)>> {
        let totals = self.owners.iter().zip(self.totals_ns());
        Some(
            totals
                .map(|(owner, ns)| (owner.label().into(), ns))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests;
