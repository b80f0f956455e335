//! What every section is able to do.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::columns::Columns;
use super::recorded::Recorded;
use crate::packed::Damaged;
use crate::rounding::Carry;

/// What one instrument found in an interval. Serialized, it is for people and their scripts.
pub trait Section: Recorded + Sized + Serialize {
    /// The section as it travels and lies in logs.
    type Wire: Serialize + DeserializeOwned;

    /// The section for the wire; nothing is lost.
    fn to_wire(&self) -> Self::Wire;

    /// The inverse of [`Section::to_wire`], of a snapshot with so many CPUs.
    ///
    /// # Errors
    /// If it holds anything else than so many columns.
    fn from_wire(wire: Self::Wire, cpus: usize) -> Result<Self, Damaged>;

    /// Adds a later interval. Times and counts are sums, states (such as memory) the later ones.
    fn add(&mut self, later: &Self, columns: &Columns);

    /// Rounds what a log keeps in steps; the carry is this section's own, and lasts as long as the
    /// CPUs stay the same. Parts still sum to their whole afterwards. Unless the section says
    /// otherwise, everything is kept as it is.
    fn round(&mut self, _carry: &mut Carry) {}

    /// Which of its rows are there, table by table: one digest of a log stands only for intervals
    /// that are alike in this. Nothing where rows do not come and go.
    fn layout(&self) -> Vec<Vec<bool>> {
        Vec::new()
    }

    /// The same of all CPUs together, in one column.
    fn sum(&self) -> Self
    where
        Self: Default,
    {
        let mut sum = Self::default();
        sum.add(self, &Columns::folded());
        sum
    }
}
