//! Carries out a command of the user, and is where the measurement is plugged in.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use crate::cli::log::LogCommand;
use crate::cli::{
    self, Cli, Command, ConfigArgs, DemoArgs, Listed, LogLevel, MeasureArgs, Refusal, Setting, Show,
};
use crate::commands::{dump, log, replay};
use crate::config::Config;
use crate::daemon;
use crate::inspect;
use crate::telemetry;
use netto_client::Daemon;
use netto_demo::{self, Demo, Fleet};
use netto_feature::command::{HostAnswer, Rank};
use netto_feature::instruments::Feature;
use netto_feature::measurement::{self, Measurement};
use netto_http::http;
use netto_http::web_config::WebConfig;
use netto_platform::Settings;
use netto_questions::figures::plain_lines;
use netto_questions::terminal::{columns, wrapped};
use netto_report::output::is_closed_pipe;
use netto_report::{diff, report};
use netto_sys::ending::{self, Manner};
use netto_sys::room::{self, Purpose};
use netto_sys::session::quieten_libbpf;
use netto_sys::{descriptors, memory, preflight, privileges};
use netto_tui::feed::{Begun, Feed};
use netto_tui::top;
use netto_tui::watch::{self, Form};

pub use crate::daemon::{Prepared, bind};
pub use netto_report::outcome::Outcome;

/// What the command of a feature shows unless something else is asked for, seconds.
const SHOWN_SECONDS: u64 = 5;
/// The longest answer of a host that is compared with others.
const MOST_ANSWER_BYTES: u64 = 1 << 20;

/// Carries out what the user asks of a netto with these features.
pub fn command(features: &'static [Feature], arguments: &[OsString]) -> Outcome {
    match cli::parse(features, arguments) {
        Ok(cli) => carry_out(features, arguments, &cli),
        Err(Refusal::Answer(answer)) => {
            // A closed pipe behind `netto --help | head` is not worth a word.
            print(&answer);
            Outcome::Done
        }
        Err(Refusal::Usage(text)) => Outcome::Usage(text),
    }
}

