//! The long form as comma-separated values. Lines that begin with `#` name the host and the
//! columns; DuckDB, Polars and pandas have options to skip them.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;

use super::long_form::{COLUMNS, LongForm};
use super::source::{Source, about};
use crate::output::Output;
use netto_log::read::{Findings, SeriesItem};
use netto_questions::times::Rfc3339;

/// Writes all rows of a series, as they are read.
pub(super) fn write(
    source: &Source<'_>,
    component: Option<&str>,
    path: Option<&Path>,
) -> anyhow::Result<Findings> {
    let mut output = Output::to(path)?;
    let mut form = LongForm::of(component);
    let mut has_head = false;
    let cannot = "cannot write the rows";
    let findings = source.for_each(|entry| {
        match entry {
            SeriesItem::Described(info) => {
                if !has_head {
                    for (name, value) in about(&info) {
                        let value = netto_questions::figures::plain(&value);
                        writeln!(output, "# {name}: {value}").context(cannot)?;
                    }
                    writeln!(output, "{}", COLUMNS.join(",")).context(cannot)?;
                    has_head = true;
                }
                form.describe(info);
            }
            SeriesItem::Interval(snapshot) => {
                let time = Rfc3339(snapshot.time_unix_ns).to_string();
                for row in form.rows(&snapshot) {
                    write!(
                        output,
                        "{time},{},{},{},{},{},",
                        row.interval_ns,
                        row.cpu,
                        field(row.slug),
                        field(row.parent.unwrap_or_default()),
                        row.cpu_ns
                    )
                    .context(cannot)?;
                    if let Some(samples) = row.samples {
                        write!(output, "{samples}").context(cannot)?;
                    }
                    match row.entries {
                        Some(entries) => writeln!(output, ",{entries}"),
                        None => writeln!(output, ","),
                    }
                    .context(cannot)?;
                }
            }
            SeriesItem::Digest(_) | SeriesItem::Missing(_) | SeriesItem::Stacks(_) => {}
        }
        Ok(())
    })?;
    output.finish()?;
    Ok(findings)
}

/// A slug as a field: those of netto need no quotes, those of a foreign log may.
fn field(slug: &str) -> std::borrow::Cow<'_, str> {
    match slug.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", slug.replace('"', "\"\"")).into(),
        false => slug.into(),
    }
}
