//! Stable sorting in one instance for all types: the standard library's adds 5 kB to the page
//! for each type and order. Pure.

use std::cmp::Ordering;

/// Sorts; equal items keep their order.
pub fn sort_by<T>(items: &mut Vec<T>, compare: impl Fn(&T, &T) -> Ordering) {
    let order = sorted_places(items.len(), &|a, b| compare(&items[a], &items[b]));
    let mut unsorted: Vec<Option<T>> = items.drain(..).map(Some).collect();
    items.extend(order.into_iter().filter_map(|place| unsorted[place].take()));
}

fn sorted_places(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|a, b| compare(*a, *b));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_items_keep_their_order() {
        let mut words = vec!["pear", "fig", "plum", "kiwi", "date", "lime"];
        sort_by(&mut words, |a, b| a.len().cmp(&b.len()));
        assert_eq!(words, ["fig", "pear", "plum", "kiwi", "date", "lime"]);
        let mut numbers: Vec<u32> = (0..100).map(|n| n * 37 % 101).collect();
        sort_by(&mut numbers, |a, b| b.cmp(a));
        assert!(numbers.is_sorted_by(|a, b| a > b) && numbers.len() == 100);
    }
}
