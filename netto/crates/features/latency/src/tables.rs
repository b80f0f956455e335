//! Latencies of packets, as tables.

use metrics_common::histogram::bounds;
use metrics_common::sections::GroupKind;
use netto_questions::table::{Cell, Column, Rows, Table};

/// A row for each bucket with packets: of each point and CPU, and of each group.
pub const TABLES: &[Table] = &[
    Table {
        name: "latency",
        columns: &[
            Column::count("cpu"),
            Column::text("point"),
            Column::count("lower_ns"),
            Column::count("upper_ns"),
            Column::count("packets"),
        ],
        rows: |_, snapshot, rows| {
            let latency = snapshot.sections.latency.iter();
            for point in latency.flat_map(|own| &own.points) {
                for (column, cpu) in snapshot.cpus.iter().enumerate() {
                    let start = [Cell::Count((*cpu).into()), Cell::Text(point.point.slug())];
                    buckets(&start, point.histogram_of(column).counts(), rows);
                }
            }
        },
    },
    Table {
        name: "latency_groups",
        columns: &[
            Column::text("kind"),
            // Absent for all further groups together.
            Column::text("group").optional(),
            Column::text("point"),
            Column::count("lower_ns"),
            Column::count("upper_ns"),
            Column::count("packets"),
        ],
        rows: |_, snapshot, rows| {
            let latency = snapshot.sections.latency.iter();
            for group in latency.flat_map(|own| &own.groups) {
                let start = [
                    Cell::Text(match group.kind {
                        GroupKind::Interface => "interface",
                        GroupKind::Owner => "owner",
                    }),
                    group.name.as_deref().map_or(Cell::Absent, Cell::Text),
                    Cell::Text(group.point.slug()),
                ];
                buckets(&start, group.histogram.counts(), rows);
            }
        },
    },
];

/// Gives a row for each bucket with packets, which begins with these cells.
fn buckets(start: &[Cell<'_>], counts: &[u64], rows: Rows<'_>) {
    for (bucket, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let bounds = bounds(bucket);
        let end = [bounds.lower_ns, bounds.upper_ns, *count].map(Cell::Count);
        rows(&[start, &end].concat());
    }
}
