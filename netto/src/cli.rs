//! What the user asks for: by flags, environment variables and the configuration file, in the
//! units that are typed, checked as they are read. `config` puts it into the units of the code.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use self::layers::FileFlags;
use self::log::{LogArgs, LogCommand};
use crate::environment;
use netto_feature::instruments::Feature;
use netto_feature::values::{ListenAddress, host_name, in_range, listen_address};
use netto_flows::FlowsArgs;
use netto_pipeline::options::FeatureOptions;
use netto_report::diff::{self, DiffArgs};
use netto_report::report::{self, ReportArgs};
use netto_synth::args::{self as synth, SynthArgs};

mod demo;
mod effective;
mod layers;
mod list;
pub mod log;
mod log_level;
mod otlp;
mod prometheus;
mod recordings;
mod show;
pub use demo::DemoArgs;
pub use effective::{ConfigArgs, Setting, changed, print as print_settings};
pub use layers::keys;
pub use list::{ListArgs, Listed};
pub use log_level::LogLevel;
pub use otlp::OtlpArgs;
pub use prometheus::PrometheusArgs;
pub use recordings::{DumpArgs, ReplayArgs, TopArgs};
pub use show::{Show, url_of};

const EXIT_CODES: &str = "\
Every option can also be given as an environment variable (--user-period as
NETTO_USER_PERIOD) and as a key of the configuration file (user-period = 500;
--web.config.file as web-config-file). A flag goes before the environment, the
environment before the file, the file before the default.

Exit codes:
  0  all went well; the reader of the output has gone; a signal has ended a daemon, replay or flows
  1  something failed, or the daemon has gone; `netto check`: nothing can be measured here
  2  wrong usage: an unknown option or an impossible value
  128 and the number of the signal that has ended another command: 129, if its terminal has gone";

/// The group of options that say how much is measured, and what that may cost.
const COST: &str = "How much is measured";

/// How much CPU networking costs this host, on which CPU, in which part of the network stack.
#[derive(Debug, Parser)]
#[command(
    name = "netto",
    version,
    after_help = EXIT_CODES,
    args_conflicts_with_subcommands = true
)]
pub struct Cli {
    /// Options of `netto run`, which is what `netto` alone means.
    #[command(flatten)]
    pub run: RunArgs,
    /// What to do; `run` if nothing is said.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// What the options of measuring and serving come to, if the command has them.
    #[arg(skip)]
    pub settings: Vec<Setting>,
}

/// What netto can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure, and serve dashboard, JSON and Prometheus metrics (the default)
    #[command(after_help = EXIT_CODES)]
    Run(RunArgs),
    /// Serve a made-up host, to see the dashboard without root: nothing is measured
    #[command(after_help = EXIT_CODES)]
    Demo(DemoArgs),
    /// Play a log in the dashboard: pause, speed, any place of it
    #[command(after_help = EXIT_CODES)]
    Replay(ReplayArgs),
    /// The dashboard's essentials on a terminal: of a daemon, a log, or this host
    #[command(after_help = EXIT_CODES)]
    Top(TopArgs),
    /// Write the last minutes of a running daemon as a log: what happened just before
    #[command(after_help = EXIT_CODES)]
    Dump(DumpArgs),
    /// Say what this host supports, what netto will measure and how, and what not and why
    #[command(after_help = EXIT_CODES)]
    Check(RunArgs),
    /// Check arguments, environment and configuration file; say what each setting is and why
    #[command(after_help = EXIT_CODES)]
    Config(ConfigArgs),
    /// List the components with the kernel functions found for them here, or the points of latency
    #[command(after_help = EXIT_CODES)]
    List(ListArgs),
    /// Say what a log holds: how much of the host networking was, when, where and in which part
    #[command(after_help = report::EXIT_CODES)]
    Report(ReportArgs),
    /// Compare two logs, or two spans of one: what has changed, and whether that is real
    #[command(after_help = diff::EXIT_CODES)]
    Diff(DiffArgs),
    /// Make packets from records of flows: send them to an interface, or write them to a file
    #[command(after_help = synth::EXIT_CODES)]
    Synth(SynthArgs),
    /// Who talks to whom at interfaces or in a pcap file, as a table or JSON
    Flows(FlowsArgs),
    /// Look at log files
    #[command(subcommand)]
    Log(LogCommand),
    /// What a feature shows on a terminal; each command of a feature is this one.
    #[command(skip)]
    Show(Show),
}

