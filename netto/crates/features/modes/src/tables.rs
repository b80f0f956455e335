//! The CPU time by mode, as a table.

use metrics_common::table;
use metrics_common::view::Table;

/// A row for each CPU.
pub const TABLES: &[Table] = &[table! {
    Table name "modes" of (_, snapshot):
        for modes in snapshot.sections.modes.iter(),
        for (cpu, modes) in snapshot.cpus.iter().zip(&modes.cpus) =>
    count "cpu"        = cpu;
    count "user_ns"    = modes.user_ns;
    count "nice_ns"    = modes.nice_ns;
    count "system_ns"  = modes.system_ns;
    count "idle_ns"    = modes.idle_ns;
    count "iowait_ns"  = modes.iowait_ns;
    count "irq_ns"     = modes.irq_ns;
    count "softirq_ns" = modes.softirq_ns;
    count "steal_ns"   = modes.steal_ns;
}];
