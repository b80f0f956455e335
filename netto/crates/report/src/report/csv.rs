//! A table as comma-separated values. Lines that begin with `#` name the host; DuckDB, Polars and
//! pandas have options to skip them.

use std::io::Write as _;
use std::sync::Arc;

use anyhow::Context as _;
use metrics_common::Info;

use super::row_writer::{Writer, columns};
use super::source::about;
use crate::output::Output;
use netto_questions::table::{Cell, Table};
use netto_questions::times::Rfc3339;

const CANNOT: &str = "cannot write the rows";

/// The file of a table.
pub(super) struct Csv {
    output: Output,
    table: &'static Table,
}

impl Csv {
    /// Empty.
    pub(super) fn new(output: Output, table: &'static Table) -> Self {
        Csv { output, table }
    }
}

impl Writer for Csv {
    fn describe(&mut self, info: &Arc<Info>) -> anyhow::Result<()> {
        for (name, value) in about(info) {
            let value = netto_questions::figures::plain(&value);
            writeln!(self.output, "# {name}: {value}").context(CANNOT)?;
        }
        let names: Vec<&str> = columns(self.table).map(|column| column.name).collect();
        writeln!(self.output, "{}", names.join(",")).context(CANNOT)
    }

    fn row(&mut self, first: &[Cell<'_>], cells: &[Cell<'_>]) -> anyhow::Result<()> {
        for (place, cell) in first.iter().chain(cells).enumerate() {
            if place > 0 {
                self.output.write_all(b",").context(CANNOT)?;
            }
            match cell {
                Cell::Absent => Ok(()),
                Cell::Count(count) => write!(self.output, "{count}"),
                Cell::Number(number) => write!(self.output, "{number}"),
                Cell::Text(text) => self.output.write_all(field(text).as_bytes()),
                Cell::Time(ns) => write!(self.output, "{}", Rfc3339(*ns)),
            }
            .context(CANNOT)?;
        }
        self.output.write_all(b"\n").context(CANNOT)
    }

    fn finish(self: Box<Self>) -> anyhow::Result<()> {
        self.output.finish()
    }
}

/// A text as a field, with quotes if it needs them.
fn field(text: &str) -> std::borrow::Cow<'_, str> {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")).into(),
        false => text.into(),
    }
}
