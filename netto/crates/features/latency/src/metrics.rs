//! The metrics of latency.

use metrics_common::latency::Histogram;
use metrics_common::sections::{GroupKind, PointLatency};
use netto_metrics::catalogue::{Catalogue, Family, Inputs, Value};
use netto_metrics::metrics;

fn points<'a>(inputs: &'a Inputs<'_>) -> &'a [PointLatency] {
    let latency = inputs.sum().sections.latency.as_ref();
    latency.map_or(&[][..], |latency| &latency.points)
}

/// The exported metrics.
pub const METRICS: Catalogue = Catalogue {
    compat: COMPAT,
    ..Catalogue::of(FAMILIES)
};

const FAMILIES: &[Family] = metrics! {
    Histogram "netto_netstack_latency_seconds" Seconds ["point"];
        "How long after its arrival a packet was at a point of the network stack; of the \
         points driver-to-ip, qdisc, tcp-read-wait and udp-read-wait, how long it waited there; of rx-softirq-wait and \
         tx-softirq-wait, how long a softirq waited.";
        |inputs, out| for latency in points(inputs) {
            out.push_histogram(&[latency.point.slug()], &latency.histogram());
        };
    Counter "netto_netstack_latency_anomalies_total" Count("packet") ["point", "kind"];
        "Packets that are in no bucket: by their clocks they were there before they had \
         arrived (negative), or took 17 seconds or longer (too_long).";
        |inputs, out| for latency in points(inputs) {
            let slug = latency.point.slug();
            out.push(&[slug, "negative"], Value::Count(latency.negative_total()));
            out.push(&[slug, "too_long"], Value::Count(latency.too_long_total()));
        };
    Counter "netto_netstack_latency_lost_stamps_total" Count("packet") ["point"];
        "Packets at a point that are in no bucket because it was lost when they came, or, for \
         a wait, when they were enqueued.";
        |inputs, out| for latency in points(inputs) {
            out.push(&[latency.point.slug()], Value::Count(latency.lost_total()));
        };
};

/// The same under the name and labels of netstacklat with ebpf_exporter, if requested.
const COMPAT: &[Family] = metrics! {
    Histogram "ebpf_exporter_netstack_latency_seconds" Seconds ["hook", "cgroup", "iface"];
        "How long after its arrival a packet was at a point of the network stack.";
        |inputs, out| {
            let Some(latency) = &inputs.sum().sections.latency else { return };
            // By one kind of group only: with two, each packet would count twice.
            let kinds = [GroupKind::Interface, GroupKind::Owner];
            let has = |kind: &GroupKind| latency.groups.iter().any(|group| group.kind == *kind);
            let kind = kinds.into_iter().find(has);
            for point_latency in &latency.points {
                let Some(hook) = point_latency.point.netstacklat() else {
                    continue;
                };
                let mut push = |name: &str, histogram: &Histogram| match kind {
                    Some(GroupKind::Owner) => out.push_histogram(&[hook, name, ""], histogram),
                    _ => out.push_histogram(&[hook, "", name], histogram),
                };
                let groups = latency.groups.iter();
                let groups =
                    groups.filter(|group| Some(group.kind) == kind && group.point == point_latency.point);
                match kind {
                    Some(_) => groups.for_each(|group| {
                        push(group.name.as_deref().unwrap_or("other"), &group.histogram);
                    }),
                    None => push("", &point_latency.histogram()),
                }
            }
        };
};
