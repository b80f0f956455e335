//! Families of the section `latency`: how long packets wait inside the stack.

use metrics_common::latency::Histogram;
use metrics_common::sections::{GroupKind, PointLatency};
use prometheus::proto::MetricType;

use crate::prometheus::family::{Family, Inputs};
use crate::prometheus::text::{Text, Value};

fn points<'a>(inputs: &'a Inputs<'_>) -> &'a [PointLatency] {
    let latency = inputs.totals.sum.sections.latency.as_ref();
    latency.map_or(&[][..], |latency| &latency.points)
}

/// The families.
pub const FAMILIES: &[Family<Text>] = &[
    Family {
        name: "netto_netstack_latency_seconds",
        help: "How long after its arrival a packet was at a point of the network stack; of the \
               points driver-to-ip, qdisc, tcp-read-wait and udp-read-wait, how long it waited there.",
        metric_type: MetricType::HISTOGRAM,
        labels: &["point"],
        series: |inputs, out| {
            for own in points(inputs) {
                out.push_histogram(&[own.point.slug()], &own.histogram());
            }
        },
    },
    Family {
        name: "netto_netstack_latency_anomalies_total",
        help: "Packets that are in no bucket: by their clocks they were there before they had \
               arrived (negative), or took 17 seconds or longer (too_long).",
        metric_type: MetricType::COUNTER,
        labels: &["point", "kind"],
        series: |inputs, out| {
            for own in points(inputs) {
                let slug = own.point.slug();
                out.push(&[slug, "negative"], Value::Count(own.negative_total()));
                out.push(&[slug, "too_long"], Value::Count(own.too_long_total()));
            }
        },
    },
];

/// The same under the name and labels that netstacklat has with ebpf_exporter, where asked for.
pub const COMPAT: &[Family<Text>] = &[Family {
    name: "ebpf_exporter_netstack_latency_seconds",
    help: "How long after its arrival a packet was at a point of the network stack.",
    metric_type: MetricType::HISTOGRAM,
    labels: &["hook", "cgroup", "iface"],
    series: |inputs, out| {
        let Some(latency) = &inputs.totals.sum.sections.latency else {
            return;
        };
        // By one kind of group only: by two, each packet would be there twice.
        let kinds = [GroupKind::Interface, GroupKind::Owner];
        let has = |kind: &GroupKind| latency.groups.iter().any(|own| own.kind == *kind);
        let kind = kinds.into_iter().find(has);
        for own in &latency.points {
            let Some(hook) = own.point.netstacklat() else {
                continue;
            };
            let mut push = |name: &str, histogram: &Histogram| match kind {
                Some(GroupKind::Owner) => out.push_histogram(&[hook, name, ""], histogram),
                _ => out.push_histogram(&[hook, "", name], histogram),
            };
            let groups = latency.groups.iter();
            let groups =
                groups.filter(|group| Some(group.kind) == kind && group.point == own.point);
            match kind {
                Some(_) => groups.for_each(|group| {
                    push(group.name.as_deref().unwrap_or("other"), &group.histogram);
                }),
                None => push("", &own.histogram()),
            }
        }
    },
}];
