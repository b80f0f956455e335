//! Commands of features (`netto latency`): what all of them take, and which one was given.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches};

use super::{EXIT_CODES, MeasureArgs};
use netto_feature::command::{self, Rank};
use netto_feature::instruments::Feature;
use netto_questions::values::UNIX;
use netto_report::span::{LogPart, SpanArgs};

/// Options that do not go with a log, and what each says. Of variables and the configuration file,
/// which hold for other commands, too, a log makes no use.
const NOT_OF_LOGS: [(&str, &str, &str); 8] = [
    ("connect", "--connect", "which daemon is asked"),
    ("ca_file", "--ca-file", "how a daemon proves who it is"),
    ("seconds", "--seconds", "how much is shown of what is live"),
    ("config", "--config", "how this host is measured"),
    ("proc_root", "--proc-root", "how this host is measured"),
    ("sys_root", "--sys-root", "how this host is measured"),
    ("method", "--method", "how this host is measured"),
    ("sampler", "--sampler", "how this host is measured"),
];
/// Those of them that hosts take.
const OF_HOSTS: [&str; 2] = ["ca_file", "seconds"];
/// What chooses a part of a log.
const OF_LOGS: [(&str, &str); 3] = [("from", "--from"), ("to", "--to"), ("last", "--last")];

/// Options that every command of a feature has.
#[derive(Debug, Clone, Default, Args)]
pub struct ShowArgs {
    /// Logs of one host to look at instead, in any order: the whole of them, or what --from, --to
    /// and --last or, behind a single log, @FROM..TO choose, is shown once. `netto score` takes hosts, too, which it ranks
    #[arg(value_name = "LOG", value_parser = LogPart::parser())]
    pub logs: Vec<LogPart>,
    /// Which part of the logs.
    #[command(flatten)]
    pub span: SpanArgs,
    /// The daemon to look at, as http://user:password@host:port or unix:PATH [default:
    /// http://127.0.0.1:10880, or a measurement of its own where there is none]
    #[arg(long, value_name = "URL")]
    pub connect: Option<String>,
    /// Certificates (PEM) by which an https daemon may prove who it is [default: this host's]
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// How much time is shown, seconds, a minute at most [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=60))]
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

impl Show {
    /// The hosts that are named instead of logs, if this command compares hosts: what is an address, and
    /// what is no file.
    pub fn hosts(&self) -> Option<(Vec<String>, Rank)> {
        let rank = self.command.hosts?;
        let named = self.args.logs.iter().map(|log| {
            let path = log.path();
            let name = path.to_str()?;
            (name.contains("://") || name.starts_with(UNIX) || !path.exists())
                .then(|| name.to_owned())
        });
        Some((named.collect::<Option<_>>()?, rank))
    }
}

/// The address of a host that may be given by its name alone.
pub fn url_of(host: &str) -> String {
    if host.contains("://") || host.starts_with(UNIX) {
        host.to_owned()
    } else {
        format!("http://{host}")
    }
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
        let chosen = matches.subcommand().and_then(|(name, of_command)| {
            let mut commands = features.iter().filter_map(|feature| feature.command);
            Some((commands.find(|command| command.name == name)?, of_command))
        });
        chosen
            .map(|(command, of_command)| {
                let show = Show {
                    args: ShowArgs::from_arg_matches(of_command)?,
                    command,
                    matches: of_command.clone(),
                };
                match show.hosts().filter(|(hosts, _)| !hosts.is_empty()) {
                    Some(_) => refuse_what_hosts_do_not_take(of_command)?,
                    None => refuse_what_does_not_go_together(&show.args, command.name, of_command)?,
                }
                Ok(show)
            })
            .transpose()
    }
}

/// Hosts are asked for what they say of the last seconds.
fn refuse_what_hosts_do_not_take(matches: &ArgMatches) -> Result<(), clap::Error> {
    let is_typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let of_one = NOT_OF_LOGS.iter().map(|(id, option, _)| (*id, *option));
    let mut all = of_one
        .chain(OF_LOGS)
        .filter(|(id, _)| !OF_HOSTS.contains(id));
    all.find(|(id, _)| is_typed(id)).map_or(Ok(()), |(_, option)| {
        let text = format!("{option} does not go with hosts, which are asked for their last seconds\n\ntip: leave it out; \
                 --seconds says how many");
        Err(clap::Error::raw(ErrorKind::ArgumentConflict, text))
    })
}

/// Options of logs go with logs, and those of live data without.
fn refuse_what_does_not_go_together(
    args: &ShowArgs,
    name: &str,
    matches: &ArgMatches,
) -> Result<(), clap::Error> {
    let is_typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let refusal = |text| Err(clap::Error::raw(ErrorKind::ArgumentConflict, text));
    if args.logs.is_empty() {
        let stray = OF_LOGS.iter().find(|(id, _)| is_typed(id));
        return stray.map_or(Ok(()), |(_, option)| {
            refusal(format!(
                "{option} chooses a part of a log, and no log is named\n\ntip: name one, as in \
                 `netto {name} netto.log --last 5m`; of live data, --seconds says how much"
            ))
        });
    }
    let stray = NOT_OF_LOGS.iter().find(|(id, _, _)| is_typed(id));
    stray.map_or(Ok(()), |(_, option, what)| {
        refusal(format!(
            "{option} does not go with a log: it says {what}\n\ntip: leave one of them out; of a log, \
             --from, --to and --last choose a part"
        ))
    })
}

/// Adds the commands of features.
pub fn with_commands(features: &[Feature], command: clap::Command) -> clap::Command {
    let commands = features.iter().filter_map(|feature| feature.command);
    commands.fold(command, |all, of_feature| {
        let shown =
            (of_feature.arguments)(ShowArgs::augment_args(clap::Command::new(of_feature.name)));
        all.subcommand(shown.about(of_feature.about).after_help(EXIT_CODES))
    })
}
