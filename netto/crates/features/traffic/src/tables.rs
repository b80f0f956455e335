//! The work of networking, as tables.

use metrics_common::sections::{Interface, ProtocolCount, SoftnetCount};
use metrics_common::table;
use metrics_common::view::{Table, named};

/// What the kernel counts by CPU, by interface, and of protocols. The interface is absent in the row of
/// all further ones together.
pub const TABLES: &[Table] = &[
    table! {
        Table name "softnet" of (_, snapshot):
            for traffic in snapshot.sections.traffic.iter(),
            for counter in SoftnetCount::ALL,
            for (cpu, count) in snapshot.cpus.iter().zip(traffic.softnet_of(counter).unwrap_or_default()) =>
        count "cpu"     = cpu;
        text  "counter" = counter.slug();
        count "count"   = count;
    },
    table! {
        Table name "interfaces" of (_, snapshot):
            for interfaces in snapshot.sections.traffic.iter().filter_map(|traffic| traffic.interfaces.as_ref()),
            for others in [(interfaces.others > 0).then_some(Interface { counts: interfaces.other, ..Interface::default() })],
            for Interface { name, driver, counts, .. } in interfaces.named.iter().chain(&others) =>
        text optional "interface"  = named(name);
        text optional "driver"     = named(driver);
        count         "rx_packets" = counts.rx_packets;
        count         "rx_bytes"   = counts.rx_bytes;
        count         "rx_errors"  = counts.rx_errors;
        count         "rx_dropped" = counts.rx_dropped;
        count         "rx_missed"  = counts.rx_missed;
        count         "tx_packets" = counts.tx_packets;
        count         "tx_bytes"   = counts.tx_bytes;
        count         "tx_errors"  = counts.tx_errors;
        count         "tx_dropped" = counts.tx_dropped;
    },
    table! {
        Table name "protocols" of (_, snapshot):
            for traffic in snapshot.sections.traffic.iter(),
            for counter in ProtocolCount::ALL,
            for count in traffic.protocol(counter).iter() =>
        text  "counter" = counter.slug();
        count "count"   = count;
    },
];
