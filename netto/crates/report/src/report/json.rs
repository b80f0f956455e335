//! A report for programs.

use std::fmt::Write as _;

use netto_feature::summary;
use netto_log::read::Findings;
use netto_offline::summary::Summary;

/// What features say of a log, by their names.
pub(super) type Parts = Vec<(&'static str, Option<summary::Summary>)>;

/// The whole report, with a line break at its end. What a log does not have is `null`.
pub(super) fn text(summary: &Summary, files: &Findings, parts: &Parts) -> anyhow::Result<String> {
    let whole = serde_json::to_string_pretty(summary)?;
    let mut text = whole.trim_end_matches("\n}").to_owned();
    let mut add = |name: &str, json: &str| {
        // Writing to a String cannot fail. No line break stands within a value.
        let _ = write!(text, ",\n  \"{name}\": {}", json.replace('\n', "\n  "));
    };
    for (name, part) in parts {
        add(name, part.as_ref().map_or("null", |part| &part.json));
    }
    add("files", &serde_json::to_string_pretty(files)?);
    text.push_str("\n}\n");
    Ok(text)
}
