//! Encodes an answer about the history as JSON, or as CSV with a column for each series. Pure.

use std::fmt::Write as _;

use super::table::Table;
use crate::api::{Refusal, json};
use crate::selection::Form;

/// Encodes an answer.
///
/// # Errors
/// If it cannot be encoded.
pub(super) fn text(table: &Table, form: Form) -> Result<Vec<u8>, Refusal> {
    match form {
        Form::Json => json(table),
        Form::Csv => Ok(csv(table).into_bytes()),
    }
}

/// A line for each row; a value that was not measured is an empty field, and an unavailable series
/// has no column.
fn csv(table: &Table) -> String {
    let mut text = "begin_unix_seconds,end_unix_seconds,measured_seconds".to_owned();
    for series in &table.series {
        // Apart from the slash, netto's names have only letters, digits and underscores.
        let name = series.name.replace('/', "_");
        let cpu = series
            .cpu
            .map(|cpu| format!("_cpu{cpu}"))
            .unwrap_or_default();
        let _ = write!(text, ",{name}{cpu}_{}", series.values.0);
    }
    text.push('\n');
    let times = &table.times;
    for (row, begin) in times.begin_unix_seconds.iter().enumerate() {
        let (end, measured) = (times.end_unix_seconds[row], times.measured_seconds[row]);
        let _ = write!(text, "{begin},{end},{measured}");
        for series in &table.series {
            text.push(',');
            if let Some(Some(value)) = series.values.1.get(row) {
                let _ = write!(text, "{value}");
            }
        }
        text.push('\n');
    }
    text
}
