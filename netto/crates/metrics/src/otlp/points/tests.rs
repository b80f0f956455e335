//! The conversion of samples to points.

use super::*;
use crate::metrics;
use crate::testing::with_inputs;
use metrics_common::fixture::{info, measured};

const FAMILIES: &[Family] = metrics! {
    Counter "netto_wait_seconds_total" Seconds ["cpu", "why"];
        "Waits.";
        |_, out| {
            out.push(&["1", "disk\u{202e}"], Value::Nanoseconds(1_500_000_000));
            out.push(&["0", ""], Value::Nanoseconds(0));
        };
    Gauge "netto_room_bytes" Bytes ["hardware"];
        "Room.";
        |_, out| out.push(&["true"], Value::Count(7));
    Histogram "netto_delay_seconds" Seconds [];
        "Delays.";
        |_, out| {
            let mut delays = Histogram::default();
            for ns in [10, 1 << 20, (1 << 20) + 1, 1 << 30] {
                delays.record(ns);
            }
            out.push_histogram(&[], &delays);
        };
    Gauge "netto_nothing" Flag [];
        "Not measured.";
        |_, _| {};
    Gauge "netto_other" Flag [] as Otlp::Absent;
        "Elsewhere.";
        |_, out| out.push(&[], Value::Count(1));
    Counter "netto_one_total" Count("one") [] as Otlp::Instead(&["network"], |_, out| {
        out.push(&["false"], Value::Count(1))
    });
        "One.";
        |_, _| {};
};

fn metrics() -> Vec<Metric> {
    let mut pushed = Vec::new();
    let info = info();
    with_inputs(Catalogue::of(FAMILIES), &info, &[&measured(1)], |inputs| {
        let request = request(inputs, None, &[Catalogue::of(FAMILIES)]);
        pushed.clone_from(&request.resource_metrics[0].scope_metrics[0].metrics);
    });
    pushed
}

fn named(name: &str) -> (String, metric::Data) {
    let found: Vec<Metric> = metrics()
        .into_iter()
        .filter(|metric| metric.name == name)
        .collect();
    assert_eq!(found.len(), 1, "{name}");
    (found[0].unit.clone(), found[0].data.clone().unwrap())
}

#[test]
fn totals_are_cumulative_sums_with_typed_attributes() {
    let (unit, metric::Data::Sum(sum)) = named("netto.wait.time") else {
        panic!("no sum");
    };
    assert_eq!(unit, "s");
    assert!(sum.is_monotonic);
    assert_eq!(sum.aggregation_temporality, 2, "cumulative");
    let first = &sum.data_points[0];
    let cpu = attribute("cpu.logical_number", Attribute::IntValue(1));
    assert_eq!(first.attributes, [cpu, text("why", r"disk\u{202e}")]);
    assert_eq!(first.value, Some(Number::AsDouble(1.5)));
    assert_eq!(first.time_unix_nano, measured(1).time_unix_ns);
    assert!(first.start_time_unix_nano <= first.time_unix_nano);
    let cpu = attribute("cpu.logical_number", Attribute::IntValue(0));
    assert_eq!(
        sum.data_points[1].attributes,
        [cpu],
        "an empty label is none"
    );
    let (unit, metric::Data::Sum(sum)) = named("netto.one") else {
        panic!("no sum");
    };
    assert_eq!(unit, "{one}");
    let network = attribute("network", Attribute::BoolValue(false));
    assert_eq!(sum.data_points[0].attributes, [network]);
}

#[test]
fn states_are_gauges_without_a_beginning() {
    let (unit, metric::Data::Gauge(gauge)) = named("netto.room") else {
        panic!("no gauge");
    };
    assert_eq!((unit.as_str(), gauge.data_points.len()), ("By", 1));
    let point = &gauge.data_points[0];
    assert_eq!(point.value, Some(Number::AsInt(7)));
    assert_eq!(
        point.attributes,
        [attribute("hardware", Attribute::BoolValue(true))]
    );
    assert_eq!(point.start_time_unix_nano, 0);
}

#[test]
fn latencies_are_exponential_histograms() {
    let (unit, metric::Data::ExponentialHistogram(histogram)) = named("netto.delay") else {
        panic!("no histogram");
    };
    let point = &histogram.data_points[0];
    assert_eq!((unit.as_str(), point.count, point.zero_count), ("s", 4, 1));
    let buckets = point.positive.as_ref().unwrap();
    assert_eq!(point.scale, 2);
    assert_eq!(buckets.bucket_counts.iter().sum::<u64>(), 3);
    // As in Prometheus' messages, each is in the last bucket that overlaps its own.
    assert_eq!(buckets.offset, -39);
    assert_eq!(buckets.bucket_counts[0], 2);
    let (last, count) = (
        buckets.bucket_counts.len() - 1,
        buckets.bucket_counts.last(),
    );
    assert_eq!((last, count), (40, Some(&1)), "{buckets:?}");
}

#[test]
fn what_is_not_measured_or_said_elsewhere_has_no_metric() {
    let found = metrics();
    assert!(
        !found
            .iter()
            .any(|metric| ["netto.nothing", "netto.other"].contains(&&*metric.name))
    );
    assert!(found.iter().any(|metric| metric.name == "netto.snapshots"));
}

#[test]
fn the_host_is_told_by_the_usual_attributes() {
    let info = info();
    let resource = resource(&info, Some("0123abcd"));
    for expected in [
        text("host.name", &info.hostname),
        text("host.id", "0123abcd"),
        text("os.version", &info.kernel),
        text("service.name", "netto"),
    ] {
        assert!(resource.attributes.contains(&expected), "{expected:?}");
    }
}

#[test]
fn attributes_have_the_names_of_the_semantic_conventions() {
    for (label, value, name) in [
        ("cpu", "3", "cpu.logical_number"),
        ("mode", "user", "cpu.mode"),
        ("interface", "eth0", "network.interface.name"),
        ("container", "0123", "container.id"),
        ("namespace", "shop", "k8s.namespace.name"),
        ("pod", "web-7d4b9c-x2x9k", "k8s.pod.name"),
        ("pod", "0f2c9c4e-1111-4222-8333-444455556666", "k8s.pod.uid"),
        ("pod", "0f2c9c4e_1111_4222_8333_444455556666", "k8s.pod.uid"),
        ("event", "rx_softirq", "event"),
    ] {
        assert_eq!(name_of(label, value), name, "{value}");
    }
}
