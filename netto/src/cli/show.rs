//! Commands of features (`netto latency`): what all of them take, and which one was given.

use std::path::PathBuf;

use clap::{ArgMatches, Args, FromArgMatches};

use super::{EXIT_CODES, MeasureArgs};
use netto_feature::command;
use netto_feature::instruments::Feature;

/// Options that every command of a feature has.
#[derive(Debug, Clone, Default, Args)]
pub struct ShowArgs {
    /// The daemon to look at, as http://user:password@host:port or unix:PATH [default:
    /// http://127.0.0.1:10880, or a measurement of its own where there is none]
    #[arg(long, value_name = "URL", env = "NETTO_CONNECT")]
    pub connect: Option<String>,
    /// Certificates (PEM) by which an https daemon may prove who it is [default: this host's]
    #[arg(long, value_name = "FILE", env = "NETTO_CA_FILE")]
    pub ca_file: Option<PathBuf>,
    /// How much time is shown, seconds, a minute at most [default: 5]
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = clap::value_parser!(u64).range(1..=60),
        env = "NETTO_SECONDS"
    )]
    pub seconds: Option<u64>,
    /// Show it once, when so much time is over, and end; so it is where nobody looks at a terminal
    #[arg(long)]
    pub once: bool,
    /// Once, as JSON like that of the same name below /api/v1
    #[arg(long)]
    pub json: bool,
    /// How this host is measured where there is no daemon.
    #[command(flatten)]
    pub measure: MeasureArgs,
}

/// The command of a feature, as it was given.
#[derive(Clone)]
pub struct Show {
    /// What all such commands take.
    pub args: ShowArgs,
    /// The command.
    pub command: command::Command,
    /// What else it was given.
    pub matches: ArgMatches,
}

impl std::fmt::Debug for Show {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Show").field(&self.matches).finish()
    }
}

impl Show {
    /// The command that was given, if it is a feature's.
    ///
    /// # Errors
    /// A value that cannot be used.
    pub fn given(features: &[Feature], matches: &ArgMatches) -> Result<Option<Show>, clap::Error> {
        let own = matches.subcommand().and_then(|(name, own)| {
            let mut commands = features.iter().filter_map(|feature| feature.command);
            Some((commands.find(|own| own.name == name)?, own))
        });
        own.map(|(command, own)| {
            Ok(Show {
                args: ShowArgs::from_arg_matches(own)?,
                command,
                matches: own.clone(),
            })
        })
        .transpose()
    }
}

/// Adds the commands of features.
pub fn with_commands(features: &[Feature], command: clap::Command) -> clap::Command {
    let own = features.iter().filter_map(|own| own.command);
    own.fold(command, |all, own| {
        let shown = (own.arguments)(ShowArgs::augment_args(clap::Command::new(own.name)));
        all.subcommand(shown.about(own.about).after_help(EXIT_CODES))
    })
}
