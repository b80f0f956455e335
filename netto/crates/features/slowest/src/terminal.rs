//! `netto slowest`: the newest intervals as text.

use metrics_common::sections::MOST_SLOWEST;
use netto_feature::command::Command;
use netto_questions::newest::SectionView;

use crate::report;

/// The command.
pub(crate) const COMMAND: Command = Command {
    name: crate::NAME,
    about: "The slowest softirqs, live or once: of a daemon, a log, or this host",
    arguments: |command| command,
    view: |_| {
        let view = SectionView::new(crate::NAME, |sum| {
            let slowest = sum.sections.slowest.clone().unwrap_or_default();
            report::text(&slowest, MOST_SLOWEST)
        });
        Box::new(view)
    },
    ask: |options| options,
    hosts: None,
};