/// Which configuration file holds, and what it says.
#[derive(Debug, Clone, Default, Args)]
pub struct FileArgs {
    /// Configuration file in TOML [default: /etc/netto.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What the file says.
    #[arg(skip)]
    pub flags: FileFlags,
}

/// Options of every command that looks at this host.
#[derive(Debug, Clone, Default, Args)]
pub struct HostArgs {
    /// The configuration file.
    #[command(flatten)]
    pub file: FileArgs,
    /// Where the kernel's proc file system is [default: /proc]
    #[arg(long, value_name = "DIR")]
    pub proc_root: Option<PathBuf>,
    /// Where the kernel's sysfs is [default: /sys]
    #[arg(long, value_name = "DIR")]
    pub sys_root: Option<PathBuf>,
}

/// Options of every command that measures this host.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Measuring this host")]
pub struct MeasureArgs {
    /// Where it is described.
    #[command(flatten)]
    pub host: HostArgs,
    /// By which means to measure: auto (the best that this host allows), fentry
    /// or kprobe (an error where refused), or sampling (no probe but the stack sampler, so
    /// that the cost follows the frequency and never the traffic) [default: auto]
    #[arg(long, value_name = "METHOD", hide_possible_values = true)]
    pub method: Option<MethodName>,
    /// What takes stack samples: perf (a timer of its own), tick (the scheduler's, HZ times a
    /// second, and that timer seldom), or auto (perf, but tick where --max-overhead has room for
    /// fewer than 100 of perf's interrupts a second on a busy CPU) [default: auto]
    #[arg(long, value_name = "SAMPLER", hide_possible_values = true)]
    pub sampler: Option<SamplerName>,
}

/// Options of every command whose log lines a user can see.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "What netto says")]
pub struct LevelArgs {
    /// How much to log: error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL", hide_possible_values = true)]
    pub log_level: Option<LogLevel>,
}

/// Options of every command that serves the dashboard.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Serving")]
pub struct ServeArgs {
    /// Address to listen on; anybody who reaches it can read it. Or a UNIX socket, for those whom its
    /// mode and group let in: unix:/run/netto.sock?mode=660&group=adm [default: 127.0.0.1]
    #[arg(short, long, value_parser = listen_address, value_name = "IP|unix:PATH")]
    pub address: Option<ListenAddress>,
    /// Port to listen on; 0 lets the system choose [default: 10880]
    #[arg(short, long, value_name = "PORT")]
    pub port: Option<u16>,
    /// TLS and passwords, in the format of Prometheus' exporter-toolkit
    #[arg(long = "web.config.file", value_name = "FILE")]
    pub web_config_file: Option<PathBuf>,
    /// Another name under which this host may be addressed by browsers and scrapers
    #[arg(long, value_parser = host_name, value_name = "NAME", value_delimiter = ',')]
    pub allowed_host: Vec<String>,
    /// How many dashboards may be open at once [default: 64]
    #[arg(value_parser = in_range(1..=10_000_usize, ""), long, value_name = "COUNT")]
    pub max_clients: Option<usize>,
}

/// Options of `netto run`.
#[derive(Debug, Clone, Default, Args)]
pub struct RunArgs {
    /// Stack samples per second and CPU [default: 1000]
    #[arg(
        short,
        long,
        value_parser = in_range(1..=100_000_u64, "Hz"),
        value_name = "HZ",
        help_heading = COST
    )]
    pub frequency: Option<u64>,
    /// What netto may cost, in per cent of each CPU's time, averaged over ten seconds: what is too
    /// frequent to be timed within it is sampled, and stacks are sampled less often [default: 1]
    #[arg(
        long,
        value_parser = in_range(0.1..=100.0_f64, "per cent"),
        value_name = "PERCENT",
        help_heading = COST
    )]
    pub max_overhead: Option<f64>,
    /// How well the parts of an event are to be known: half of the interval of a part's share after 20 seconds,
    /// percentage points. Samples for it come before all other parts of --max-overhead [default: 5]
    #[arg(
        long,
        value_parser = in_range(0.5..=50.0_f64, "points"),
        value_name = "POINTS",
        help_heading = COST
    )]
    pub precision: Option<f64>,
    /// Length of a measured interval, milliseconds [default: 500]
    #[arg(
        value_parser = in_range(50..=60_000_u64, "ms"),
        long,
        value_name = "MS",
        help_heading = COST
    )]
    pub user_period: Option<u64>,
    /// Whom to serve and how.
    #[command(flatten)]
    pub serve: ServeArgs,
    /// Write every snapshot to this file; an existing netto log is continued
    #[arg(short, long, value_name = "PATH", help_heading = log::GROUP)]
    pub log_file: Option<PathBuf>,
    /// Which metrics Prometheus gets.
    #[command(flatten)]
    pub prometheus_metrics: PrometheusArgs,
    /// Where metrics are pushed.
    #[command(flatten)]
    pub otlp: OtlpArgs,
    /// How the log file is written.
    #[command(flatten)]
    pub log: LogArgs,
    /// Accepted for the sake of old command lines: metrics are always at /metrics
    #[arg(short = 'P', long, hide = true)]
    pub prometheus: bool,
    /// By which means this host is measured.
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// How much is logged.
    #[command(flatten)]
    pub level: LevelArgs,
    /// What features are asked to do.
    #[arg(skip)]
    pub features: FeatureOptions,
}

