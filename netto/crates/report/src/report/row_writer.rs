//! What a file format must do to take the rows of a table.

use std::sync::Arc;

use metrics_common::Info;
use metrics_common::view::{Cell, Column, Table};

/// The columns that every table begins with: end and length of the interval.
const FIRST_COLUMNS: [Column; 2] = [Column::time("time"), Column::count("interval_ns")];

/// The columns of a table.
pub(super) fn columns(table: &Table) -> impl Iterator<Item = &'static Column> {
    FIRST_COLUMNS.iter().chain(table.in_file())
}

/// Takes the rows of one table.
pub(super) trait Writer {
    /// Writes the description of the host; called once, before the rows.
    fn describe(&mut self, info: &Arc<Info>) -> anyhow::Result<()>;

    /// Writes a row: the first columns of every table, and the table's own.
    fn row(&mut self, cells: &mut dyn Iterator<Item = &Cell<'_>>) -> anyhow::Result<()>;

    /// Completes the file.
    fn finish(self: Box<Self>) -> anyhow::Result<()>;
}
