//! Latencies of packets, as tables.

use metrics_common::histogram::{Bounds, bounds};
use metrics_common::sections::GroupKind;
use metrics_common::table;
use metrics_common::view::Table;

/// A row for each bucket with packets: of each point and CPU, and of each group. The group is absent for
/// all further ones together.
pub const TABLES: &[Table] = &[
    table! {
        Table name "latency" of (_, snapshot):
            for latency in snapshot.sections.latency.iter(),
            for point in &latency.points,
            for (column, cpu) in snapshot.cpus.iter().enumerate(),
            for (bounds, packets) in with_packets(point.histogram_of(column).counts()) =>
        count "cpu"      = cpu;
        text  "point"    = point.point.slug();
        count "lower_ns" = bounds.lower_ns;
        count "upper_ns" = bounds.upper_ns;
        count "packets"  = packets;
    },
    table! {
        Table name "latency_groups" of (_, snapshot):
            for latency in snapshot.sections.latency.iter(),
            for group in &latency.groups,
            for (bounds, packets) in with_packets(group.histogram.counts()) =>
        text          "kind"     = kind(group.kind);
        text optional "group"    = group.name;
        text          "point"    = group.point.slug();
        count         "lower_ns" = bounds.lower_ns;
        count         "upper_ns" = bounds.upper_ns;
        count         "packets"  = packets;
    },
];

fn kind(kind: GroupKind) -> &'static str {
    match kind {
        GroupKind::Interface => "interface",
        GroupKind::Owner => "owner",
    }
}

/// The buckets with packets.
fn with_packets(counts: &[u64]) -> impl Iterator<Item = (Bounds, u64)> {
    let counts = counts.iter().copied().enumerate();
    let counts = counts.filter(|(_, count)| *count > 0);
    counts.map(|(bucket, count)| (bounds(bucket), count))
}
