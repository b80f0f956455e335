//! Dropped packets, as a table.

use metrics_common::view::{Table, named};
use metrics_common::{DropPlace, table};

/// A row for each reason and function; both are absent for those of all further places together.
pub const TABLES: &[Table] = &[table! {
    Table name "drops" of (_, snapshot):
        for drops in snapshot.sections.drops.iter(),
        for others in [(drops.other_packets > 0).then(|| DropPlace { packets: drops.other_packets, ..DropPlace::default() })],
        for place in drops.places.iter().chain(&others) =>
    text optional "reason"   = named(&place.reason);
    text optional "function" = named(&place.function);
    count         "packets"  = place.packets;
}];
