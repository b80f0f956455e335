//! Softirqs on CPUs that are meant to be quiet, as a table.

use metrics_common::table;
use metrics_common::view::Table;

/// A row for each quiet CPU, event, cause and victim.
pub const TABLES: &[Table] = &[table! {
    Table name "intruders" of (info, snapshot):
        for intrusion in snapshot.sections.intruders.iter().flat_map(|intruders| &intruders.intrusions) =>
    count         "cpu"    = intrusion.cpu;
    text optional "event"  = info.components.get(intrusion.event as usize).map(|event| &event.slug);
    text          "cause"  = intrusion.cause.label();
    text          "victim" = intrusion.victim.label();
    count         "cpu_ns" = intrusion.ns;
}];
