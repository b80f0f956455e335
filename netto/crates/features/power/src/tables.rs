//! Networking's power and the energy of each zone, as tables.

use netto_questions::table::{Cell, Column, Table};

/// A row for each interval, and one for each zone.
pub const TABLES: &[Table] = &[
    Table {
        name: "power",
        columns: &[
            Column::number("host_watts"),
            Column::number("network_watts"),
            Column::number("network_capacity_watts"),
        ],
        rows: |_, snapshot, rows| {
            if let Some(power) = &snapshot.sections.power {
                rows(&[
                    Cell::Number(power.host_watts),
                    Cell::Number(power.network_watts),
                    Cell::Number(power.network_capacity_watts),
                ]);
            }
        },
    },
    Table {
        name: "power_zones",
        columns: &[Column::text("zone"), Column::number("energy_joules")],
        rows: |_, snapshot, rows| {
            let power = snapshot.sections.power.iter();
            for zone in power.flat_map(|own| &own.zones) {
                rows(&[Cell::Text(&zone.zone), Cell::Number(zone.energy_joules)]);
            }
        },
    },
];
