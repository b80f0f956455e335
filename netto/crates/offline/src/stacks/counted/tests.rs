//! Two sides of made-up stacks.

use metrics_common::{COMPONENTS, Cost, Sections, fixture};

use super::*;
use crate::stacks::layout;

const MINUTE_NS: u64 = 60_000_000_000;

fn message(window_ns: u64, folded: &str) -> codec::Stacks {
    codec::Stacks {
        time_unix_ns: 1,
        window_ns,
        samples: 0,
        left_out: 0,
        folded: folded.to_owned(),
    }
}

fn compared(a: &codec::Stacks, b: &codec::Stacks) -> Compared {
    let mut stacks = Stacks::default();
    stacks.add(Which::A, a);
    stacks.add(Which::B, b);
    stacks.compared().unwrap()
}

fn lines(compared: &Compared) -> Vec<(&str, [u64; 2])> {
    let lines = compared.lines.iter();
    lines.map(|(stack, counts)| (&**stack, *counts)).collect()
}

#[test]
fn the_side_that_was_sampled_for_a_shorter_time_is_brought_to_that_of_the_other() {
    let long = message(2 * MINUTE_NS, "rx;a 100\nrx;b 1\n");
    let short = message(MINUTE_NS, "rx;a 50\nrx;c 7\n");
    let all = compared(&long, &short);
    assert_eq!(
        lines(&all),
        [("rx;a", [100, 100]), ("rx;b", [1, 0]), ("rx;c", [0, 14])]
    );
    assert_eq!(all.factors, [1.0, 2.0]);
    let back = compared(&short, &long);
    assert_eq!(lines(&back)[0], ("rx;a", [100, 100]));
}

#[test]
fn a_side_that_was_sampled_less_often_counts_for_more() {
    let mut stacks = Stacks::default();
    for (which, hz) in [(Which::A, 1000), (Which::B, 250)] {
        let info = Info {
            frequency_hz: hz,
            ..fixture::info()
        };
        let snapshot = Snapshot {
            sequence: 1,
            time_unix_ns: MINUTE_NS,
            interval_ns: MINUTE_NS,
            cpus: vec![0],
            sections: Sections {
                cost: Some(Cost {
                    components: vec![Some(vec![1_000_000]); COMPONENTS.len()],
                    ..Cost::default()
                }),
                ..Sections::default()
            },
        };
        stacks.interval(which, &info, &snapshot);
        stacks.add(which, &message(MINUTE_NS, &format!("rx;a {}\n", hz / 10)));
    }
    let all = stacks.compared().unwrap();
    assert_eq!(lines(&all), [("rx;a", [100, 100])]);
}

#[test]
fn without_stacks_on_both_sides_nothing_is_compared() {
    let mut stacks = Stacks::default();
    stacks.add(Which::A, &message(MINUTE_NS, "rx 1\n"));
    // With no time, or more than is plausible.
    stacks.add(Which::B, &message(0, "rx 1\n"));
    stacks.add(Which::B, &message(u64::MAX, "rx 1\n"));
    assert_eq!(stacks.about(Which::B).messages, 0);
    assert_eq!(stacks.compared(), None);
}

#[test]
fn what_has_no_room_is_one_line_on_both_sides() {
    let many = |from: usize| {
        let lines = (from..from + MOST_STACKS).map(|n| format!("rx;f{n} 1\n"));
        message(MINUTE_NS, &lines.collect::<String>())
    };
    let mut second = many(10);
    second.left_out = 5;
    let all = compared(&many(0), &second);
    assert_eq!(all.lines.len(), MOST_STACKS + 1);
    let other = lines(&all).into_iter().find(|(stack, _)| *stack == OTHER);
    assert_eq!(other, Some((OTHER, [0, 15])));
    let sums = all.about.map(|side| side.samples);
    assert_eq!(sums, [MOST_STACKS as u64, MOST_STACKS as u64 + 5]);
}

#[test]
fn no_text_takes_more_memory_than_there_is_for_it() {
    let long = "f".repeat(LONGEST_BYTES - 8);
    let text: String = (0..2_000).map(|n| format!("{long}{n} 1\n")).collect();
    let endless = format!("{} 3\n", "g".repeat(LONGEST_BYTES + 1));
    let mut stacks = Stacks::default();
    stacks.add(Which::A, &message(MINUTE_NS, &(text + &endless)));
    assert!(stacks.text_bytes <= MOST_BYTES);
    let kept = stacks.counts.len() as u64;
    assert!(kept > 500 && stacks.other == [2_003 - kept, 0], "{kept}");
}

#[test]
fn lines_that_are_none_are_passed_over_and_counts_do_not_overflow() {
    let odd = format!("\nrx\nrx x\nrx -1\n 5\nrx {0}\nrx {0}\n", u64::MAX);
    let all = compared(&message(1, &odd), &message(1, ""));
    assert_eq!(lines(&all), [(OTHER, [5, 0]), ("rx", [u64::MAX, 0])]);
    assert_eq!(layout(&all).len(), 1, "the other one is too narrow");
}

#[test]
fn functions_of_one_caller_stand_side_by_side_above_it() {
    let a = message(MINUTE_NS, "a 10\na b;x 20\na;b 100\na;c 70\n");
    let b = message(MINUTE_NS, "a 10\na b;x 20\na;b 400\na;c 70\n");
    let all = compared(&a, &b);
    let rects = layout(&all);
    let find = |name: &str| {
        let found: Vec<_> = rects.iter().filter(|rect| rect.name == name).collect();
        assert_eq!(found.len(), 1, "{name} is drawn once");
        found[0].clone()
    };
    let (whole, more, same) = (find("a"), find("b"), find("c"));
    assert_eq!(whole.counts, [180.0, 480.0]);
    assert_eq!((whole.depth, more.depth), (0, 1));
    assert!((whole.width - 660.0 / 700.0).abs() < 1e-9);
    assert!(more.x >= whole.x && same.x >= more.x + more.width - 1e-9);
    assert!(same.x + same.width <= whole.x + whole.width + 1e-9);
    assert!((more.change - 0.6).abs() < 1e-9);
    assert_eq!(same.change, 0.0);
}

#[test]
fn few_samples_more_may_be_chance() {
    let all = compared(&message(1, "a 10\n"), &message(1, "a 20\n"));
    assert_eq!(layout(&all)[0].change, 0.0);
    let all = compared(&message(1, "a 1000\n"), &message(1, "a 2000\n"));
    assert!(layout(&all)[0].change > 0.3);
}

#[test]
fn stacks_without_end_are_drawn_to_some_depth() {
    let deep = "f;".repeat(5_000) + "f 1000\n";
    let all = compared(&message(1, &deep), &message(1, &deep));
    assert_eq!(layout(&all).len(), 64);
}
