//! What netto itself took, as a table.

use metrics_common::sections::OwnPart;
use netto_questions::table::{Cell, Column, Table};

/// A row for each CPU and part of netto.
pub const TABLES: &[Table] = &[Table {
    name: "own",
    columns: &[
        Column::count("cpu"),
        Column::text("part"),
        Column::count("cpu_ns"),
    ],
    rows: |_, snapshot, rows| {
        let Some(own) = &snapshot.sections.own else {
            return;
        };
        for part in OwnPart::ALL {
            let times = own.part_ns(part).unwrap_or_default();
            for (cpu, ns) in snapshot.cpus.iter().zip(times) {
                rows(&[
                    Cell::Count((*cpu).into()),
                    Cell::Text(part.slug()),
                    Cell::Count(*ns),
                ]);
            }
        }
    },
}];
