//! The parts of a snapshot, one for each instrument.
//!
//! A section is a type in a file of its own. It defines its encoding, how a later interval is
//! added to it, its sum over all CPUs, and its part of the history; [`Sections`] does each of these
//! for all of them, by exhaustive destructuring.
//!
//! **To add a section, add its file and a line to the list below**: the file's name, which is
//! the section's, and the type. History, log and digests use the trait [`Section`].
//!
//! A section is absent if its instrument does not run. A reader skips unknown sections and
//! shows nothing of missing ones.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::packed::Damaged;
use crate::rounding::Carry;

mod columns;
mod estimated;
mod recorded;
mod section;

pub use advice::{InterfaceSetup, MOST_INTERRUPTS, MOST_SETUPS, SocketMemory};
pub use columns::{Columns, Rows};
pub use cost::{SplitBasis, sum_of_known};
pub use drops::{DropPlace, MOST_PLACES};
pub use estimated::{Estimable, Estimated, Variance};
pub use flows::{
    Amount, Conversation, Evidence, FlowEnd, FlowPrefix, FlowSort, HostName, MOST_CONVERSATIONS,
    MOST_PREFIXES, SampledTime, SampledTimes, Subnet, service_of,
};
#[cfg(not(target_arch = "wasm32"))]
pub use health::{
    BlockDevice, DriveHealth, GroupReads, LinkHealth, MOST_OF_HEALTH, MOST_READING_GROUPS,
    MissingFigure, Pressure, Requests, TcpHealth, Timed,
};
pub use intruders::{
    INTRUDERS, Intruder, Intrusion, MOST_INTRUSIONS, Origin, QuietCpu, QuietKind, Quietness,
};
pub use latency::{GroupKind, GroupLatency, MOST_GROUPS, MissingPoint, PointLatency};
pub use modes::CpuModes;
pub use netto_estimate::Correction;
pub use own::{CostliestCpu, InstrumentCost, OwnPart, Price, SamplePrice};
pub use owners::{
    Account, AccountIntervals, Bounds, Caused, Interruption, Intervals, MOST_FLOWS_OF_OWNER,
    MOST_OWNERS, Owner, OwnerBasis, OwnerFlow, OwnerKind, SampledFigure, Samples, event_of,
    is_softirq,
};
pub use power::ZonePower;
pub use programs::{
    About, Attachment, Cause, Causes, MOST_CAUSES, MOST_PROGRAMS, PROGRAMS, Packets, Program,
};
pub use recorded::{Quantity, Recorded, Unit};
pub use section::Section;
pub use slowest::{MOST_SLOWEST, SLOW_NS, SLOWEST, SLOWEST_TABLES, SOFTIRQS, SlowSoftirq};
pub use traffic::{
    Interface, InterfaceCounts, Interfaces, LOOPBACK, MOST_INTERFACES, ProtocolCount, SoftnetCount,
    Work, WorkCount,
};

pub use cost::SUMS;
pub(crate) use cost::error;
pub(crate) use recorded::Records;

/// An operation on each section, whatever its type.
pub trait Visitor {
    /// Its error.
    type Error;

