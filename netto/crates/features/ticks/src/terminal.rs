//! `netto ticks`: the newest intervals as text.

use std::fmt::Write as _;

use clap::{Args, FromArgMatches};
use metrics_common::Snapshot;
use metrics_common::latency::words::{bars, time};
use netto_feature::command::Command;
use netto_questions::newest::SectionView;

/// The command.
pub(crate) const COMMAND: Command = Command {
    arguments: TicksArgs::augment_args,
    ..Command::new(crate::NAME, ABOUT, |matches| {
        let has_bars = TicksArgs::from_arg_matches(matches).is_ok_and(|given| given.bars);
        Box::new(SectionView::new(crate::NAME, move |sum| {
            table(sum, has_bars)
        }))
    })
};

const ABOUT: &str = "Ticks and raised softirqs, live or once: of a daemon, a log, or this host";

/// Arguments of the command.
#[derive(Debug, Args)]
struct TicksArgs {
    /// Show the times between softirqs as bars, too
    #[arg(long)]
    bars: bool,
}

/// The sum of the newest intervals.
fn table(sum: &Snapshot, has_bars: bool) -> String {
    let ticks = sum.sections.ticks.clone().unwrap_or_default();
    let mut text = format!(
        "\n{} ticks, {} softirqs raised\n",
        ticks.count, ticks.raised
    );
    for gaps in &ticks.gaps {
        let half = gaps.histogram.percentile(0.5);
        let half = half.map_or("–".to_owned(), |half| time(half.ns));
        let bars = if has_bars {
            bars(&gaps.histogram)
        } else {
            String::new()
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:8}{half:>9}  {bars}", gaps.vector);
    }
    text
}