fn carry_out(features: &'static [Feature], arguments: &[OsString], cli: &Cli) -> Outcome {
    if let Err(error) = await_end(cli) {
        return Outcome::Failed(error);
    }
    let run = |config: &Config| run(features, arguments, config, &cli.settings);
    type Action<'a> = Box<dyn Fn(&Config) -> anyhow::Result<()> + 'a>;
    let (config, action): (_, Action) = match &cli.command {
        None => (Config::for_run(&cli.run), Box::new(run)),
        Some(Command::Run(args)) => (Config::for_run(args), Box::new(run)),
        Some(Command::Demo(args)) => (
            Config::for_run(&args.run),
            Box::new(|config| demonstrate(features, config, args)),
        ),
        Some(Command::Replay(args)) => (
            Config::for_replay(args),
            Box::new(|config| {
                room::ensure(&[serving()])?;
                replay::run(
                    bind(features, config)?,
                    &args.log,
                    args.paused,
                    args.speed.unwrap_or(1.0),
                )
            }),
        ),
        Some(Command::Top(args)) => (
            Config::for_host(features, &args.measure),
            Box::new(|config| {
                let breakdowns = features.iter().filter_map(|feature| feature.api.breakdown);
                top::run(breakdowns.collect(), ending::asked(), || {
                    match &args.replay {
                        Some(log) => Feed::replay(log, args.speed.unwrap_or(1.0)),
                        None => {
                            let at = (args.connect.as_deref(), args.ca_file.as_deref());
                            live(features, config, at, false)
                        }
                    }
                })
            }),
        ),
        Some(Command::Show(given)) if !given.args.logs.is_empty() => {
            return match given.hosts() {
                Some((hosts, rank)) => of_hosts(given, &hosts, rank),
                None => of_logs(given),
            };
        }
        Some(Command::Show(given)) => (
            Config::for_host(features, &given.args.measure),
            Box::new(|config| show(features, config, given)),
        ),
        Some(Command::Check(args)) => (
            Config::for_run(args),
            Box::new(|config| check(features, config)),
        ),
        Some(Command::Config(args)) => (
            Config::for_run(&args.run),
            Box::new(|config| check_settings(config, args, &cli.settings)),
        ),
        Some(Command::List(args)) => (
            Config::for_host(
                features,
                &MeasureArgs {
                    host: args.host.clone(),
                    ..MeasureArgs::default()
                },
            ),
            Box::new(|config| list(config, &args.what)),
        ),
        // These are about files, on whichever host: no configuration holds for them.
        Some(Command::Dump(args)) => {
            return dump::run(args);
        }
        Some(Command::Flows(args)) => {
            return match netto_flows::run(args) {
                Ok(()) => Outcome::Done,
                Err(error) => Outcome::Failed(error),
            };
        }
        Some(Command::Report(args)) => return report::run(args, features),
        Some(Command::Diff(args)) => return diff::run(args),
        Some(Command::Synth(args)) => {
            return match netto_synth::run(args) {
                Ok(()) => Outcome::Done,
                Err(error) => Outcome::Failed(error),
            };
        }
        Some(Command::Log(LogCommand::Verify(args))) => {
            return match log::verify(args, print) {
                Ok(()) => Outcome::Done,
                Err(error) => Outcome::Failed(error),
            };
        }
    };
    // Commands from here on may run for months, so they give memory back to the kernel. Those about
    // files do not, because they would wait for pages again and again.
    memory::keep_little();
    let config = match config {
        Ok(config) => config,
        Err(error) => return Outcome::Usage(error),
    };
    telemetry::init(match &cli.command {
        // Log lines would appear in the middle of the terminal view.
        Some(Command::Top(_) | Command::Show(_)) => LogLevel::Error,
        _ => config.log_level,
    });
    // Probes and sampling take descriptors before anybody is served.
    descriptors::raise_limit();
    if cli.run_args().prometheus {
        tracing::info!("--prometheus is no longer needed: metrics are always served at /metrics");
    }
    match action(&config) {
        Ok(()) => Outcome::Done,
        Err(error) => Outcome::Failed(error),
    }
}

/// Has the command end when it is asked to, or when nobody is left for whom it goes on.
fn await_end(cli: &Cli) -> anyhow::Result<()> {
    match &cli.command {
        // A daemon goes on without a terminal, and has its own end.
        None | Some(Command::Run(_) | Command::Demo(_)) => Ok(()),
        Some(Command::Replay(_)) => ending::watch(Manner::Orderly, true),
        Some(Command::Top(_)) => ending::watch(Manner::Restoring, false),
        Some(Command::Show(_)) => ending::watch(Manner::AtOnce, true),
        Some(Command::Dump(args)) => {
            ending::watch(Manner::AtOnce, dump::is_to_standard_output(args))
        }
        Some(Command::Flows(args)) => ending::watch(args.manner(), true),
        // Packets are sent for whoever gets them.
        Some(Command::Synth(_)) => ending::watch(Manner::Orderly, false),
        // These end by themselves.
        Some(
            Command::Check(_)
            | Command::Config(_)
            | Command::List(_)
            | Command::Report(_)
            | Command::Diff(_)
            | Command::Log(_),
        ) => {
            ending::leave_to_kernel();
            Ok(())
        }
    }
}

/// What serving takes with a single dashboard; fewer than are asked for is a warning.
fn serving() -> Purpose {
    Purpose::Serve {
        connections: http::connections(1),
    }
}

/// The settings as arguments, environment and file have them now.
fn config_again(
    features: &'static [Feature],
    arguments: &[OsString],
) -> Result<(Config, Vec<Setting>), String> {
    match cli::parse(features, arguments) {
        Ok(cli) => Ok((Config::for_run(cli.run_args())?, cli.settings)),
        Err(Refusal::Usage(text) | Refusal::Answer(text)) => Err(text),
    }
}

// The commands. The measurement is plugged in here and nowhere else.

/// Room for the probes of this host.
fn probes(config: &Config) -> Purpose {
    // Where the number of CPUs cannot be read, the measurement reports it later.
    let online = Settings::from(config).roots.online_cpus();
    let cpus = online.map_or(1, |cpus| cpus.len());
    Purpose::Measure { cpus }
}

