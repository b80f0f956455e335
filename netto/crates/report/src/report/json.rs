//! A report as JSON.

use std::fmt::Write as _;

use netto_feature::summary;
use netto_log::read::Findings;
use netto_offline::summary::Summary;
use netto_questions::figures::visible_json;

use super::verdict::Answers;

/// The features' summaries of a log, by their names.
pub(super) type Parts = Vec<(&'static str, Option<summary::Summary>)>;

// All of a report but the parts of features, for the schema.
/// What a log says.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[allow(dead_code, reason = "only its fields' names and types are of use")]
pub(super) struct Report {
    #[schemars(flatten)]
    summary: Summary,
    /// Whether networking is a problem, where, and whose; null in a report of one component, or where
    /// networking was not measured.
    verdict: Option<Answers>,
    /// What was wrong with the files.
    files: Findings,
}

/// The whole report, with a newline at its end. Missing parts are `null`.
pub(super) fn text(
    summary: &Summary,
    answers: Option<&Answers>,
    files: &Findings,
    parts: &Parts,
) -> anyhow::Result<String> {
    let whole = serde_json::to_string_pretty(summary)?;
    let mut text = whole.trim_end_matches("\n}").to_owned();
    let mut add = |name: &str, json: &str| {
        // Writing to a String cannot fail. No newline occurs within a value.
        let _ = write!(text, ",\n  \"{name}\": {}", json.replace('\n', "\n  "));
    };
    add("verdict", &serde_json::to_string_pretty(&answers)?);
    for (name, part) in parts {
        add(name, part.as_ref().map_or("null", |part| &part.json));
    }
    add("files", &serde_json::to_string_pretty(files)?);
    text.push_str("\n}\n");
    Ok(String::from_utf8(visible_json(text.into_bytes()))?)
}
