//! Flows, as a table.

use metrics_common::sections::{Amount, Conversation};
use metrics_common::table;
use metrics_common::view::Table;

/// A row for each conversation; addresses are absent for all further ones together.
pub const TABLES: &[Table] = &[table! {
    Table name "flows" of (_, snapshot):
        for flows in snapshot.sections.flows.iter(),
        for others in [(flows.other.packets > 0).then_some((None, flows.other, None, flows.other_cpu_ns))],
        for (flow, sent, received, cpu_ns) in flows.conversations.iter().map(amounts).chain(others),
        for [end, peer] in [[0, 1].map(|end| flow.map(|flow| flow.ends[end]))] =>
    text optional  "interface"        = flow.map(|flow| &flow.interface);
    count optional "protocol"         = flow.map(|flow| flow.protocol);
    text optional  "address"          = end.map(|end| end.address.to_string());
    count optional "port"             = end.and_then(|end| end.port);
    text optional  "peer_address"     = peer.map(|peer| peer.address.to_string());
    count optional "peer_port"        = peer.and_then(|peer| peer.port);
    count          "sent_packets"     = sent.packets;
    count          "sent_bytes"       = sent.bytes;
    count optional "received_packets" = received.map(|received| received.packets);
    count optional "received_bytes"   = received.map(|received| received.bytes);
    count optional "cpu_ns"           = cpu_ns;
}];

/// A conversation, what it sent and received, and its CPU time.
type Amounts<'a> = (
    Option<&'a Conversation>,
    Amount,
    Option<Amount>,
    Option<u64>,
);

fn amounts(flow: &Conversation) -> Amounts<'_> {
    (Some(flow), flow.sent, Some(flow.received), flow.cpu_ns)
}
