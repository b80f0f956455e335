//! A report for programs.

use serde::Serialize;

use netto_offline::owners::OwnersSummary;
use netto_offline::series::Findings;
use netto_offline::summary::Summary;

#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    /// Whose it was; absent from a log that does not have it.
    owners: Option<&'a OwnersSummary>,
    /// What was wrong with the files.
    files: &'a Findings,
}

/// The whole report, with a line break at its end.
pub(super) fn text(
    summary: &Summary,
    files: &Findings,
    owners: Option<&OwnersSummary>,
) -> anyhow::Result<String> {
    let mut text = serde_json::to_string_pretty(&Report {
        summary,
        owners,
        files,
    })?;
    text.push('\n');
    Ok(text)
}
