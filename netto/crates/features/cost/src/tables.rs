//! The CPU time of each component, as a table.

use metrics_common::table;
use metrics_common::view::Table;

/// A row for each CPU and measured component, with the stack samples on which its split rests and how
/// often it was entered, where known.
pub const TABLES: &[Table] = &[table! {
    Table name "components" of (info, snapshot):
        for cost in snapshot.sections.cost.iter(),
        for (row, component) in info.components.iter().enumerate(),
        for (samples, entries) in [(cost.samples_of(row), cost.entries_of(row))],
        for (column, (cpu, ns)) in snapshot.cpus.iter().zip(cost.cpu_ns(row).unwrap_or_default()).enumerate() =>
    count          "cpu"       = cpu;
    text           "component" = component.slug;
    text optional  "parent"    = component.parent;
    count          "cpu_ns"    = ns;
    count optional "samples"   = samples.and_then(|row| row.get(column));
    count optional "entries"   = entries.and_then(|row| row.get(column));
}];