/// Means of measuring, as the user writes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodName {
    /// The best that this host allows
    Auto,
    /// Probes, socket calls by fentry and fexit; an error where they are refused
    Fentry,
    /// Probes, socket calls by kprobes and kretprobes; an error where there are none
    Kprobe,
    /// No probe but the stack sampler: its cost follows the frequency, not the traffic
    Sampling,
}

/// What takes stack samples, as the user writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SamplerName {
    /// Whichever is better here
    Auto,
    /// A timer of its own: as often as asked for, in step with nothing
    Perf,
    /// The scheduler's tick, and perf's clock seldom; an error where that is not possible
    Tick,
}

/// What came of the arguments, if not a command to carry out.
#[derive(Debug)]
pub enum Refusal {
    /// The user asked for help or the version: text for standard output.
    Answer(String),
    /// The arguments are wrong: what to say, without the leading `error:`.
    Usage(String),
}

/// Understands the arguments, the program's name first, the environment and the configuration file.
///
/// # Errors
/// Help and version count as refusals too, because there is nothing to carry out.
pub fn parse(features: &'static [Feature], arguments: &[OsString]) -> Result<Cli, Refusal> {
    let command = command(features);
    let (matches, file) = layers::parse(&command, arguments)?;
    let usage = |error: clap::Error| Refusal::Usage(shorten(&error.to_string()));
    let mut cli = match Show::given(features, &matches).map_err(usage)? {
        Some(show) => Cli {
            run: RunArgs::default(),
            command: Some(Command::Show(show)),
            settings: Vec::new(),
        },
        None => Cli::from_arg_matches(&matches).map_err(usage)?,
    };
    if let Some(run) = cli.run_mut() {
        let of_command = matches
            .subcommand()
            .map_or(&matches, |(_, of_command)| of_command);
        run.features = of_features(features, of_command).map_err(Refusal::Usage)?;
        let options = command.find_subcommand("run").unwrap_or(&command);
        cli.settings = effective::settings(options, of_command, &file);
    }
    if let Some(args) = cli.file_mut() {
        args.flags = file;
    }
    let names = std::env::vars_os().map(|(name, _)| name);
    match environment::unknown(&command, names) {
        Some(text) => Err(Refusal::Usage(text)),
        None => Ok(cli),
    }
}

/// The whole command line: features add their commands, and their options to the commands that
/// measure.
pub fn command(features: &'static [Feature]) -> clap::Command {
    let with_options = |command| with_options(features, command);
    let command = show::with_commands(features, with_options(Cli::command()));
    let command = command.mut_subcommand("list", |list| list::with_features(features, list));
    let command = command.mut_subcommand("run", with_options);
    let command = command.mut_subcommand("check", with_options);
    let command = command.mut_subcommand("config", with_options);
    let command = command.mut_subcommand("demo", with_options);
    let run = with_options(RunArgs::augment_args(clap::Command::new("run")));
    as_usual(command, &run)
}

/// Options with an environment variable besides the keys of `netto run`: which configuration file holds, and
/// what is made up, played and asked.
const MORE_VARIABLES: [&str; 10] = [
    "config", "cpus", "seed", "hosts", "speed", "paused", "connect", "ca-file", "replay", "seconds",
];
/// Commands whose further options have none: no daemon, player or made-up host is behind them.
const OF_FILES: [&str; 5] = ["report", "diff", "synth", "log", "flows"];

