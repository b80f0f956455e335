//! A table as comma-separated values. Lines that begin with `#` name the host; DuckDB, Polars and
//! pandas have options to skip them.

use std::borrow::Cow;
use std::io::Write as _;
use std::sync::Arc;

use anyhow::Context as _;
use metrics_common::Info;
use metrics_common::view::{Cell, Table};

use super::row_writer::{Writer, columns};
use super::source::about;
use crate::output::Output;
use netto_questions::figures::plain;
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
            let value = plain(&value);
            writeln!(self.output, "# {name}: {value}").context(CANNOT)?;
        }
        let names: Vec<&str> = columns(self.table).map(|column| column.name).collect();
        writeln!(self.output, "{}", names.join(",")).context(CANNOT)
    }

    fn row(&mut self, cells: &mut dyn Iterator<Item = &Cell<'_>>) -> anyhow::Result<()> {
        for (place, cell) in cells.enumerate() {
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

/// A text as a field, with quotes if it needs them. Names in a foreign log may have control
/// characters, which a terminal would obey.
fn field(text: &str) -> Cow<'_, str> {
    let is_special = |letter: char| matches!(letter, ',' | '"') || letter.is_control();
    if text.contains(is_special) {
        format!("\"{}\"", plain(text).replace('"', "\"\"")).into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_quotes_where_it_needs_them_and_nothing_that_a_terminal_obeys() {
        assert_eq!(field("web"), "web");
        assert_eq!(field("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(field("\u{1b}[2J\n"), "\"\u{fffd}[2J\u{fffd}\"");
    }
}
