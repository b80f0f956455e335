//! Rows of numbers with a column for each CPU, and their sum over intervals between which CPUs
//! came and went. Knows numbers only.

use crate::sort::sort_by_key;

/// A table with a row for each component and a column for each CPU; a row that was not measured
/// is absent.
pub type Rows<T> = Vec<Option<Vec<T>>>;

/// The mapping of the columns of a sum and of a later interval to the new sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// Number of columns of the new sum.
    width: usize,
    /// The new column of each column of the sum; `None` if none moves.
    moved: Option<Vec<usize>>,
    targets: Targets,
}

/// The new columns of the later interval.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Targets {
    /// Unchanged: the usual case.
    Same,
    /// All in the first.
    First,
    /// Each at its own index.
    At(Vec<usize>),
}

impl Columns {
    /// Replaces `sum` by the CPUs of both, ascending, and returns the mapping of columns.
    pub fn join(sum: &mut Vec<u32>, later: &[u32]) -> Columns {
        if sum.as_slice() == later {
            return Columns {
                width: sum.len(),
                moved: None,
                targets: Targets::Same,
            };
        }
        let mut both = [sum.as_slice(), later].concat();
        sort_by_key(&mut both, |cpu| *cpu);
        both.dedup();
        // Every CPU of either is in `both`.
        let place = |cpu: &u32| both.partition_point(|other| other < cpu);
        let moved: Vec<usize> = sum.iter().map(place).collect();
        let stays = sum.len() == both.len();
        let columns = Columns {
            width: both.len(),
            moved: (!stays).then_some(moved),
            targets: Targets::At(later.iter().map(place).collect()),
        };
        *sum = both;
        columns
    }

    /// Maps all columns of a later interval to the only one of the sum.
    pub fn folded() -> Columns {
        Columns {
            width: 1,
            moved: None,
            targets: Targets::First,
        }
    }

    /// Whether the columns of the sum stay at their indices.
    pub(super) fn keep_their_place(&self) -> bool {
        self.moved.is_none()
    }

    /// A row of a later interval in the columns of the sum, with zeros where it has none.
    pub(super) fn placed<T: Cell>(&self, later: &[T]) -> Vec<T> {
        let mut placed = vec![T::default(); self.width];
        let columns = Columns {
            width: self.width,
            moved: None,
            targets: self.targets.clone(),
        };
        columns.add(&mut placed, later);
        placed
    }

    /// Adds a row of a later interval to one of the sum.
    pub(super) fn add<T: Cell>(&self, sum: &mut Vec<T>, later: &[T]) {
        if let Some(moved) = &self.moved {
            let before = std::mem::replace(sum, vec![T::default(); self.width]);
            for (value, &place) in before.into_iter().zip(moved) {
                sum[place] = value;
            }
        }
        if sum.len() != self.width {
            sum.resize(self.width, T::default());
        }
        match &self.targets {
            Targets::Same => {
                // Most CPUs do nothing in most components.
                for (sums, values) in sum.chunks_mut(AT_ONCE).zip(later.chunks(AT_ONCE)) {
                    if T::are_nothing(values) {
                        continue;
                    }
                    for (sum, value) in sums.iter_mut().zip(values) {
                        *sum = sum.plus(value);
                    }
                }
            }
            Targets::First => {
                let all = |all: T, value: &T| all.plus(value);
                let some = later
                    .chunks(AT_ONCE)
                    .filter(|values| !T::are_nothing(values));
                let all = some.flatten().fold(T::default(), all);
                sum[0] = sum[0].plus(&all);
            }
            Targets::At(targets) => {
                for (value, &place) in later.iter().zip(targets) {
                    sum[place] = sum[place].plus(value);
                }
            }
        }
    }

    /// Adds a table; a row is present if it is present in either.
    pub(super) fn add_rows<T: Cell>(&self, sum: &mut Rows<T>, later: &Rows<T>) {
        if sum.len() < later.len() {
            sum.resize(later.len(), None);
        }
        for (index, row) in sum.iter_mut().enumerate() {
            match (row, later.get(index).and_then(Option::as_ref)) {
                (None, None) => {}
                (row, Some(later)) => self.add(row.get_or_insert_default(), later),
                (Some(row), None) => self.add(row, &[]),
            }
        }
    }
}

/// A value of a column.
pub(super) trait Cell: Clone + Default {
    /// The saturating sum.
    fn plus(&self, more: &Self) -> Self;

    /// Whether all of them are certainly zero, by a cheap check.
    fn are_nothing(_: &[Self]) -> bool {
        false
    }
}

/// Number of cells checked together.
const AT_ONCE: usize = 16;

impl Cell for u64 {
    fn plus(&self, more: &u64) -> u64 {
        self.saturating_add(*more)
    }

    fn are_nothing(cells: &[u64]) -> bool {
        cells.iter().fold(0, |all, cell| all | cell) == 0
    }
}

impl Cell for u32 {
    fn plus(&self, more: &u32) -> u32 {
        self.saturating_add(*more)
    }

    fn are_nothing(cells: &[u32]) -> bool {
        cells.iter().fold(0, |all, cell| all | cell) == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cpus() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::btree_set(0_u32..6, 0..6).prop_map(|set| set.into_iter().collect())
    }

    proptest! {
        #[test]
        fn every_cpu_keeps_what_it_had_whoever_comes_and_goes(
            intervals in prop::collection::vec(cpus(), 1..8)
        ) {
            let mut known = Vec::new();
            let mut row = Vec::new();
            let mut expected = std::collections::BTreeMap::new();
            for (index, cpus) in intervals.iter().enumerate() {
                let values: Vec<u64> = cpus.iter().map(|cpu| u64::from(*cpu) + 10 * index as u64).collect();
                for (cpu, value) in cpus.iter().zip(&values) {
                    *expected.entry(*cpu).or_insert(0) += value;
                }
                Columns::join(&mut known, cpus).add(&mut row, &values);
            }
            let found: std::collections::BTreeMap<u32, u64> = known.iter().copied().zip(row).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_row_that_is_not_measured_any_more_keeps_its_sum() {
        let mut rows: Rows<u64> = vec![Some(vec![5]), None];
        let mut cpus = vec![1];
        let columns = Columns::join(&mut cpus, &[0, 1]);
        columns.add_rows(&mut rows, &vec![None, Some(vec![7, 8]), None]);
        assert_eq!(rows, [Some(vec![0, 5]), Some(vec![7, 8]), None]);
        let mut sum = Rows::new();
        Columns::folded().add_rows(&mut sum, &rows);
        assert_eq!(sum, [Some(vec![5]), Some(vec![15]), None]);
    }
}
