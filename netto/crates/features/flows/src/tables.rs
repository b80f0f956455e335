//! Flows, as a table.

use metrics_common::sections::FlowEnd;
use netto_questions::table::{Cell, Column, Table};

/// A row for each conversation; addresses are absent for all further ones together.
pub const TABLES: &[Table] = &[Table {
    name: "flows",
    columns: &[
        Column::text("interface").optional(),
        Column::count("protocol").optional(),
        Column::text("address").optional(),
        Column::count("port").optional(),
        Column::text("peer_address").optional(),
        Column::count("peer_port").optional(),
        Column::count("sent_packets"),
        Column::count("sent_bytes"),
        Column::count("received_packets").optional(),
        Column::count("received_bytes").optional(),
        Column::count("cpu_ns").optional(),
    ],
    rows: |_, snapshot, rows| {
        let Some(flows) = &snapshot.sections.flows else {
            return;
        };
        let port = |end: &FlowEnd| Cell::from(end.port.map(u64::from));
        for flow in &flows.conversations {
            let [end, peer] = &flow.ends;
            let (address, peer_address) = (end.address.to_string(), peer.address.to_string());
            rows(&[
                Cell::Text(&flow.interface),
                Cell::Count(flow.protocol.into()),
                Cell::Text(&address),
                port(end),
                Cell::Text(&peer_address),
                port(peer),
                Cell::Count(flow.sent.packets),
                Cell::Count(flow.sent.bytes),
                Cell::Count(flow.received.packets),
                Cell::Count(flow.received.bytes),
                flow.cpu_ns.into(),
            ]);
        }
        if flows.other.packets > 0 {
            let mut row = [Cell::Absent; 11];
            row[6] = Cell::Count(flows.other.packets);
            row[7] = Cell::Count(flows.other.bytes);
            row[10] = flows.other_cpu_ns.into();
            rows(&row);
        }
    },
}];
