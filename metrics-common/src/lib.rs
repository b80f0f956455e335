//! The vocabulary of netto: the measured quantities, and how a measurement is encoded.
//!
//! Everything here is pure: no I/O, no clock, no operating system. The crate is
//! shared by the daemon, by build scripts (which derive BPF headers from the tables
//! of components and latencies) and by the dashboard in the browser. Build scripts
//! compile the tables alone, without the feature `messages`.
//!
//! * [`component`]: the one table of components; everything else derives from it.
//! * [`advice`]: reasons for a large component, remedies, and rules that look at figures.
//! * [`ownership`]: the part of an event that a stack of named functions belongs to.
//! * [`anomalies`]: what left its usual values, when, and what moved with it.
//! * [`info`]: the description of a host and of its measurement.
//! * [`snapshot`]: one update.
//! * [`sections`]: each instrument's part of an update.
//! * [`efficiency`]: networking's CPU time in relation to its work.
//! * [`latency`]: points at which packets wait, and the histogram of the waiting times.
//! * [`history`]: the last quarter of an hour, in bounded memory.
//! * [`words`]: names on the wire.
//! * [`confidence`]: the uncertainty of an estimate.
//! * [`codec`] and [`packed`]: all of it as MessagePack.
//! * [`rounding`]: rounds times and counts without changing sums.
//! * [`steady`]: the last seconds as one interval.
//! * [`sort`]: one sorting function for all types.
//! * [`log`]: a file of messages that stays readable when cut or damaged.
//! * [`random`]: reproducible pseudorandom numbers.
//! * [`verdict`]: whether networking is a problem, where, and whose.
//! * [`missed`]: when missed events of probes matter.

#[cfg(feature = "messages")]
pub mod advice;
#[cfg(all(feature = "messages", not(target_arch = "wasm32")))]
pub mod anomalies;
#[cfg(feature = "messages")]
pub mod codec;
#[cfg(feature = "messages")]
pub mod compact;
pub mod component;
#[cfg(feature = "messages")]
pub mod confidence;
#[cfg(feature = "messages")]
pub mod efficiency;
#[cfg(feature = "messages")]
#[doc(hidden)]
pub mod fixture;
#[cfg(feature = "messages")]
mod folded;
pub mod histogram;
#[cfg(feature = "messages")]
pub mod history;
#[cfg(feature = "messages")]
pub mod info;
pub mod latency;
#[cfg(feature = "messages")]
pub mod log;
#[cfg(feature = "messages")]
pub mod missed;
#[cfg(feature = "messages")]
pub mod ownership;
#[cfg(feature = "messages")]
pub mod packed;
#[cfg(feature = "messages")]
pub mod random;
#[cfg(feature = "messages")]
pub mod rounding;
#[cfg(feature = "messages")]
pub mod sections;
#[cfg(feature = "messages")]
pub mod snapshot;
#[cfg(feature = "messages")]
pub mod sort;
#[cfg(feature = "messages")]
pub mod steady;
#[cfg(feature = "messages")]
mod steps;
#[cfg(feature = "messages")]
pub mod text;
#[cfg(feature = "messages")]
pub mod verdict;
pub mod words;

pub use component::{COMPONENTS, Component, Kind, Rule, Source};
#[cfg(feature = "messages")]
pub use efficiency::Efficiency;
#[cfg(feature = "messages")]
pub use folded::Folded;
#[cfg(feature = "messages")]
pub use info::{Availability, ComponentInfo, Info, InstrumentInfo, Missable, ProbeInfo};
#[cfg(feature = "messages")]
pub use sections::{
    Correction, Cost, CostliestCpu, CpuModes, DropPlace, Drops, Flows, InstrumentCost, Interface,
    InterfaceCounts, Interfaces, Latency, Modes, OwnCost, OwnPart, Owner, OwnerKind, Owners, Power,
    ProtocolCount, Sections, SoftnetCount, SplitBasis, Traffic, Work, WorkCount, ZonePower,
};
#[cfg(feature = "messages")]
pub use snapshot::Snapshot;
pub use words::{KindName, Method};
