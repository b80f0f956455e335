//! The series of a report, and its host.

use std::sync::Arc;

use jiff::tz::TimeZone;
use metrics_common::Info;

use crate::progress::Progress;
use netto_log::read::{Files, Findings, Series, SeriesItem};
use netto_questions::cpus::CpuSet;
use netto_questions::times::{self, Span};

/// A series, and the selected part of it.
pub(super) struct Source<'a> {
    pub(super) files: &'a Files,
    pub(super) span: Span,
    pub(super) cpus: Option<&'a CpuSet>,
    pub(super) every_interval: bool,
}

impl Source<'_> {
    /// Calls `each` with all selected intervals and other items, and shows the progress.
    pub(super) fn for_each(
        &self,
        each: impl FnMut(SeriesItem) -> anyhow::Result<()>,
    ) -> anyhow::Result<Findings> {
        self.read(self.files.series(self.span), each)
    }

    /// The same with intervals that may have only these sections.
    pub(super) fn for_each_with(
        &self,
        sections: Vec<&'static str>,
        each: impl FnMut(SeriesItem) -> anyhow::Result<()>,
    ) -> anyhow::Result<Findings> {
        self.read(self.files.series(self.span).only(Some(sections)), each)
    }

    /// The same for sums only: uses digests that lie entirely within the selection.
    pub(super) fn for_each_or_digest(
        &self,
        each: impl FnMut(SeriesItem) -> anyhow::Result<()>,
    ) -> anyhow::Result<Findings> {
        // The course in a digest is for all CPUs together.
        match self.every_interval || self.cpus.is_some() {
            true => self.for_each(each),
            false => self.read(self.files.series_by_digests(self.span), each),
        }
    }

    fn read(
        &self,
        series: Series,
        mut each: impl FnMut(SeriesItem) -> anyhow::Result<()>,
    ) -> anyhow::Result<Findings> {
        let mut progress = Progress::of(self.files.read_bytes(), self.files.length_bytes());
        series.for_each(|entry| {
            progress.tick();
            match (entry, self.cpus) {
                (SeriesItem::Interval(snapshot), Some(cpus)) => {
                    each(SeriesItem::Interval(Box::new(cpus.of(*snapshot))))
                }
                (entry, _) => each(entry),
            }
        })
    }
}

/// Why there is nothing to report.
pub(super) fn nothing_there(source: &Source<'_>, zone: &TimeZone) -> String {
    let begin = times::shown(source.files.begin_unix_ns(), zone);
    format!(
        "no interval of these logs is in that span, or of those CPUs: they begin at {begin} \
         (local time)"
    )
}

/// The host of a log, for the head of an exported file.
pub(super) fn about(info: &Arc<Info>) -> Vec<(&'static str, String)> {
    vec![
        ("host", info.hostname.clone()),
        ("kernel", info.kernel.clone()),
        ("netto_version", info.version.clone()),
        ("netto_boot_id", info.boot_id.clone()),
        (
            "netto_is_demonstration",
            info.is_demonstration().to_string(),
        ),
    ]
}
