//! What a made-up host does in an interval, and how a feature makes up its section of that.

use metrics_common::sections::Rows;
use metrics_common::{CpuModes, Sections};

/// netto's share of any CPU's time, at most: beyond that the made-up host would be sampled less
/// often.
pub const MAX_OVERHEAD: f64 = 0.01;

/// What the CPUs did.
pub struct Work {
    /// CPU time, nanoseconds.
    pub components: Rows<u64>,
    /// Stacks on which a split rests.
    pub samples: Rows<u32>,
    /// How often a timed component was entered.
    pub entries: Rows<u64>,
    /// Modes of each CPU.
    pub modes: Vec<CpuModes>,
}

/// An interval of the made-up host.
pub struct Interval<'a> {
    /// What its CPUs did.
    pub work: &'a Work,
    /// Its length, nanoseconds.
    pub length_ns: u64,
    /// Its end on the host's clock, seconds.
    pub seconds: f64,
    /// Stacks taken on each CPU.
    pub stacks: u64,
    /// Whether only the history is made of it, which nobody asks for single snapshots.
    pub is_past: bool,
}

/// Fills a feature's section. It is called for one interval after the other, and may read the
/// sections of the features before it.
pub type Generator = Box<dyn FnMut(&Interval<'_>, &mut Sections) + Send>;

/// Makes up nothing.
pub fn nothing() -> Generator {
    Box::new(|_, _| {})
}
