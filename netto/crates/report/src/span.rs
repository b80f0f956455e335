//! The options that choose a part of a log.

use clap::Args;
use netto_questions::times::{self, Moment, Wanted};

/// Which part of a log; all of it if nothing is said.
#[derive(Debug, Clone, Default, Args)]
pub struct SpanArgs {
    /// Start at this time of a log: 2026-05-01T14:30:00Z, 2026-05-01T14:30 or 14:30 (local time;
    /// its first occurrence in the log)
    #[arg(long, value_name = "MOMENT")]
    pub from: Option<Moment>,
    /// End at this time
    #[arg(long, value_name = "MOMENT")]
    pub to: Option<Moment>,
    /// Only the end of the log: 90s, 15m, 2h
    #[arg(
        long,
        value_name = "LENGTH",
        value_parser = times::duration_ns,
        conflicts_with_all = ["from", "to"]
    )]
    pub last: Option<u64>,
}

impl SpanArgs {
    /// The same, to be found in a log.
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted {
            from: self.from,
            to: self.to,
            last_ns: self.last,
        }
    }
}
