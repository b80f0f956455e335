//! Tests of a ranking: sums are exact, and memory is bounded.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::history::top::{LARGEST, MOST_NAMES, NAME_BYTES, Top};
use crate::history::{POINTS, Ranking};

fn empty() -> Top {
    Top::new("owners", 0, "processes")
}

fn total(ranking: &Ranking<'_>) -> u64 {
    let largest: u64 = ranking.largest.iter().map(|ranked| ranked.amount).sum();
    largest + ranking.other
}

type Fed = Vec<Option<Vec<(String, u64)>>>;

/// Points with a few frequent names, or with many rare ones.
fn fed() -> impl Strategy<Value = Fed> {
    let name = prop_oneof![3 => 0_u32..30, 1 => any::<u32>()].prop_map(|n| format!("name-{n}"));
    let amounts = prop::collection::vec((name, 0_u64..1_000_000), 0..60);
    prop::collection::vec(prop::option::weighted(0.9, amounts), 1..60)
}

fn feed(top: &mut Top, fed: &Fed) {
    for amounts in fed {
        let amounts = amounts.as_ref().map(|amounts| {
            let each = amounts
                .iter()
                .map(|(name, amount)| (name.as_str(), *amount));
            each.collect()
        });
        top.rank(amounts);
    }
}

fn sum(points: &[Option<Vec<(String, u64)>>]) -> Option<u64> {
    let measured = points.iter().flatten();
    let amounts = measured.flatten().map(|(_, amount)| amount).sum();
    points.iter().any(Option::is_some).then_some(amounts)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn largest_and_other_are_all_that_was_fed_in_each_point_and_any_stretch(
        fed in fed(), from in 0_usize..60, length in 0_usize..60
    ) {
        let mut top = empty();
        feed(&mut top, &fed);
        for (at, point) in fed.iter().enumerate() {
            let found = top.ranking(at..at + 1);
            prop_assert_eq!(found.as_ref().map(total), sum(std::slice::from_ref(point)));
        }
        let end = (from + length).min(fed.len());
        let stretch = fed.get(from..end).unwrap_or_default();
        prop_assert_eq!(top.ranking(from..end).as_ref().map(total), sum(stretch));
        let all = top.ranking(0..usize::MAX);
        prop_assert_eq!(all.as_ref().map(total), sum(&fed));
    }

    #[test]
    fn the_largest_of_a_point_are_the_largest_that_were_fed(fed in fed()) {
        let mut top = empty();
        feed(&mut top, &fed);
        for (at, point) in fed.iter().enumerate() {
            let mut by_name = BTreeMap::new();
            for (name, amount) in point.iter().flatten() {
                *by_name.entry(name.as_str()).or_insert(0) += amount;
            }
            let mut expected: Vec<u64> = by_name.values().copied().filter(|n| *n > 0).collect();
            expected.sort_unstable_by(|a, b| b.cmp(a));
            expected.truncate(LARGEST);
            let found = top.ranking(at..at + 1);
            let found = found.map(|ranking| ranking.largest).unwrap_or_default();
            for ranked in &found {
                prop_assert_eq!(by_name.get(ranked.name), Some(&ranked.amount));
            }
            let found: Vec<u64> = found.iter().map(|ranked| ranked.amount).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn an_older_past_in_front_adds_what_it_had(older in fed(), newer in fed()) {
        let (mut front, mut top) = (empty(), empty());
        feed(&mut front, &older);
        feed(&mut top, &newer);
        top.prepend(Some(front), older.len());
        let both = [older, newer].concat();
        for (at, point) in both.iter().enumerate() {
            let found = top.ranking(at..at + 1);
            prop_assert_eq!(found.as_ref().map(total), sum(std::slice::from_ref(point)));
        }
    }
}

/// Ten new names in each point, longer than any name may be.
fn flood(points: usize) -> Top {
    let mut top = empty();
    for point in 0..points {
        let names: Vec<String> = (0..20)
            .map(|n| format!("{point}-{n}-{}", "é".repeat(400)))
            .collect();
        let amounts = names
            .iter()
            .zip(1_u64..)
            .map(|(name, n)| (name.as_str(), n));
        top.rank(Some(amounts.collect()));
        top.drop_oldest(top.points.len().saturating_sub(POINTS));
    }
    top
}

#[test]
fn memory_is_bounded_whatever_names_come() {
    let top = flood(POINTS + 200);
    assert!(top.names.len() == MOST_NAMES);
    assert!(top.names.iter().all(|name| name.len() <= NAME_BYTES));
    let bytes = top.memory_bytes();
    assert!(bytes < 800 << 10, "{bytes}");
    // Forgotten amounts are part of the sum.
    for point in [0, POINTS / 2, POINTS - 1] {
        let ranking = top.ranking(point..point + 1);
        assert_eq!(ranking.as_ref().map(total), Some((1..=20).sum()));
    }
    assert_eq!(
        top.ranking(0..1).map(|first| first.largest),
        Some(Vec::new())
    );
    let last = top.ranking(POINTS - 1..POINTS).unwrap();
    assert_eq!(last.largest.len(), LARGEST);
}

#[test]
fn a_past_full_of_other_names_leaves_the_present_its_own() {
    let (front, mut top) = (flood(200), flood(100));
    let before = top.clone();
    top.prepend(Some(front), 200);
    assert!(top.names.len() == MOST_NAMES);
    assert_eq!(top.ranking(200..300), before.ranking(0..100));
    assert_eq!(top.ranking(0..300).as_ref().map(total), Some(300 * 210));
}

#[test]
fn a_name_that_comes_back_keeps_its_place() {
    let place = |top: &Top, name: &str| {
        let last = top.points.len() - 1;
        let ranking = top.ranking(last..last + 1)?;
        let mut ranked = ranking.largest.into_iter();
        ranked.find(|r| r.name == name).map(|r| r.place)
    };
    let mut top = empty();
    top.rank(Some(vec![("curl", 5), ("nginx", 9)]));
    let first = place(&top, "curl");
    assert!(first.is_some());
    for other in 0..500 {
        top.rank(Some(vec![(format!("other-{other}").as_str(), 1)]));
        assert_eq!(place(&top, "curl"), None);
    }
    top.drop_oldest(400);
    top.rank(Some(vec![("sshd", 9), ("curl", 5)]));
    assert_eq!(place(&top, "curl"), first);
}

#[test]
fn a_name_that_is_fed_twice_is_one_and_nothing_is_not_zero() {
    let mut top = empty();
    top.rank(Some(vec![("b", 2), ("a", 3), ("b", 2)]));
    top.rank(None);
    top.rank(Some(Vec::new()));
    let first = top.ranking(0..1).unwrap();
    let named: Vec<_> = first.largest.iter().map(|r| (r.name, r.amount)).collect();
    assert_eq!((named, first.other), (vec![("b", 4), ("a", 3)], 0));
    assert_eq!(top.ranking(1..2), None);
    assert_eq!(top.ranking(2..3).as_ref().map(total), Some(0));
}
