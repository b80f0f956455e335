//! Whose networking's CPU time is: who caused it, and who paid for it.
//!
//! A time is *caused* by the owner of the socket that the work was for, and *taken from* whoever a
//! softirq interrupted to do it. Of each CPU and component, what its owners caused sums to the
//! component's time in the section `cost`, to the nanosecond.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::recorded::Recorded;
use crate::component::COMPONENTS;

mod accounts;
mod sum;
mod wire;

pub use accounts::{Account, event_of, is_softirq};

/// A sum keeps so many owners apart. One more takes the place of the one that came first among
/// those that caused nothing in the interval at hand, whose time goes to [`OwnerKind::Forgotten`].
pub const MOST_OWNERS: usize = 512;

/// What an owner is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnerKind {
    /// A control group, with all processes in it.
    Cgroup,
    /// A process, in its control group.
    Process,
    /// An interface that packets went to, or came from, which no socket of this host owns.
    Interface,
    /// No owner: the packet met neither a socket nor an interface.
    Nobody,
    /// An owner that was not looked for, because looking for it would have cost too much.
    Unknown,
    /// All owners that are not among the largest.
    Other,
    /// In a sum: owners that it does not keep apart any more.
    Forgotten,
    /// Who pays only: CPUs that idled.
    Idle,
    /// Who pays only: threads of the kernel, ksoftirqd among them, which interrupted nobody.
    Kernel,
}

impl OwnerKind {
    /// Whether there is one of it at most, which needs no name.
    pub fn is_single(self) -> bool {
        !matches!(
            self,
            OwnerKind::Cgroup | OwnerKind::Process | OwnerKind::Interface
        )
    }
}

/// An owner. What is not known of it, or means nothing for its kind, is empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// What it is.
    pub kind: OwnerKind,
    /// Of a control group or process, the kernel's number of the group; of an interface, the inode
    /// of its network namespace.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub id: u64,
    /// Path of the control group from the root of its hierarchy. Bytes that are no text are
    /// escaped (`\xff`).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cgroup: String,
    /// Of an interface, what packets did there: `forwarded to veth12`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub interface: String,
    /// Process number; 0 of anything but a process.
    #[serde(default, skip_serializing_if = "is_zero_pid")]
    pub pid: u32,
    /// When the process began, nanoseconds since boot: tells processes apart that have had the
    /// same number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub started_ns: u64,
    /// The process' name, at most 15 bytes, escaped as the path is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comm: String,
    /// Container that it is in: the runtime's identity of it, whole.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container: String,
    /// Who runs the container: `docker`, `containerd`, `cri-o`, `podman`…
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub runtime: String,
    /// Kubernetes pod: its name, or its identity where the name is not known.
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

/// What makes two owners the same, whatever else was learnt of them meanwhile.
type Identity<'a> = (OwnerKind, u64, u32, u64, &'a str);

impl Owner {
    /// One that needs no name.
    pub fn single(kind: OwnerKind) -> Owner {
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

    fn identity(&self) -> Identity<'_> {
        (
            self.kind,
            self.id,
            self.pid,
            self.started_ns,
            &self.interface,
        )
    }

    /// Its name for people: as short as says which one it is.
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
            OwnerKind::Interface => match self.container.is_empty() && self.pod.is_empty() {
                true => self.interface.clone(),
                false => format!("{} ({})", self.interface, group()),
            },
            OwnerKind::Nobody => "no owner".to_owned(),
            OwnerKind::Unknown => "unknown".to_owned(),
            OwnerKind::Other => "other".to_owned(),
            OwnerKind::Forgotten => "gone".to_owned(),
            OwnerKind::Idle => "idle CPUs".to_owned(),
            OwnerKind::Kernel => "kernel threads".to_owned(),
        }
    }
}

/// What an owner caused of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Caused {
    /// Place in [`Owners::owners`].
    pub owner: u32,
    /// Row of the component: one without parts, or the rest of one that has some.
    pub component: u32,
    /// CPU time by column, nanoseconds.
    pub cpu_ns: Vec<u64>,
}

/// Softirq time that one owner caused and another paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Who caused it: place in [`Owners::owners`].
    pub cause: u32,
    /// Who was interrupted for it: place in [`Owners::owners`].
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
    /// By the socket that a packet ended in or came from.
    pub socket_ns: u64,
    /// By the interface that a packet went to or came from, for want of a socket.
    pub interface_ns: u64,
    /// In proportion to what owners are known to have done on that CPU, lately or meanwhile.
    pub proportion_ns: u64,
    /// In no way: nobody has it.
    pub nothing_ns: u64,
    /// Not looked for: the time of [`OwnerKind::Unknown`].
    #[serde(default)]
    pub unknown_ns: u64,
}

impl OwnerBasis {
    fn add(&mut self, more: &OwnerBasis) {
        for (own, more) in [
            (&mut self.task_ns, more.task_ns),
            (&mut self.socket_ns, more.socket_ns),
            (&mut self.interface_ns, more.interface_ns),
            (&mut self.proportion_ns, more.proportion_ns),
            (&mut self.nothing_ns, more.nothing_ns),
            (&mut self.unknown_ns, more.unknown_ns),
        ] {
            *own = own.saturating_add(more);
        }
    }
}

/// Whose networking's CPU time was in an interval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Owners {
    /// Whoever is named below, each once.
    pub owners: Vec<Owner>,
    /// By owner and component, those that are not 0.
    pub caused: Vec<Caused>,
    /// By who caused softirqs and who was interrupted, pairs that are not 0.
    pub taken: Vec<Taken>,
    /// How that was found, by event.
    pub basis: Vec<OwnerBasis>,
    /// For each of [`Owners::owners`]: time in which all of a control group stood still because
    /// of interrupts, by the kernel's own account (`irq.pressure`), nanoseconds; `None` where it
    /// has none.
    pub irq_pressure_ns: Vec<Option<u64>>,
}

impl Owners {
    /// Place of this owner, which is added if it is not there.
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

    /// What one owner caused of a component on all CPUs, nanoseconds. Of a component with parts,
    /// that of all its parts.
    pub fn caused_ns(&self, owner: u32, component: usize) -> u64 {
        let is_it = |caused: &&Caused| {
            caused.owner == owner && is_within(caused.component as usize, component)
        };
        let values = self.caused.iter().filter(is_it).flat_map(|c| &c.cpu_ns);
        values.fold(0, |sum: u64, ns| sum.saturating_add(*ns))
    }

    /// What each owner caused in all, nanoseconds, by its place.
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

/// Whether a component is another, or a part of it.
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

/// What each owner caused, nanoseconds of CPU time, by name.
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
