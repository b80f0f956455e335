//! The bars for given intervals.

use super::*;
use crate::fixture::{self, MS};

fn ratio_of(bar: &Bar, key: &str) -> f64 {
    let found = bar.segments.iter().find(|segment| segment.key == key);
    found
        .unwrap_or_else(|| panic!("{} has no {key}", bar.title))
        .ratio
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

fn sum(bar: &Bar) -> f64 {
    bar.segments.iter().map(|segment| segment.ratio).sum()
}

#[test]
fn each_bar_adds_up_and_unfolds_a_stretch_of_the_one_before() {
    let (info, snapshot) = (fixture::info(), fixture::snapshot(1));
    let [modes, kernel, parts] = bars(&info, &snapshot, "rx_softirq", Basis::Host);
    for bar in [&modes, &kernel, &parts] {
        assert!(close(sum(bar), 1.0), "{}: {}", bar.title, sum(bar));
        assert!(!bar.faint, "{}", bar.title);
    }
    // 100 ms each of system and softirq, of 1000.
    assert!(close(ratio_of(&modes, "idle"), 0.75));
    let (low, high) = modes.opened.unwrap();
    assert!(close(low, 0.0) && close(high, 0.2));
    assert!(close(ratio_of(&kernel, "rx_softirq"), 0.5));
    assert!(close(ratio_of(&kernel, "tx_syscall"), 0.1));
    assert!(close(ratio_of(&kernel, REST), 0.4));
    let (low, high) = kernel.opened.unwrap();
    assert!(close(low, 0.1) && close(high, 0.6));
    assert!(close(ratio_of(&parts, "local_delivery_v4"), 0.75));
    assert!(close(ratio_of(&parts, "driver_poll"), 0.25));
    assert_eq!(parts.title, "RX softirq");
    assert_eq!(parts.subtitle, "10.0 % of this host's CPU");
    assert_eq!(
        parts.note.as_deref(),
        Some("An estimate from 100 stacks in 0.5 s, 200 a second.")
    );
}

#[test]
fn a_part_that_few_samples_do_not_tell_from_nothing_is_said_to_be_at_most_so_much() {
    let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
    let text = |snapshot: &Snapshot| {
        let [.., parts] = bars(&info, snapshot, "rx_softirq", Basis::Host);
        let found = parts.segments.iter().find(|s| s.key == "bridging").unwrap();
        parts.text(found)
    };
    assert_eq!(text(&snapshot), "0 %", "of a hundred stacks none");
    // Four stacks of 25 ms.
    let rx = info.row_of("rx_softirq").unwrap();
    let cost = fixture::cost(&mut snapshot);
    cost.samples[rx] = Some(vec![0, 4]);
    for ns_ms in cost.sample_ns_ms.iter_mut().flatten() {
        *ns_ms *= 25;
    }
    let few = text(&snapshot);
    assert!(few.starts_with("≤ "), "{few}");
}

#[test]
fn every_mode_and_every_part_has_its_segment() {
    let (info, snapshot) = (fixture::info(), fixture::snapshot(1));
    let [modes, kernel, parts] = bars(&info, &snapshot, "rx_softirq", Basis::Host);
    let mut names: Vec<&str> = modes.segments.iter().map(|s| s.key.as_str()).collect();
    let mut expected = CpuModes::NAMES;
    names.sort_unstable();
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert_eq!(kernel.segments.len(), info.parts_of("network").count() + 1);
    assert_eq!(parts.segments.len(), info.parts_of("rx_softirq").count());
    for segment in kernel.segments.iter().chain(&parts.segments) {
        if let Some(index) = info.row_of(&segment.key) {
            let color = segment.color.map(Rgb::css);
            assert_eq!(
                color.as_deref(),
                Some(info.components[index].color.as_str())
            );
        }
    }
}

#[test]
fn an_interval_in_which_nothing_happened_draws_nothing() {
    let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
    fixture::modes(&mut snapshot).host = CpuModes::default();
    for row in fixture::cost(&mut snapshot).components.iter_mut().flatten() {
        row.fill(0);
    }
    for bar in bars(&info, &snapshot, "rx_softirq", Basis::Host) {
        assert!(close(sum(&bar), 0.0), "{}", bar.title);
        assert_eq!(bar.opened, None, "{}", bar.title);
        assert!(
            bar.subtitle.contains("in this interval"),
            "{}",
            bar.subtitle
        );
    }
}

#[test]
fn events_finer_than_the_ticks_fill_the_kernel_bar_themselves() {
    let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
    fixture::modes(&mut snapshot).host = CpuModes {
        idle_ns: 1000 * MS,
        ..CpuModes::default()
    };
    let [modes, kernel, _] = bars(&info, &snapshot, "rx_softirq", Basis::Host);
    assert_eq!(modes.opened, Some((0.0, 0.0)));
    assert_eq!(kernel.whole_ns, 120 * MS);
    assert!(close(sum(&kernel), 1.0));
    assert!(close(ratio_of(&kernel, REST), 0.0));
    assert!(kernel.note.unwrap().contains("10 ms"));
}

#[test]
fn next_to_nothing_is_faint() {
    let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
    for row in fixture::cost(&mut snapshot).components.iter_mut().flatten() {
        for ns in row {
            *ns /= 1000;
        }
    }
    let [_, kernel, parts] = bars(&info, &snapshot, "rx_softirq", Basis::Host);
    assert!(!kernel.faint, "the rest of the kernel is not");
    assert!(parts.faint);
}

#[test]
fn what_is_not_measured_is_absent_and_not_a_segment_of_zero() {
    let (mut info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
    fixture::take_away(&mut info, &mut snapshot, "tx_syscall", "no fentry");
    fixture::take_away(&mut info, &mut snapshot, "bridging", "not built in");
    let [_, kernel, parts] = bars(&info, &snapshot, "rx_softirq", Basis::Host);
    for (bar, key, reason) in [
        (&kernel, "tx_syscall", "no fentry"),
        (&parts, "bridging", "not built in"),
    ] {
        assert!(bar.segments.iter().all(|segment| segment.key != key));
        assert_eq!(bar.absent.len(), 1);
        assert_eq!(
            (bar.absent[0].key.as_str(), bar.absent[0].reason.as_str()),
            (key, reason)
        );
    }
    assert!(close(sum(&kernel), 1.0));

    fixture::take_away(&mut info, &mut snapshot, "rx_softirq", "no probe");
    let [_, kernel, parts] = bars(&info, &snapshot, "rx_softirq", Basis::Host);
    assert_eq!(kernel.opened, None);
    assert_eq!(parts.subtitle, "unavailable: no probe");
    assert!(parts.segments.is_empty());
}

#[test]
fn any_event_can_be_unfolded_and_an_unknown_one_does_no_harm() {
    let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
    fixture::cost(&mut snapshot).components[info.row_of("tx_softirq").unwrap()] = Some(vec![MS, 0]);
    let [_, kernel, parts] = bars(&info, &snapshot, "tx_softirq", Basis::Host);
    assert_eq!(parts.title, "TX softirq");
    assert!(kernel.opened.is_some());
    let only: Vec<&str> = parts.segments.iter().map(|s| s.key.as_str()).collect();
    assert_eq!(only, ["tx_softirq"], "its own only part");
    assert!(parts.note.is_some_and(|note| note.contains("not split")));
    let [_, kernel, parts] = bars(&info, &snapshot, "no_such_event", Basis::Host);
    assert!(kernel.opened.is_none() && parts.segments.is_empty());
}

#[test]
fn every_list_says_its_values_on_the_basis_of_the_page() {
    let (info, snapshot) = (fixture::info(), fixture::snapshot(1));
    let texts = |basis| {
        let [modes, kernel, parts] = bars(&info, &snapshot, "rx_softirq", basis);
        [
            (&modes, "idle"),
            (&kernel, "rx_softirq"),
            (&kernel, REST),
            (&parts, "driver_poll"),
        ]
        .map(|(bar, key)| bar.text(bar.segments.iter().find(|s| s.key == key).unwrap()))
    };
    assert_eq!(texts(Basis::Host), ["75.0 %", "10.0 %", "8.0 %", "2.5 %"]);
    assert_eq!(
        texts(Basis::Parent),
        ["75.0 %", "83.3 %", "8.0 % of host", "25.0 %"]
    );
    assert_eq!(texts(Basis::Cpus), ["1.50", "0.20", "0.16", "0.05"]);
    assert_eq!(texts(Basis::Milliseconds)[1], "200.0");
    let subtitles = |basis| bars(&info, &snapshot, "rx_softirq", basis).map(|bar| bar.subtitle);
    assert_eq!(
        subtitles(Basis::Parent)[1..],
        ["20.0 % of this host's CPU", "83.3 % of all networking"]
    );
    assert_eq!(
        subtitles(Basis::Cpus)[1..],
        ["0.40 CPUs' worth of time", "0.20 CPUs' worth of time"]
    );
    let sentence = |basis| sentence(&info, &snapshot, "rx_softirq", basis);
    assert_eq!(
        sentence(Basis::Host),
        "Values in % of this host's CPU, 2 CPUs."
    );
    assert!(sentence(Basis::Parent).contains("the last list of RX softirq"));
}
