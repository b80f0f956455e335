//! A report as one HTML file: the dashboard, including the recording.

use anyhow::Context as _;
use jiff::tz::TimeZone;

use super::source::{Source, nothing_there};
use super::table::troubles;
use crate::standalone::Standalone;
use netto_log::read::{Findings, SeriesItem};

/// The file, and the problems of the logs.
pub(super) fn text(source: &Source<'_>, zone: &TimeZone) -> anyhow::Result<(String, Findings)> {
    let begin_unix_ns = source.files.begin_unix_ns();
    let begin_unix_ns = begin_unix_ns.max(source.span.after_unix_ns.unwrap_or(0));
    // The charts' time axis must be known before the first interval.
    let end_unix_ns = source.files.end_unix_ns().min(source.span.until_unix_ns);
    let mut report = None;
    let mut info = None;
    let findings = source.for_each(|entry| {
        match entry {
            SeriesItem::Described(described) => info = Some(described),
            SeriesItem::Interval(snapshot) => {
                let info = info.as_deref().context("a log without a description")?;
                report
                    .get_or_insert_with(|| Standalone::new(info, begin_unix_ns, end_unix_ns))
                    .add(&snapshot);
            }
            SeriesItem::Digest(_) | SeriesItem::Missing(_) | SeriesItem::Stacks(_) => {}
        }
        Ok(())
    })?;
    let mut report = report.with_context(|| nothing_there(source, zone))?;
    for trouble in troubles(&findings) {
        report.note(trouble);
    }
    Ok((report.html()?, findings))
}
