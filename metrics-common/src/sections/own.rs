//! What netto itself costs. The time of its probes is not in it.

use serde::{Deserialize, Serialize};

use super::columns::Columns;
use super::{Recorded, Section};
use crate::packed::Damaged;

/// What netto itself costs, in the interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnCost {
    /// The daemon's CPU time in user mode.
    pub user_ns: u64,
    /// The daemon's CPU time in the kernel.
    pub system_ns: u64,
    /// Resident memory now.
    pub resident_bytes: u64,
    /// Time to drain and analyse this interval.
    pub analysis_ns: u64,
}

impl Section for OwnCost {
    type Wire = OwnCost;

    fn to_wire(&self) -> OwnCost {
        *self
    }

    fn from_wire(wire: OwnCost, _: usize) -> Result<Self, Damaged> {
        Ok(wire)
    }

    fn add(&mut self, later: &Self, _: &Columns) {
        let OwnCost {
            user_ns,
            system_ns,
            resident_bytes,
            analysis_ns,
        } = self;
        *user_ns = user_ns.saturating_add(later.user_ns);
        *system_ns = system_ns.saturating_add(later.system_ns);
        *resident_bytes = later.resident_bytes;
        *analysis_ns = analysis_ns.saturating_add(later.analysis_ns);
    }
}

/// Nothing: what netto costs is shown as of now.
impl Recorded for OwnCost {}