fn run(
    features: &'static [Feature],
    arguments: &[OsString],
    config: &Config,
    settings: &[Setting],
) -> anyhow::Result<()> {
    room::ensure(&[probes(config), serving()])?;
    let mut prepared = bind(features, config)?;
    // A port below 1024 is bound before.
    give_up_privileges(features, config);
    if config.has_file {
        let arguments = arguments.to_vec();
        let again = move || config_again(features, &arguments);
        prepared = prepared.with_settings(settings.to_vec(), Box::new(again));
    }
    quieten_libbpf();
    let Measurement {
        info,
        source,
        session,
        sampling,
    } = measure(features, config)?;
    if let Some(choice) = sampling {
        tracing::info!("{}", inspect::sampler_line(&choice));
    }
    for note in &info.notes {
        tracing::warn!("{note}");
    }
    let outcome = prepared.serve(info, Box::new(source));
    // Probes are detached before the process says how it ended.
    drop(session);
    outcome
}

/// Intervals for a terminal: of a daemon, or of this host.
fn live(
    features: &'static [Feature],
    config: &Config,
    (url, ca_file): (Option<&str>, Option<&Path>),
    wants_past: bool,
) -> anyhow::Result<Feed> {
    let paced = (config.user_period, wants_past);
    Feed::live(url, ca_file, paced, || begin(features, config))
}

fn show(features: &'static [Feature], config: &Config, given: &Show) -> anyhow::Result<()> {
    let Show {
        args,
        command,
        matches,
    } = given;
    // What is to be shown is measured, too.
    let config = &Config {
        features: (command.ask)(config.features.clone()),
        ..config.clone()
    };
    let form = match (args.json, args.once) {
        (true, _) => Form::Json,
        (false, true) => Form::Once,
        (false, false) => Form::Live,
    };
    let length_ns = args.seconds.unwrap_or(SHOWN_SECONDS) * 1_000_000_000;
    let (url, ca_file) = (args.connect.as_deref(), args.ca_file.as_deref());
    let mut view = (command.view)(matches);
    let feed = live(
        features,
        config,
        (url, ca_file),
        view.wants_every_interval(),
    )?;
    match watch::run(&feed, &mut *view, length_ns, form) {
        Err(error) if is_closed_pipe(&error) => Ok(()),
        shown => shown,
    }
}

/// Hosts that are compared by their answers, all of them asked at the same time.
fn of_hosts(given: &Show, hosts: &[String], rank: Rank) -> Outcome {
    let asked = |host: &String| {
        let ca_file = given.args.ca_file.clone();
        let (url, path) = (
            cli::url_of(host),
            format!(
                "/api/v1/{}?last={}s",
                given.command.name,
                given.args.seconds.unwrap_or(SHOWN_SECONDS)
            ),
        );
        std::thread::spawn(move || -> anyhow::Result<Vec<u8>> {
            let mut body = Vec::new();
            let answer = Daemon::at(&url, ca_file.as_deref())?.get(&path)?;
            answer.take(MOST_ANSWER_BYTES).read_to_end(&mut body)?;
            Ok(body)
        })
    };
    let running: Vec<_> = hosts.iter().map(|host| (host, asked(host))).collect();
    let answers = running.into_iter().map(|(host, thread)| HostAnswer {
        host: host.clone(),
        body: match thread.join() {
            Ok(answer) => answer.map_err(|error| format!("{error:#}")),
            Err(_) => Err("the question ended by a panic".to_owned()),
        },
    });
    match rank(&answers.collect::<Vec<_>>(), given.args.json) {
        Ok(text) => {
            print(&text);
            Outcome::Done
        }
        Err(error) => Outcome::Failed(anyhow::anyhow!(error)),
    }
}

/// The command of a feature, on logs: about no host, as `netto report`.
fn of_logs(given: &Show) -> Outcome {
    let args = &given.args;
    let mut view = (given.command.view)(&given.matches);
    report::view::run(&args.logs, &args.span, args.json, &mut *view)
}

