//! A cache of bounded size with least-recently-used eviction.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Validity of a result, nanoseconds.
pub const BELIEVED_NS: u64 = 10_000_000_000;

/// Whether a result of this time is no longer valid.
pub fn is_old(at_ns: u64, now_ns: u64) -> bool {
    now_ns.saturating_sub(at_ns) >= BELIEVED_NS
}

/// How long a result is kept that nobody renews, nanoseconds. Long after it is no longer valid it is still
/// a hint; kept until there is no room, sockets of short connections would fill memory for hours.
pub const KEPT_NS: u64 = 300_000_000_000;

/// Values by key, of bounded weight together.
#[derive(Debug)]
pub struct Recent<K, V> {
    values: FxHashMap<K, (V, u64)>,
    /// Incremented with each use; a value's stamp is its last use.
    uses: u64,
    weight: usize,
    most: usize,
    /// When old results were forgotten the last time.
    forgot_ns: u64,
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
            forgot_ns: 0,
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

    /// Removes results that were not renewed for [`KEPT_NS`], once in that time at the most; `at` tells
    /// when one was found.
    pub fn forget_old(&mut self, now_ns: u64, at: fn(&V) -> u64) {
        if now_ns.saturating_sub(self.forgot_ns) < KEPT_NS {
            return;
        }
        self.forgot_ns = now_ns;
        let (weight, weigh) = (&mut self.weight, self.weigh);
        self.values.retain(|_, (value, _)| {
            let is_kept = now_ns.saturating_sub(at(value)) < KEPT_NS;
            if !is_kept {
                *weight -= weigh(value);
            }
            is_kept
        });
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

    #[test]
    fn what_nobody_renews_is_forgotten_and_the_rest_stays() {
        const SECOND: u64 = 1_000_000_000;
        let mut recent = Recent::new(100_000, |_: &u64| 1);
        let mut most = 0;
        // Ten hours with a short connection each second, and one that lasts.
        for second in 1..=36_000_u64 {
            recent.insert(second, second * SECOND);
            recent.insert(0, second * SECOND);
            recent.forget_old(second * SECOND, |at_ns| *at_ns);
            most = most.max(recent.weight);
            assert!(recent.peek(0).is_some() && recent.peek(second).is_some());
        }
        assert_eq!(recent.iter().count(), recent.weight);
        let kept = (KEPT_NS / SECOND) as usize;
        assert!((kept..=2 * kept + 1).contains(&most), "{most}");
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
