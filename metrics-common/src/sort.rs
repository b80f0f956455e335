//! Stable sorting in one instance for all types: the standard library's, stable or not, adds 4 to 5 kB to
//! the page for each type and order. What the page runs sorts by these functions only.

use std::cmp::Ordering;
use std::mem;

/// Sorts; equal items keep their order.
pub fn sort_by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let mut order = sorted_places(items.len(), &|a, b| compare(&items[a], &items[b]));
    // Around each cycle: a place gets the item that belongs there.
    for start in 0..items.len() {
        let mut at = start;
        loop {
            let from = mem::replace(&mut order[at], at);
            if from == start {
                break;
            }
            items.swap(at, from);
            at = from;
        }
    }
}

/// Sorts by a key; items with equal keys keep their order.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(items, |a, b| key(a).cmp(&key(b)));
}

fn sorted_places(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|a, b| compare(*a, *b));
    places
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_items_keep_their_order() {
        let mut words = ["pear", "fig", "plum", "kiwi", "date", "lime"];
        sort_by(&mut words, |a, b| a.len().cmp(&b.len()));
        assert_eq!(words, ["fig", "pear", "plum", "kiwi", "date", "lime"]);
    }

    proptest! {
        #[test]
        fn it_sorts_as_the_standard_library_does(
            numbers in prop::collection::vec(0_u8..9, 0..80),
        ) {
            let mut items: Vec<(u8, usize)> = numbers.into_iter().zip(0..).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|item| item.0);
            sort_by_key(&mut items, |item| item.0);
            prop_assert_eq!(items, expected);
        }
    }
}
