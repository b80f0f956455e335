//! What netto itself took, as a table.

use metrics_common::sections::OwnPart;
use metrics_common::table;
use metrics_common::view::Table;

/// A row for each CPU and part of netto.
pub const TABLES: &[Table] = &[table! {
    Table name "own" of (_, snapshot):
        for own_cost in snapshot.sections.own.iter(),
        for part in OwnPart::ALL,
        for (cpu, ns) in snapshot.cpus.iter().zip(own_cost.part_ns(part).unwrap_or_default()) =>
    count "cpu"    = cpu;
    text  "part"   = part.slug();
    count "cpu_ns" = ns;
}];
