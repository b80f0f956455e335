//! The vocabulary of netto: what is measured, and how a measurement is written down.
//!
//! Everything here is pure: no I/O, no clock, no operating system. The crate is
//! shared by the daemon, by its build script (which derives the BPF header from
//! the component table) and by the dashboard in the browser.
//!
//! * [`component`]: the one table of components; everything else derives from it.
//! * [`advice`]: what makes each component large, and what one can do about it.
//! * [`ownership`]: which part of an event a stack of named functions belongs to.
//! * [`info`]: the description of a host and of what is measured there.
//! * [`snapshot`]: one update.
//! * [`sections`]: what each instrument adds to an update.
//! * [`efficiency`]: what that costs for what it does.
//! * [`latency`]: where packets wait, and the histogram of how long.
//! * [`history`]: the last quarter of an hour, in bounded memory.
//! * [`words`]: what readers of the wire compare.
//! * [`confidence`]: how far an estimate may be off.
//! * [`codec`] and [`packed`]: all of it as MessagePack.
//! * [`rounding`]: times and counts in steps, nothing lost in sums.
//! * [`log`]: both in a file that survives being cut or damaged.
//! * [`random`]: numbers that look random and are always the same.
//! * [`missed`]: when it matters that probes missed something.

pub mod advice;
pub mod codec;
pub mod component;
pub mod confidence;
pub mod efficiency;
#[doc(hidden)]
pub mod fixture;
mod folded;
pub mod histogram;
pub mod history;
pub mod info;
pub mod latency;
pub mod log;
pub mod missed;
pub mod ownership;
pub mod packed;
pub mod random;
pub mod rounding;
pub mod sections;
pub mod snapshot;
mod steps;
pub mod text;
pub mod words;

pub use component::{COMPONENTS, Component, Kind, Rule, Source};
pub use efficiency::Efficiency;
pub use folded::Folded;
pub use info::{Availability, ComponentInfo, Info, InstrumentInfo, Missable, ProbeInfo};
pub use sections::{
    Correction, Cost, CostliestCpu, CpuModes, DropPlace, Drops, InstrumentCost, Interface,
    InterfaceCounts, Interfaces, Latency, Modes, OwnCost, OwnPart, Owner, OwnerKind, Owners, Power,
    ProtocolCount, Sections, SoftnetCount, SplitBasis, Traffic, Work, WorkCount, ZonePower,
};
pub use snapshot::Snapshot;
pub use words::{KindName, Method};
