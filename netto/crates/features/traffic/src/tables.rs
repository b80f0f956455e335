//! The work of networking, as tables.

use metrics_common::sections::{ProtocolCount, SoftnetCount};
use netto_questions::table::{Cell, Column, Table};

/// What the kernel counts by CPU, by interface, and of protocols.
pub const TABLES: &[Table] = &[
    Table {
        name: "softnet",
        columns: &[
            Column::count("cpu"),
            Column::text("counter"),
            Column::count("count"),
        ],
        rows: |_, snapshot, rows| {
            let Some(traffic) = &snapshot.sections.traffic else {
                return;
            };
            for counter in SoftnetCount::ALL {
                let counts = traffic.softnet_of(counter).unwrap_or_default();
                for (cpu, count) in snapshot.cpus.iter().zip(counts) {
                    rows(&[
                        Cell::Count((*cpu).into()),
                        Cell::Text(counter.slug()),
                        Cell::Count(*count),
                    ]);
                }
            }
        },
    },
    Table {
        // The interface is absent in the row of all further ones together.
        name: "interfaces",
        columns: &[
            Column::text("interface").optional(),
            Column::text("driver").optional(),
            Column::count("rx_packets"),
            Column::count("rx_bytes"),
            Column::count("rx_errors"),
            Column::count("rx_dropped"),
            Column::count("rx_missed"),
            Column::count("tx_packets"),
            Column::count("tx_bytes"),
            Column::count("tx_errors"),
            Column::count("tx_dropped"),
        ],
        rows: |_, snapshot, rows| {
            let traffic = snapshot.sections.traffic.as_ref();
            let Some(interfaces) = traffic.and_then(|own| own.interfaces.as_ref()) else {
                return;
            };
            let mut row = [Cell::Absent; 11];
            for interface in &interfaces.named {
                row[0] = Cell::Text(&interface.name);
                row[1] = Cell::named(&interface.driver);
                row[2..].copy_from_slice(&interface.counts.values().map(Cell::Count));
                rows(&row);
            }
            if interfaces.others > 0 {
                row[..2].fill(Cell::Absent);
                row[2..].copy_from_slice(&interfaces.other.values().map(Cell::Count));
                rows(&row);
            }
        },
    },
    Table {
        name: "protocols",
        columns: &[Column::text("counter"), Column::count("count")],
        rows: |_, snapshot, rows| {
            let Some(traffic) = &snapshot.sections.traffic else {
                return;
            };
            for counter in ProtocolCount::ALL {
                if let Some(count) = traffic.protocol(counter) {
                    rows(&[Cell::Text(counter.slug()), Cell::Count(count)]);
                }
            }
        },
    },
];