    /// Visits a section that is present.
    ///
    /// # Errors
    /// If it fails; the following sections are not visited.
    fn visit<S: Section>(&mut self, name: &'static str, section: &S) -> Result<(), Self::Error>;
}

/// Defines [`Sections`] and its wire form from one list, and declares the files. A section with a
/// `cfg` is there only where that holds; absent, it leaves no trace on the wire.
macro_rules! sections {
    ($(
        $(#[doc = $text:literal])* $(#[cfg($when:meta)])? $name:ident: $section:ident,
    )*) => {
        $( $(#[cfg($when)])? pub mod $name; $(#[cfg($when)])? pub use $name::$section; )*

        /// The results of the instruments, by the instrument's name.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct Sections {
            $( $(#[doc = $text])* $(#[cfg($when)])? pub $name: Option<$section>, )*
        }

        /// [`Sections`] on the wire.
        #[derive(Debug, Serialize, Deserialize)]
        pub(crate) struct SectionsWire {
            $(
                $(#[cfg($when)])?
                #[serde(skip_serializing_if = "Option::is_none")]
                $name: Option<<$section as Section>::Wire>,
            )*
        }

        impl Sections {
            /// Name of every section, in order.
            pub const NAMES: &'static [&'static str] = &[$( $(#[cfg($when)])? stringify!($name), )*];

            /// Whether the section of this name is present.
            pub fn has(&self, name: &str) -> bool {
                let Sections { $( $(#[cfg($when)])? $name, )* } = self;
                match name {
                    $( $(#[cfg($when)])? stringify!($name) => $name.is_some(), )*
                    _ => false,
                }
            }

            /// What each kind of section adds to the history, in order.
            pub(crate) const RECORDS: &'static [Records] = &[
                $( $(#[cfg($when)])? Records::of::<$section>(stringify!($name)), )*
            ];

            /// What the section of this name adds to the history, if it is present.
            pub(crate) fn recorded(&self, name: &str) -> Option<&dyn Recorded> {
                let Sections { $( $(#[cfg($when)])? $name, )* } = self;
                match name {
                    $( $(#[cfg($when)])? stringify!($name) => $name.as_ref().map(|section| section as &dyn Recorded), )*
                    _ => None,
                }
            }

            /// Adds a later interval of the section of this name only.
            pub fn add_one(&mut self, name: &str, later: &Self, columns: &Columns) {
                let Sections { $( $(#[cfg($when)])? $name, )* } = self;
                match name {
                    $( $(#[cfg($when)])? stringify!($name) => add($name, &later.$name, columns), )*
                    _ => {}
                }
            }

            /// Visits each section that is present, in order.
            ///
            /// # Errors
            /// The visitor's.
            pub fn visit<V: Visitor>(&self, visitor: &mut V) -> Result<(), V::Error> {
                let Sections { $( $(#[cfg($when)])? $name, )* } = self;
                $(
                    $(#[cfg($when)])?
                    if let Some(section) = $name {
                        visitor.visit(stringify!($name), section)?;
                    }
                )*
                Ok(())
            }

            pub(crate) fn to_wire(&self) -> SectionsWire {
                let Sections { $( $(#[cfg($when)])? $name, )* } = self;
                SectionsWire {
                    $( $(#[cfg($when)])? $name: $name.as_ref().map(Section::to_wire), )*
                }
            }

            pub(crate) fn from_wire(wire: SectionsWire, cpus: usize) -> Result<Self, Damaged> {
                let SectionsWire { $( $(#[cfg($when)])? $name, )* } = wire;
                Ok(Sections {
                    $(
                        $(#[cfg($when)])?
                        $name: $name.map(|wire| Section::from_wire(wire, cpus)).transpose()?,
                    )*
                })
            }

            /// Rounds each section that is present, with its carried errors.
            pub fn round(&mut self, carries: &mut BTreeMap<&'static str, Carry>) {
                let Sections { $( $(#[cfg($when)])? $name, )* } = self;
                $(
                    $(#[cfg($when)])?
                    if let Some(section) = $name {
                        section.round(carries.entry(stringify!($name)).or_default());
                    }
                )*
            }

            /// Name and [`Section::layout`] of each section that is present.
            pub fn layout(&self) -> Vec<(&'static str, Vec<Vec<bool>>)> {
                let Sections { $( $(#[cfg($when)])? $name, )* } = self;
                let all = [$(
                    $(#[cfg($when)])?
                    $name.as_ref().map(|section| (stringify!($name), section.layout())),
                )*];
                all.into_iter().flatten().collect()
            }

            /// Adds a later interval, section by section.
            pub fn add(&mut self, later: &Self, columns: &Columns) {
                let Sections { $( $(#[cfg($when)])? $name, )* } = self;
                $( $(#[cfg($when)])? add($name, &later.$name, columns); )*
            }

            /// The same of all CPUs together, in one column.
            pub fn sum(&self) -> Self {
                let Sections { $( $(#[cfg($when)])? $name, )* } = self;
                Sections { $( $(#[cfg($when)])? $name: $name.as_ref().map(Section::sum), )* }
            }
        }
    };
}

sections! {
    /// CPU time of networking and its components.
    cost: Cost,
    /// CPU time by mode.
    modes: Modes,
    /// The owners of that CPU time.
    owners: Owners,
    /// Power, if RAPL is available.
    power: Power,
    /// Packets and bytes: the work of networking.
    traffic: Traffic,
    /// Packets that were dropped.
    drops: Drops,
    /// CPU time of BPF programs.
    programs: Programs,
    /// The slowest softirqs.
    slowest: Slowest,
    /// Softirqs on CPUs that are meant to be quiet.
    intruders: Intruders,
    /// How long packets wait inside the stack.
    latency: Latency,
    /// Who talks to whom.
    flows: Flows,
    /// How the host is set up, as far as advice depends on it.
    advice: Setup,
    /// The host's health, which the page does not read.
    #[cfg(not(target_arch = "wasm32"))] health: Health,
    /// What netto itself costs.
    own: OwnCost,
    /// What the example feature found.
    #[cfg(feature = "example")] ticks: Ticks,
}

/// A section that first appears in a later interval starts with that interval's values.
fn add<S: Section + Default>(sum: &mut Option<S>, later: &Option<S>, columns: &Columns) {
    match (sum, later) {
        (_, None) if columns.keep_their_place() => {}
        (sum @ Some(_), None) => {
            if let Some(sum) = sum {
                sum.add(&S::default(), columns);
            }
        }
        (sum, Some(later)) => sum.get_or_insert_default().add(later, columns),
        (None, None) => {}
    }
}
