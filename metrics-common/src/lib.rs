//! The vocabulary of netto: the measured quantities, and how a measurement is encoded.
//!
//! Everything here is pure: no I/O, no clock, no operating system. The crate is
//! shared by the daemon, by build scripts (which derive BPF headers from the tables
//! of components and latencies) and by the dashboard in the browser. Build scripts
//! compile the tables alone, without the feature `messages`.
//!
//! * [`component`]: the one table of components; everything else derives from it.
//! * [`ownership`]: the part of an event that a stack of named functions belongs to.
//! * [`info`]: the description of a host and of its measurement.
//! * [`snapshot`]: one update.
//! * [`sections`]: each instrument's part of an update.
//! * [`latency`]: points at which packets wait, and the histogram of the waiting times.
//! * [`history`]: the last quarter of an hour, in bounded memory.
//! * [`named`]: tables of names.
//! * [`words`]: names on the wire.
//! * [`confidence`]: the uncertainty of an estimate.
//! * [`codec`] and [`packed`]: all of it as MessagePack.
//! * [`rounding`]: rounds times and counts without changing sums.
//! * [`steps`]: rounds numbers to steps below their random error.
//! * [`tree`]: which component is a part of which.
//! * [`sort`]: one sorting function for all types.
//! * [`missed`]: when missed events of probes matter.
//! * [`view`]: tables for files and people.

/// What build scripts do without.
macro_rules! messages {
    ($($item:item)*) => {
        $(#[cfg(feature = "messages")] $item)*
    };
}

pub mod component;
pub mod histogram;
pub mod latency;
pub mod named;
pub mod sort;
pub mod words;

pub use component::{COMPONENTS, Component, Kind, Rule, Source};
pub use words::{KindName, Method};

#[cfg(feature = "messages")]
#[macro_use]
pub mod view;

#[cfg(feature = "schema")]
mod schema;

messages! {
    pub mod codec;
    pub mod compact;
    pub mod confidence;
    #[doc(hidden)]
    pub mod fixture;
    mod folded;
    pub mod history;
    pub mod info;
    pub mod missed;
    pub mod ownership;
    pub mod packed;
    pub use netto_estimate::random;
    pub mod rounding;
    pub mod sections;
    pub mod snapshot;
    pub mod steps;
    pub mod text;
    pub mod tree;

    pub use folded::Folded;
    pub use info::{Availability, ComponentInfo, Info, InstrumentInfo, Missable, ProbeInfo};
    pub use sections::{
        Correction, Cost, CostliestCpu, CpuModes, DropPlace, Drops, Flows, InstrumentCost, Interface,
        InterfaceCounts, Interfaces, Latency, Modes, OwnCost, OwnPart, Owner, OwnerKind, Owners, Power,
        ProtocolCount, Sections, SoftnetCount, SplitBasis, Traffic, Work, WorkCount, ZonePower,
    };
    pub use snapshot::Snapshot;
}
