//! `netto slowest`: the newest intervals as text.

use metrics_common::sections::MOST_SLOWEST;
use netto_feature::command::Command;
use netto_questions::newest::SectionView;

use crate::report;

/// The command.
pub(crate) const COMMAND: Command = Command::new(crate::NAME, ABOUT, |_| {
    Box::new(SectionView::new(crate::NAME, |sum| {
        let slowest = sum.sections.slowest.clone().unwrap_or_default();
        report::text(&slowest, MOST_SLOWEST)
    }))
});

const ABOUT: &str = "The slowest softirqs, live or once: of a daemon, a log, or this host";