/// What holds for all options: docs/OPTIONS.md and not the help has their environment variables,
/// and a BOOL need not be said, as in `--latency`.
fn as_usual(command: clap::Command, run: &clap::Command) -> clap::Command {
    let is_bool = |option: &clap::Arg| {
        let mut names = option.get_value_names().into_iter().flatten();
        names.any(|name| name.as_str() == "BOOL")
    };
    let has_more = !OF_FILES.contains(&command.get_name());
    let has_variable = |name: &str| {
        let is_of_run = keys(run).any(|(_, option)| option.get_long() == Some(name));
        is_of_run || has_more && MORE_VARIABLES.contains(&name)
    };
    let command = command.mut_args(|option| {
        let name = option.get_long().filter(|name| has_variable(name));
        let option = match name.map(environment::name_of) {
            Some(variable) => option.env(variable).hide_env(true),
            None => option,
        };
        if !is_bool(&option) {
            return option;
        }
        let option = option.num_args(0..=1).require_equals(true);
        option
            .default_missing_value("true")
            .hide_possible_values(true)
    });
    command.mut_subcommands(|command| as_usual(command, run))
}

fn with_options(features: &[Feature], command: clap::Command) -> clap::Command {
    // The options would bring their own text, instead of the command's.
    let about = command.get_about().cloned().unwrap_or_default();
    let with_options = features
        .iter()
        .filter_map(|feature| Some((feature.name, feature.options?)));
    let command = with_options.fold(command, |command, (name, options)| {
        (options.arguments)(command.next_help_heading(format!("The feature {name}")))
    });
    command.next_help_heading(None::<&str>).about(about)
}

/// What features are asked to do.
fn of_features(features: &[Feature], matches: &clap::ArgMatches) -> Result<FeatureOptions, String> {
    let options = features.iter().filter_map(|feature| feature.options);
    let none = FeatureOptions::default();
    options
        .into_iter()
        .try_fold(none, |all, of_feature| (of_feature.read)(matches, all))
}

impl MeasureArgs {
    /// The options of a measurement on this host: those of the file, besides its own.
    ///
    /// # Errors
    /// A value that cannot be used.
    pub fn for_run(&self, features: &[Feature]) -> Result<RunArgs, String> {
        let command = RunArgs::augment_args(clap::Command::new("run"));
        let command = environment::without(with_options(features, command)).no_binary_name(true);
        let wrong = |error: clap::Error| first_paragraph(&error.to_string());
        let matches = command
            .try_get_matches_from(self.host.file.flags.all())
            .map_err(wrong)?;
        Ok(RunArgs {
            measure: self.clone(),
            features: of_features(features, &matches)?,
            ..RunArgs::from_arg_matches(&matches).map_err(wrong)?
        })
    }
}

impl Cli {
    /// The options of measuring and serving; those of no command where it has none.
    pub fn run_args(&self) -> &RunArgs {
        match &self.command {
            Some(Command::Run(args)) => args,
            Some(Command::Demo(args)) => &args.run,
            Some(Command::Config(args)) => &args.run,
            _ => &self.run,
        }
    }

    /// Where the options of measuring are; only these commands have those of features.
    fn run_mut(&mut self) -> Option<&mut RunArgs> {
        match &mut self.command {
            None => Some(&mut self.run),
            Some(Command::Run(args) | Command::Check(args)) => Some(args),
            Some(Command::Demo(args)) => Some(&mut args.run),
            Some(Command::Config(args)) => Some(&mut args.run),
            Some(_) => None,
        }
    }

    /// Where the configuration file is named; commands about logs have none.
    fn file_mut(&mut self) -> Option<&mut FileArgs> {
        let host = match &mut self.command {
            None => &mut self.run.measure.host,
            Some(Command::Run(args) | Command::Check(args)) => &mut args.measure.host,
            Some(Command::Demo(args)) => &mut args.run.measure.host,
            Some(Command::Config(args)) => &mut args.run.measure.host,
            Some(Command::Replay(args)) => return Some(&mut args.file),
            Some(Command::Top(args)) => &mut args.measure.host,
            Some(Command::Show(show)) => &mut show.args.measure.host,
            Some(Command::List(args)) => &mut args.host,
            Some(
                Command::Dump(_)
                | Command::Flows(_)
                | Command::Report(_)
                | Command::Diff(_)
                | Command::Synth(_)
                | Command::Log(_),
            ) => return None,
        };
        Some(&mut host.file)
    }
}

/// What is wrong, of the parser's full page.
fn first_paragraph(page: &str) -> String {
    let lines = page.lines().map(str::trim);
    let paragraph: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ");
    paragraph
        .strip_prefix("error: ")
        .unwrap_or(&paragraph)
        .to_owned()
}

