//! Running totals since the start of the daemon, in whole nanoseconds, so that nothing is lost to
//! rounding. Counters are computed from them.

use std::any::Any;
use std::fmt::Debug;

use metrics_common::Snapshot;

/// A feature's state over all intervals, for figures other than sums.
pub trait State: Any + Debug + Send + Sync {
    /// Adds one interval, which is in the sum already. May remove parts that the sum need not keep.
    fn add(&mut self, snapshot: &Snapshot, sum: &mut Snapshot);

    /// A copy of it.
    fn copy(&self) -> Box<dyn State>;
}

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Totals {
    /// The sum of all intervals. A CPU that goes offline keeps its column.
    pub sum: Snapshot,
    /// Number of snapshots added.
    pub snapshots: u64,
    states: Vec<Box<dyn State>>,
}

impl Clone for Totals {
    fn clone(&self) -> Self {
        Totals {
            sum: self.sum.clone(),
            snapshots: self.snapshots,
            states: self.states.iter().map(|state| state.copy()).collect(),
        }
    }
}

impl Totals {
    /// Empty totals, with these additional states.
    pub fn of(states: impl Iterator<Item = fn() -> Box<dyn State>>) -> Self {
        Totals {
            states: states.map(|make| make()).collect(),
            ..Totals::default()
        }
    }

    /// Adds one interval.
    pub fn add(&mut self, snapshot: &Snapshot) {
        self.sum.add(snapshot);
        for state in &mut self.states {
            state.add(snapshot, &mut self.sum);
        }
        self.snapshots += 1;
    }

    /// The states of all features.
    pub fn states(&self) -> Vec<&dyn Any> {
        let states = self.states.iter();
        states.map(|state| &**state as &dyn Any).collect()
    }

    /// A feature's state, by its type.
    pub fn state<S: State>(&self) -> Option<&S> {
        let mut states = self.states.iter();
        states.find_map(|state| (&**state as &dyn Any).downcast_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics_common::fixture::measured as snapshot;

    /// Counts intervals, and removes the time of the last from the sum.
    #[derive(Debug, Clone, Default)]
    struct Kept(u64);

    impl State for Kept {
        fn add(&mut self, _: &Snapshot, sum: &mut Snapshot) {
            self.0 += 1;
            sum.time_unix_ns = 0;
        }

        fn copy(&self) -> Box<dyn State> {
            Box::new(self.clone())
        }
    }

    #[test]
    fn a_state_sees_every_interval_and_stays_with_a_copy() {
        let make: fn() -> Box<dyn State> = || Box::<Kept>::default();
        let mut totals = Totals::of([make].into_iter());
        totals.add(&snapshot(1));
        let before = totals.clone();
        totals.add(&snapshot(2));
        assert_eq!(before.state::<Kept>().map(|kept| kept.0), Some(1));
        assert_eq!(totals.state::<Kept>().map(|kept| kept.0), Some(2));
        assert_eq!(totals.sum.time_unix_ns, 0);
        assert!(Totals::of(std::iter::empty()).state::<Kept>().is_none());
    }
}
