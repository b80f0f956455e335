//! The slowest softirqs, as a table.

use netto_questions::table::{Cell, Column, Table};

/// A row for each of the slowest softirqs.
pub const TABLES: &[Table] = &[Table {
    name: "slowest",
    columns: &[
        Column::time("began"),
        Column::count("cpu"),
        Column::text("softirq"),
        Column::count("length_ns"),
        Column::text("component").optional(),
        Column::text("cause"),
        Column::text("payer"),
    ],
    rows: |_, snapshot, rows| {
        let slowest = snapshot.sections.slowest.iter();
        for softirq in slowest.flat_map(|own| &own.softirqs) {
            rows(&[
                Cell::Time(softirq.began_unix_ns),
                Cell::Count(softirq.cpu.into()),
                Cell::Text(&softirq.softirq),
                Cell::Count(softirq.length_ns),
                softirq.part.as_deref().map_or(Cell::Absent, Cell::Text),
                Cell::Text(&softirq.cause.label()),
                Cell::Text(&softirq.payer.label()),
            ]);
        }
    },
}];
