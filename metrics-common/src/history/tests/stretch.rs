//! The interval of a stretch of history is that of the sum of its intervals.

use super::*;
use crate::component::{COMPONENTS, index_of};
use crate::confidence;
use crate::info::Availability;
use crate::words::Method;

/// Half a second of two CPUs: RX softirqs of some 200 ms, found by windows, a third of it classified, and
/// sends that samples alone show; each rests on few samples, of two clocks.
fn few_samples(sequence: u64) -> Snapshot {
    let mut snapshot = snapshot(sequence, 500, &[0, 1], 0.0);
    let row = |slug: &str| index_of(slug).unwrap();
    let cost = snapshot.sections.cost.as_mut().unwrap();
    let mut sample_ns_ms = vec![0; COMPONENTS.len()];
    let mut shared_ns = vec![0; COMPONENTS.len()];
    let tenth = 20 * MS + sequence * MS;
    for (slug, tenths) in [("rx_softirq", 9), ("tc_classify", 3), ("tx_syscall", 4)] {
        let ns = tenth * tenths;
        cost.components[row(slug)] = Some(vec![ns, 0]);
        sample_ns_ms[row(slug)] = ns * 30;
        shared_ns[row(slug)] = ns / 10;
    }
    cost.sample_ns_ms = Some(sample_ns_ms);
    cost.ticks_shared_ns = Some(shared_ns);
    cost.received_ns_ms = Some(90 * MS);
    cost.received_shared_ns = Some(4 * MS);
    cost.fewest_due = Some(8);
    cost.fewest_due_in_tasks = Some(20);
    snapshot
}

fn host() -> Info {
    let mut info = info(500);
    info.components[index_of("tx_syscall").unwrap()].availability =
        Availability::by(Method::Sampling);
    info
}

#[test]
fn a_stretch_has_the_interval_of_the_sum_of_its_intervals() {
    let info = host();
    let mut history = History::new(&info);
    let mut sum = Snapshot::default();
    for sequence in 1..=12 {
        history.push(&few_samples(sequence));
        sum.add(&few_samples(sequence));
    }
    let first_ms = history.point_ms(0).0;
    let last_ms = history.point_ms(11).1;
    for slug in ["rx_softirq", "tc_classify", "tx_syscall"] {
        let row = index_of(slug).unwrap();
        let expected = confidence::of_component(&info, &sum, row).unwrap();
        let stretch = history.stretch(first_ms, last_ms, 2);
        let found = confidence::of_sums(&info, &stretch, row).unwrap();
        for (found, expected) in [(found.0, expected.0), (found.1, expected.1)] {
            let ratio = found as f64 / expected as f64;
            assert!((0.99..1.01).contains(&ratio), "{slug}: {found}, {expected}");
        }
        assert!(expected.1 > expected.0, "{slug}: {expected:?}");
    }
}

#[test]
fn a_part_of_a_point_is_less_certain_than_the_whole_point() {
    let info = host();
    let mut history = History::new(&info);
    (1..=4).for_each(|sequence| history.push(&few_samples(sequence)));
    let row = index_of("tc_classify").unwrap();
    let (begin, end) = history.point_ms(1);
    let width = |to_ms: f64| {
        let stretch = history.stretch(begin, to_ms, 2);
        let (low, high) = confidence::of_sums(&info, &stretch, row).unwrap();
        (high - low) as f64 / (to_ms - begin)
    };
    let ratio = width((begin + end) / 2.0) / width(end);
    assert!((1.1..1.5).contains(&ratio), "{ratio}");
}

#[test]
fn errors_come_with_the_message_take_little_memory_and_are_absent_in_older_ones() {
    let info = host();
    let mut history = History::new(&info);
    (1..=100).for_each(|sequence| history.push(&few_samples(sequence)));
    let mut message = history.to_message();
    let back = History::from_message(&info, &message).unwrap();
    assert_eq!(back.errors, history.errors);
    message.errors = None;
    let mut old = History::from_message(&info, &message).unwrap();
    let row = index_of("tc_classify").unwrap();
    let interval = |history: &History, from: usize, to: usize| {
        let (from_ms, to_ms) = (history.point_ms(from).0, history.point_ms(to).1);
        confidence::of_sums(&info, &history.stretch(from_ms, to_ms, 2), row)
    };
    assert!(interval(&history, 0, 99).is_some());
    assert_eq!(interval(&old, 0, 99), None);
    // Nine rows: six of components, and what is said of the host.
    assert!(history.errors.memory_bytes() < 12 * 128 * 4);
    old.push(&few_samples(101));
    assert!(interval(&old, 100, 100).is_some());
    assert_eq!(interval(&old, 99, 100), None, "a part of it is unknown");
}
