//! Measured components have totals, and OTLP counts each nanosecond once.

use metrics_common::Missable;
use metrics_common::component::index_of;
use metrics_common::fixture::{cost as section, measured, without_xdp};
use netto_metrics::testing::{Sample, page_of, samples_of};

use super::*;

#[test]
fn totals_are_the_sums_of_the_intervals_and_what_is_not_measured_has_none() {
    let page = page_of(
        METRICS,
        &without_xdp(),
        &[&measured(1), &measured(2), &measured(3)],
    );
    let row = index_of("rx_softirq").unwrap();
    let ns = 3 * (row as u64 * 2_000) + 1 + 2 + 3;
    for line in [
        format!("netto_cpu_seconds_total{{cpu=\"1\",event=\"rx_softirq\"}} 0.{ns:09}\n"),
        "netto_samples_lost_total{cpu=\"1\"} 9\n".to_owned(),
    ] {
        assert!(page.contains(&line), "{line}{page}");
    }
    assert!(
        page.contains("component=\"gro\"") && !page.contains("xdp_generic"),
        "{page}"
    );
}

#[test]
fn a_cpu_that_goes_offline_keeps_its_total() {
    // CPU 0 is offline, so the only column is that of CPU 1.
    let mut second = measured(2);
    second.cpus.remove(0);
    for row in section(&mut second).components.iter_mut().flatten() {
        row.remove(0);
    }
    second.sections.modes.as_mut().unwrap().cpus.remove(0);
    section(&mut second).stacks_taken.remove(0);
    section(&mut second).stacks_lost.remove(0);
    let of_first = |snapshots: &[&_]| {
        let page = page_of(METRICS, &without_xdp(), snapshots);
        let lines = page.lines().filter(|line| line.contains("cpu=\"0\""));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let before = of_first(&[&measured(1)]);
    assert!(!before.is_empty());
    assert_eq!(of_first(&[&measured(1), &second]), before);
}

#[test]
fn what_probes_missed_adds_up_under_its_probe_and_reason() {
    let mut described = without_xdp();
    described.missable = vec![Missable {
        probe: "inet_sendmsg".to_owned(),
        reason: "recursion".to_owned(),
        component: "tx_syscall".to_owned(),
    }];
    let mut snapshot = measured(1);
    section(&mut snapshot).probe_missed = vec![3];
    let page = page_of(METRICS, &described, &[&snapshot, &snapshot]);
    let line = "netto_probe_missed_total{probe=\"inet_sendmsg\",reason=\"recursion\"} 6\n";
    assert!(page.contains(line), "{page}");
    // A kernel without these counters has no series.
    let page = page_of(METRICS, &without_xdp(), &[&snapshot]);
    assert!(!page.contains("netto_probe_missed_total"), "{page}");
}

fn of_event<'a>(samples: &'a [Sample], event: &str) -> Vec<&'a Sample> {
    let of_event = samples.iter().filter(|sample| sample.labels[1] == event);
    of_event.collect()
}

#[test]
fn what_is_pushed_of_an_event_is_itself_or_its_parts() {
    let mut snapshot = measured(1);
    let info = without_xdp();
    let samples = samples_of(events_or_their_parts, METRICS, &info, &[&snapshot]);
    for (index, event) in info.components.iter().enumerate() {
        if !EVENTS.contains(&event.kind) {
            continue;
        }
        let shown = of_event(&samples, &event.slug);
        let network = (event.parent.as_deref() == Some(NETWORK)).to_string();
        assert!(shown.iter().all(|sample| sample.labels[3] == network));
        let is_split = shown.iter().all(|sample| !sample.labels[2].is_empty());
        assert!(is_split || shown.iter().all(|sample| sample.labels[2].is_empty()));
        if let (false, Some(ns)) = (is_split, snapshot.total_ns(index)) {
            let seconds: f64 = shown.iter().map(|sample| sample.value).sum();
            assert!((seconds - ns as f64 / 1e9).abs() < 1e-9, "{}", event.slug);
        }
    }
    let is_gro = |sample: &&Sample| sample.labels[..3] == ["0", "rx_softirq", "gro"];
    let row = snapshot.cost().cpu_ns(index_of("gro").unwrap()).unwrap();
    let gro = samples.iter().find(is_gro).unwrap();
    assert_eq!(gro.value, row[0] as f64 / 1e9);
    assert!(
        !samples
            .iter()
            .any(|sample| sample.labels[2] == "xdp_generic")
    );
    // Without a remainder it is not split.
    section(&mut snapshot).components[index_of("rx_unattributed").unwrap()] = None;
    let samples = samples_of(events_or_their_parts, METRICS, &info, &[&snapshot]);
    let shown = of_event(&samples, "rx_softirq");
    assert_eq!(shown.len(), snapshot.cpus.len());
    let row = snapshot.cost().cpu_ns(index_of("rx_softirq").unwrap());
    assert_eq!(shown[1].value, row.unwrap()[1] as f64 / 1e9);
}
