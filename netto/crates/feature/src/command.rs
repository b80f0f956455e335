//! A feature's own command, such as `netto latency`: its view of the newest intervals, or of a log,
//! on a terminal.
//!
//! What all such commands share, the binary adds: whose intervals, how long, live, once or as
//! JSON. A view knows no log: it is shown the span as one interval.

use clap::ArgMatches;
use netto_pipeline::options::FeatureOptions;
use netto_questions::api::TextView;

/// The command of a feature.
#[derive(Clone, Copy)]
pub struct Command {
    /// Its name; usually the feature's.
    pub name: &'static str,
    /// What it shows, for `netto --help`.
    pub about: &'static str,
    /// Adds arguments of its own.
    pub arguments: fn(clap::Command) -> clap::Command,
    /// The view that these arguments ask for, still empty.
    pub view: fn(&ArgMatches) -> Box<dyn TextView>,
    /// Asks the feature to measure, where the command measures by itself.
    pub ask: fn(FeatureOptions) -> FeatureOptions,
    /// Compares hosts that are named instead of logs, by their answers to the question of the command's
    /// name, as text or as JSON; `None`: it is of one host.
    pub hosts: Option<Rank>,
}

impl Command {
    /// Of one host, without arguments of its own; `view` is given those of all commands.
    pub const fn new(
        name: &'static str,
        about: &'static str,
        view: fn(&ArgMatches) -> Box<dyn TextView>,
    ) -> Command {
        Command {
            name,
            about,
            arguments: |command| command,
            view,
            ask: |options| options,
            hosts: None,
        }
    }
}

/// Compares hosts by their answers, as text or, if that is asked for, as JSON; or says why it cannot.
pub type Rank = fn(&[HostAnswer], bool) -> Result<String, String>;

/// The answer of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostAnswer {
    /// Its name as it was given.
    pub host: String,
    /// The answer, or why there is none.
    pub body: Result<Vec<u8>, String>,
}
