//! Dropped packets, as a table.

use netto_questions::table::{Cell, Column, Table};

/// A row for each reason and function; both are absent for those of all further places together.
pub const TABLES: &[Table] = &[Table {
    name: "drops",
    columns: &[
        Column::text("reason").optional(),
        Column::text("function").optional(),
        Column::count("packets"),
    ],
    rows: |_, snapshot, rows| {
        let Some(drops) = &snapshot.sections.drops else {
            return;
        };
        for place in &drops.places {
            rows(&[
                Cell::named(&place.reason),
                Cell::named(&place.function),
                Cell::Count(place.packets),
            ]);
        }
        if drops.other_packets > 0 {
            rows(&[Cell::Absent, Cell::Absent, Cell::Count(drops.other_packets)]);
        }
    },
}];
