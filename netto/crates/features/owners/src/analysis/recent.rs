//! A cache of bounded size with least-recently-used eviction.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Validity of a result, nanoseconds.
pub const BELIEVED_NS: u64 = 10_000_000_000;

/// Whether a result of this time is no longer valid.
pub fn is_old(at_ns: u64, now_ns: u64) -> bool {
    now_ns.saturating_sub(at_ns) >= BELIEVED_NS
}

/// Values by key, of bounded weight together.
#[derive(Debug)]
pub struct Recent<K, V> {
    values: FxHashMap<K, (V, u64)>,
    /// Incremented with each use; a value's stamp is its last use.
    uses: u64,
    weight: usize,
    most: usize,
    weigh: fn(&V) -> usize,
}

impl<K: Copy + Eq + Hash, V> Recent<K, V> {
    /// A cache with this total weight. Each value must weigh something.
    pub fn new(most: usize, weigh: fn(&V) -> usize) -> Self {
        Recent {
            values: FxHashMap::default(),
            uses: 0,
            weight: 0,
            most,
            weigh,
        }
    }

    /// The value of this key; counts as a use.
    pub fn get(&mut self, key: K) -> Option<&mut V> {
        let (value, used) = self.values.get_mut(&key)?;
        self.uses += 1;
        *used = self.uses;
        Some(value)
    }

    /// The value of this key; counts as no use.
    pub fn peek(&self, key: K) -> Option<&V> {
        self.values.get(&key).map(|(value, _)| value)
    }

    /// All values, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.values.iter().map(|(key, (value, _))| (*key, value))
    }

    /// Inserts or replaces a value. One that exceeds the total weight is not kept.
    pub fn insert(&mut self, key: K, value: V) {
        self.remove(key);
        let weight = (self.weigh)(&value);
        if weight > self.most {
            return;
        }
        if self.weight + weight > self.most {
            self.make_room(weight);
        }
        self.uses += 1;
        self.weight += weight;
        self.values.insert(key, (value, self.uses));
    }

    /// Removes a value.
    pub fn remove(&mut self, key: K) {
        if let Some((value, _)) = self.values.remove(&key) {
            self.weight -= (self.weigh)(&value);
        }
    }

    /// Evicts the least recently used values, a quarter of all at once, so that sorting costs each
    /// of them little.
    fn make_room(&mut self, weight: usize) {
        let rest = (self.most - self.most / 4).min(self.most - weight);
        let mut by_use: Vec<(u64, K)> = self
            .values
            .iter()
            .map(|(k, (_, used))| (*used, *k))
            .collect();
        by_use.sort_unstable_by_key(|(used, _)| *used);
        for (_, key) in by_use {
            if self.weight <= rest {
                break;
            }
            self.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_what_is_not_goes() {
        let mut recent = Recent::new(100, |_: &u32| 1);
        for key in 0..10_000_u32 {
            recent.insert(key, key);
            assert_eq!(recent.get(0), Some(&mut 0), "after {key}");
        }
        assert_eq!(recent.peek(9_999), Some(&9_999));
        assert_eq!(recent.peek(1), None);
    }

    proptest! {
        #[test]
        fn it_never_weighs_more_than_it_may_and_knows_what_it_weighs(
            values in proptest::collection::vec((0_u8..50, 1_usize..60), 0..300),
        ) {
            let mut recent = Recent::new(100, |weight: &usize| *weight);
            for (key, weight) in values {
                recent.insert(key, weight);
                prop_assert_eq!(recent.peek(key), Some(&weight));
                let sum: usize = recent.iter().map(|(_, weight)| weight).sum();
                prop_assert_eq!(sum, recent.weight);
                prop_assert!(sum <= 100);
            }
        }
    }

    #[test]
    fn what_weighs_more_than_all_may_is_not_kept_and_drives_nothing_out() {
        let mut recent = Recent::new(10, |weight: &usize| *weight);
        recent.insert(1, 4);
        recent.insert(2, 11);
        assert_eq!((recent.peek(1), recent.peek(2)), (Some(&4), None));
    }
}
