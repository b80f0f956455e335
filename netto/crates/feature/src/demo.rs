//! The activity of a demonstration host in an interval, and how a feature generates its section
//! from it.

use metrics_common::sections::Rows;
use metrics_common::{CpuModes, Sections};

/// Limit of netto's share of any CPU's time: beyond that the demonstration host would be sampled
/// less often.
pub const MAX_OVERHEAD: f64 = 0.01;

/// Activity of the CPUs.
pub struct Work {
    /// CPU time, nanoseconds.
    pub components: Rows<u64>,
    /// Number of stacks behind a split.
    pub samples: Rows<u32>,
    /// How often a timed component was entered.
    pub entries: Rows<u64>,
    /// Modes of each CPU.
    pub modes: Vec<CpuModes>,
}

/// An interval of the demonstration host.
pub struct Interval<'a> {
    /// Activity of its CPUs.
    pub work: &'a Work,
    /// Its length, nanoseconds.
    pub length_ns: u64,
    /// Its end on the host's clock, seconds.
    pub seconds: f64,
    /// Its end, nanoseconds since the Unix epoch.
    pub time_unix_ns: u64,
    /// Stacks taken on each CPU.
    pub stacks: u64,
    /// Whether the interval is for the history only, which is not read as single snapshots.
    pub is_past: bool,
}

/// Fills a feature's section. It is called for consecutive intervals, and may read the sections of
/// the features before it.
pub type Generator = Box<dyn FnMut(&Interval<'_>, &mut Sections) + Send>;

/// Generates nothing.
pub fn nothing() -> Generator {
    Box::new(|_, _| {})
}