/// What is wrong and what to do, in two lines.
fn shorten(page: &str) -> String {
    let wrong = first_paragraph(page);
    match page
        .lines()
        .find_map(|line| line.trim().strip_prefix("tip: "))
    {
        Some(tip) => format!("{wrong}\n  {tip}; see netto --help"),
        None => format!("{wrong}\n  see netto --help"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::FEATURES;

    fn parsed(line: &str) -> Result<Cli, Refusal> {
        let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        parse(FEATURES, &arguments)
    }

    fn usage(line: &str) -> String {
        match parsed(line) {
            Err(Refusal::Usage(text)) => text,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_parser_agrees_with_itself() {
        let command = command(FEATURES);
        for (name, begin) in [
            ("run", "Measure, and serve"),
            ("latency", "How long packets"),
        ] {
            let about = command
                .find_subcommand(name)
                .and_then(|subcommand| subcommand.get_about());
            assert!(about.unwrap().to_string().starts_with(begin), "{about:?}");
        }
        command.debug_assert();
    }

    #[test]
    fn run_is_the_default_command() {
        let bare = parsed("netto -f 99 -p 1").unwrap();
        assert_eq!(
            (bare.run.frequency, bare.run.serve.port),
            (Some(99), Some(1))
        );
        assert!(bare.command.is_none());
        let Some(Command::Run(run)) = parsed("netto run -f 99").unwrap().command else {
            panic!("not run");
        };
        assert_eq!(run.frequency, Some(99));
    }

    #[test]
    fn the_flags_of_the_predecessor_still_work() {
        let cli = parsed("netto -f 1000 -a 0.0.0.0 -p 8080 --user-period 500 -l x.log -P").unwrap();
        assert!(cli.run.prometheus);
        assert_eq!(cli.run.log_file, Some(PathBuf::from("x.log")));
    }

    #[test]
    fn wrong_usage_is_told_in_two_lines() {
        for (line, expected) in [
            ("netto --frequenzy 1", "--frequenzy"),
            ("netto -f many", "many"),
            ("netto -p 70000", "70000"),
            ("netto prune", "prune"),
            ("netto flows", "INTERFACE"),
            ("netto flows lan --read x", "--read"),
            ("netto check --cpus 1", "--cpus"),
            ("netto replay x --method auto", "--method"),
            ("netto list --sampler perf", "--sampler"),
            ("netto top --log-level info", "--log-level"),
            ("netto -f", "--frequency"),
            ("netto advise --last 5m", "no log is named"),
            (
                "netto advise x.log --connect http://h",
                "--connect does not",
            ),
            ("netto latency x.log --seconds 9", "shown of what is live"),
            (
                "netto slowest x.log --method auto",
                "how this host is measured",
            ),
            ("netto programs x.log --last 5m --to 14:30", "--last"),
            (
                "netto score db-1 --last 5m",
                "--last does not go with hosts",
            ),
            ("netto --log-level loud", "loud"),
        ] {
            let text = usage(line);
            assert!(text.contains(expected), "{line}: {text}");
            assert_eq!(text.lines().count(), 2, "{line}: {text}");
        }
    }

    #[test]
    fn help_of_run_has_its_options_in_groups() {
        for line in ["netto --help", "netto run --help"] {
            let Err(Refusal::Answer(help)) = parsed(line) else {
                panic!("no help");
            };
            let (before, _) = help.split_once("--frequency").unwrap();
            assert!(
                before.ends_with("How much is measured:\n  -f, "),
                "{before}"
            );
            for (heading, option) in [
                ("Measuring this host:", "--method"),
                ("Serving:", "--max-clients"),
                ("The log file:", "--log-file"),
                ("The log file:", "--log-max-size"),
                ("Metrics for Prometheus:", "--prometheus-per-cpu"),
                ("The feature flows:", "--flows-max"),
                ("What netto says:", "--log-level"),
            ] {
                let (_, behind) = help.split_once(&format!("\n{heading}\n")).expect(heading);
                let group = behind.split("\n\n").next().unwrap_or_default();
                assert!(group.contains(option), "{heading} {group}");
            }
        }
    }

    #[test]
    fn help_documents_exit_codes() {
        let Err(Refusal::Answer(help)) = parsed("netto --help") else {
            panic!("no help");
        };
        assert!(help.to_string().contains("Exit codes"));
    }
}
