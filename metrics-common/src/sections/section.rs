//! The interface of every section.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::columns::Columns;
use super::recorded::Recorded;
use crate::packed::Damaged;
use crate::rounding::Carry;

/// The result of one instrument in an interval. Its serialized form is the JSON for users.
pub trait Section: Recorded + Sized + Serialize {
    /// Its encoding on the wire and in logs.
    type Wire: Serialize + DeserializeOwned;

    /// Encodes it without loss.
    fn to_wire(&self) -> Self::Wire;

    /// The inverse of [`Section::to_wire`], for a snapshot with this many CPUs.
    ///
    /// # Errors
    /// If a table has another number of columns.
    fn from_wire(wire: Self::Wire, cpus: usize) -> Result<Self, Damaged>;

    /// Adds a later interval. Times and counts are sums, states (such as memory) the later ones.
    fn add(&mut self, later: &Self, columns: &Columns);

    /// Rounds values for a log in steps; `carry` belongs to this section, and is kept while the
    /// CPUs stay the same. Parts still sum to their whole afterwards. By default, nothing is
    /// rounded.
    fn round(&mut self, _carry: &mut Carry) {}

    /// Which of its rows are present, table by table: a digest of a log covers only intervals with
    /// the same layout. Empty if rows do not come and go.
    fn layout(&self) -> Vec<Vec<bool>> {
        Vec::new()
    }

    /// The sum over all CPUs, in one column.
    fn sum(&self) -> Self
    where
        Self: Default,
    {
        let mut sum = Self::default();
        sum.add(self, &Columns::folded());
        sum
    }
}