/// Keeps what measuring needs.
fn give_up_privileges(features: &[Feature], config: &Config) {
    let capabilities = |feature: &Feature| (feature.capabilities)(&config.features).iter().copied();
    let more = features.iter().flat_map(capabilities);
    if let Err(error) = privileges::keep_needed(config.log_file.is_some(), more) {
        tracing::warn!("cannot give up privileges that are not needed: {error:#}");
    }
}

fn measure(features: &'static [Feature], config: &Config) -> anyhow::Result<Measurement> {
    let settings = Settings::from(config);
    measurement::start(&settings, features, config.features.clone())
}

/// Measures for a terminal, without a server.
fn begin(features: &'static [Feature], config: &Config) -> anyhow::Result<Begun> {
    give_up_privileges(features, config);
    room::ensure(&[probes(config)])?;
    quieten_libbpf();
    let Measurement {
        info,
        source,
        session,
        ..
    } = measure(features, config)?;
    Ok((info, Box::new(source), Box::new(session)))
}

fn demonstrate(
    features: &'static [Feature],
    config: &Config,
    args: &DemoArgs,
) -> anyhow::Result<()> {
    room::ensure(&[serving()])?;
    let prepared = bind(features, config)?;
    let without = features
        .iter()
        .filter(|feature| !(feature.is_asked_for)(&config.features));
    let without: Vec<&str> = without.map(|feature| feature.name).collect();
    let settings = netto_demo::Settings {
        cpus: args.cpus.unwrap_or(16),
        seed: args.seed.unwrap_or(1),
        period: config.user_period,
        frequency_hz: config.frequency_hz,
        features,
        // The made-up host lasts as long as the process.
        without: without.leak(),
    };
    let prepared = match args.hosts {
        Some(count) => {
            let exported = daemon::exported(features, config);
            prepared.with_targets(Arc::new(Fleet::new(settings, count, &exported)))
        }
        None => prepared,
    };
    let Demo { info, past, source } = netto_demo::demo(settings);
    for note in &info.notes {
        tracing::warn!("{note}");
    }
    prepared.with_past(past).serve(info, Box::new(source))
}

fn check(features: &'static [Feature], config: &Config) -> anyhow::Result<()> {
    give_up_privileges(features, config);
    room::ensure(&[probes(config)])?;
    quieten_libbpf();
    let measurement = measure(features, config)?;
    let sampling = measurement.sampling.as_ref();
    print(&inspect::check_report(&measurement.info, sampling));
    Ok(())
}

/// Checks what the settings name, such as files; the settings themselves have been checked by now.
fn check_settings(config: &Config, args: &ConfigArgs, settings: &[Setting]) -> anyhow::Result<()> {
    if let Some(path) = &config.web_config_file {
        for warning in WebConfig::load(path)?.warnings {
            tracing::warn!("{warning}");
        }
    }
    if args.print_effective {
        print(&cli::print_settings(settings));
        return Ok(());
    }
    let file = match args.run.measure.host.file.flags.path_and_keys() {
        Some((path, 1)) => format!("1 key in {}", path.display()),
        Some((path, keys)) => format!("{keys} keys in {}", path.display()),
        None => "no configuration file".to_owned(),
    };
    print(&format!(
        "the settings can be used: {file}; --print-effective shows each\n"
    ));
    Ok(())
}

fn list(config: &Config, what: &[Listed]) -> anyhow::Result<()> {
    let mut components = Vec::new();
    for one in what {
        match one {
            Listed::Component(index) => components.push(*index),
            Listed::Feature(list) => print(&list()),
        }
    }
    if components.is_empty() && !what.is_empty() {
        return Ok(());
    }
    let symbols = preflight::read_found_symbols(&Settings::from(config).roots)
        .map_err(|error| format!("{error:#}"));
    print(&inspect::component_list(
        symbols.as_ref().map_err(String::as_str),
        &components,
    ));
    Ok(())
}

/// Prints a report; a closed pipe behind `netto list | head` is not worth a word.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(wrapped(&plain_lines(text), columns()).as_bytes());
}
