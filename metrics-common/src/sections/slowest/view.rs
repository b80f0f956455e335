//! The slowest softirqs as a table, for people and for files.

use super::Slowest;
use crate::view::{Cell, Table, View};

/// A row for each of the slowest softirqs.
pub const SLOWEST: View<Slowest> = table! {
    View of (slowest, _): for softirq in &slowest.softirqs =>
    time          "began",     "began" -20,   "Began"     = Cell::Time(softirq.began_unix_ns);
    count         "cpu",       "CPU" 4,       "CPU"       = softirq.cpu;
    text          "softirq",   "softirq" -8,  "Softirq"   = softirq.softirq;
    length        "length_ns", "took" 7,      "Took"      = softirq.length_ns;
    text optional "component"                             = softirq.part;
    text          "",          "part" -26,    "Part"      = softirq.part_label();
    text          "cause"                                 = softirq.cause.label();
    text          "payer",     "paid by" -24, "Paid by"   = softirq.payer.label();
    text          "",          "caused by" 0, "Caused by" = softirq.cause.label();
};

/// The same for files.
pub const SLOWEST_TABLES: &[Table] = &[Table {
    name: "slowest",
    columns: SLOWEST.columns,
    rows: |_, snapshot, rows| {
        if let Some(slowest) = &snapshot.sections.slowest {
            (SLOWEST.rows)(slowest, false, rows);
        }
    },
}];
