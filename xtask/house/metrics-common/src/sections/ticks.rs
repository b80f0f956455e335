//! How often a feature was asked, and how many softirqs were raised.

use serde::{Deserialize, Serialize};

use super::columns::Columns;
use super::recorded::Recorded;
use super::section::Section;
use crate::packed::Damaged;

/// Ticks of the instrument.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticks {
    /// How many there have been since the daemon started.
    pub count: u64,
    /// Softirqs that were raised.
    pub raised: u64,
}

impl Section for Ticks {
    type Wire = Ticks;

    fn to_wire(&self) -> Ticks {
        *self
    }

    fn from_wire(wire: Ticks, _: usize) -> Result<Self, Damaged> {
        Ok(wire)
    }

    fn add(&mut self, later: &Self, _: &Columns) {
        self.count = later.count;
        self.raised += later.raised;
    }
}

/// Nothing of it is kept.
impl Recorded for Ticks {}
