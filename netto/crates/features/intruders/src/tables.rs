//! Softirqs on CPUs that are meant to be quiet, as a table.

use netto_questions::table::{Cell, Column, Table};

/// A row for each quiet CPU, event, cause and victim.
pub const TABLES: &[Table] = &[Table {
    name: "intruders",
    columns: &[
        Column::count("cpu"),
        Column::text("event").optional(),
        Column::text("cause"),
        Column::text("victim"),
        Column::count("cpu_ns"),
    ],
    rows: |info, snapshot, rows| {
        let intruders = snapshot.sections.intruders.iter();
        for intrusion in intruders.flat_map(|own| &own.intrusions) {
            let event = info.components.get(intrusion.event as usize);
            rows(&[
                Cell::Count(intrusion.cpu.into()),
                event.map_or(Cell::Absent, |event| Cell::Text(&event.slug)),
                Cell::Text(&intrusion.cause.label()),
                Cell::Text(&intrusion.victim.label()),
                Cell::Count(intrusion.ns),
            ]);
        }
    },
}];
