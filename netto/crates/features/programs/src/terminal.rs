//! `netto programs`: the newest intervals as text.

use netto_feature::command::Command;
use netto_questions::newest::SectionView;

use crate::report;

/// The command.
pub(crate) const COMMAND: Command = Command::new(crate::NAME, ABOUT, |_| {
    Box::new(SectionView::new(crate::NAME, |sum| {
        let programs = sum.sections.programs.clone().unwrap_or_default();
        report::text(&programs, sum.interval_ns)
    }))
});

const ABOUT: &str = "CPU time of BPF programs, live or once: of a daemon, a log, or this host";
