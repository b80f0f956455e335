//! The CPU time of BPF programs, as a table.

use netto_questions::table::{Cell, Column, Table};

/// A row for each program; id and name are absent for all further ones together.
pub const TABLES: &[Table] = &[Table {
    name: "programs",
    columns: &[
        Column::count("id").optional(),
        Column::text("program").optional(),
        Column::text("type").optional(),
        Column::text("attached").optional(),
        Column::count("cpu_ns"),
        Column::count("samples"),
        Column::count("packets").optional(),
    ],
    rows: |_, snapshot, rows| {
        let Some(programs) = &snapshot.sections.programs else {
            return;
        };
        for program in &programs.programs {
            let about = &program.about;
            rows(&[
                Cell::Count(about.id.into()),
                Cell::named(&about.name),
                Cell::Text(&about.kind),
                Cell::named(&about.places()),
                Cell::Count(program.total_ns()),
                Cell::Count(about.samples),
                about.packets.as_ref().map(|packets| packets.count).into(),
            ]);
        }
        if programs.other_samples > 0 {
            rows(&[
                Cell::Absent,
                Cell::Absent,
                Cell::Absent,
                Cell::Absent,
                Cell::Count(programs.other_cpu_ns.iter().sum()),
                Cell::Count(programs.other_samples),
                Cell::Absent,
            ]);
        }
    },
}];
