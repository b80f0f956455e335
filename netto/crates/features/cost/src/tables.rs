//! The CPU time of each component, as a table.

use netto_questions::table::{Cell, Column, Table};

/// A row for each CPU and measured component.
pub const TABLES: &[Table] = &[Table {
    name: "components",
    columns: &[
        Column::count("cpu"),
        Column::text("component"),
        Column::text("parent").optional(),
        Column::count("cpu_ns"),
        // Stack samples on which its split rests, and how often it was entered, where known.
        Column::count("samples").optional(),
        Column::count("entries").optional(),
    ],
    rows: |info, snapshot, rows| {
        let Some(cost) = &snapshot.sections.cost else {
            return;
        };
        for (row, component) in info.components.iter().enumerate() {
            let times = cost.cpu_ns(row).unwrap_or_default();
            let (samples, entries) = (cost.samples_of(row), cost.entries_of(row));
            for (column, (cpu, cpu_ns)) in snapshot.cpus.iter().zip(times).enumerate() {
                let samples = samples.and_then(|row| row.get(column).copied());
                let entries = entries.and_then(|row| row.get(column).copied());
                rows(&[
                    Cell::Count((*cpu).into()),
                    Cell::Text(&component.slug),
                    component.parent.as_deref().map_or(Cell::Absent, Cell::Text),
                    Cell::Count(*cpu_ns),
                    samples.map(u64::from).into(),
                    entries.into(),
                ]);
            }
        }
    },
}];
