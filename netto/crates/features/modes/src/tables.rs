//! The CPU time by mode, as a table.

use netto_questions::table::{Cell, Column, Table};

/// A row for each CPU.
pub const TABLES: &[Table] = &[Table {
    name: "modes",
    columns: &[
        Column::count("cpu"),
        Column::count("user_ns"),
        Column::count("nice_ns"),
        Column::count("system_ns"),
        Column::count("idle_ns"),
        Column::count("iowait_ns"),
        Column::count("irq_ns"),
        Column::count("softirq_ns"),
        Column::count("steal_ns"),
    ],
    rows: |_, snapshot, rows| {
        let Some(modes) = &snapshot.sections.modes else {
            return;
        };
        let mut row = [Cell::Absent; 9];
        for (cpu, modes) in snapshot.cpus.iter().zip(&modes.cpus) {
            row[0] = Cell::Count((*cpu).into());
            row[1..].copy_from_slice(&modes.values().map(Cell::Count));
            rows(&row);
        }
    },
}];
