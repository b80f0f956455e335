//! The series of a report, and its host.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::tz::TimeZone;
use metrics_common::{ComponentInfo, Info};

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
        self.read(self.files.series(self.span).only(sections), each)
    }

    /// The same with intervals that may have only the CPU time of components, of the one with this
    /// slug and its parts if there is one; those of a step may come as one.
    pub(super) fn for_each_of_components(
        &self,
        sections: Vec<&'static str>,
        step_ns: u64,
        component: Option<&str>,
        each: impl FnMut(SeriesItem) -> anyhow::Result<()>,
    ) -> anyhow::Result<Findings> {
        let series = self.files.series(self.span).only(sections);
        let series = series.summed(step_ns, |components| {
            let wanted = with_parts(components, component?);
            let rows = components
                .iter()
                .map(|component| wanted.contains(&component.slug));
            Some(rows.collect())
        });
        self.read(series, each)
    }

    /// The same for sums only: uses digests that lie entirely within the selection.
    pub(super) fn for_each_or_digest(
        &self,
        each: impl FnMut(SeriesItem) -> anyhow::Result<()>,
    ) -> anyhow::Result<Findings> {
        // The course in a digest is for all CPUs together.
        if self.every_interval || self.cpus.is_some() {
            self.for_each(each)
        } else {
            self.read(self.files.series_by_digests(self.span), each)
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

/// The slugs of a component and of its parts.
pub(super) fn with_parts(components: &[ComponentInfo], component: &str) -> HashSet<String> {
    let mut wanted = HashSet::from([component.to_owned()]);
    // A part may precede its whole; each round finds those one level deeper.
    loop {
        let known = wanted.len();
        for component in components {
            let parent = component.parent.as_deref();
            if parent.is_some_and(|parent| wanted.contains(parent)) {
                wanted.insert(component.slug.clone());
            }
        }
        if wanted.len() == known {
            return wanted;
        }
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
