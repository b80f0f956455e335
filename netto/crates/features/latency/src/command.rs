//! `netto latency`: its own arguments, and what it asks to be measured.

use clap::{ArgMatches, Args, FromArgMatches};
use netto_feature::command::Command;

use crate::request::Request;
use crate::terminal::View;

/// The command.
pub(crate) const COMMAND: Command = Command {
    name: "latency",
    about: "How long packets wait inside the stack, live or once: of a daemon, a log, or this host",
    arguments: LatencyArgs::augment_args,
    view: |matches: &ArgMatches| {
        let given = LatencyArgs::from_arg_matches(matches).unwrap_or_default();
        Box::new(View::new(given.groups))
    },
    ask: |options| {
        let name = crate::FEATURE.name;
        let request = options.of::<Request>(name).cloned().unwrap_or_default();
        options.with(name, request)
    },
    hosts: None,
};

/// Arguments that no other command of this kind has.
#[derive(Debug, Default, Args)]
struct LatencyArgs {
    /// Show interfaces and owners too, where they are told apart
    #[arg(long)]
    groups: bool,
}
