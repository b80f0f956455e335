//! What netto is to do, resolved: flag before environment before file before
//! default, in proper units, with every invariant checked.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use self::file::{FileOptions, Place, read_file};
use self::given::{given, host_names, in_range};
pub use self::replay::check_speed;
use crate::analysis::plan::RequestedMethod;
use crate::analysis::sampler::RequestedSampler;
use crate::cli::{DemoArgs, HostArgs, LogLevel, MethodName, RunArgs, SamplerName};
use crate::demo;
use crate::sinks::otlp::target::Target;

mod file;
mod given;
mod log;
mod otlp;
mod replay;

pub use self::log::LogSettings;

/// Stack samples per second and CPU that can be asked for.
pub const FREQUENCY_HZ: RangeInclusive<u64> = 1..=100_000;
/// Shares of each CPU's time that netto can be allowed, per cent.
pub const MAX_OVERHEAD_PERCENT: RangeInclusive<f64> = 0.1..=100.0;
/// Lengths of an interval that can be asked for, milliseconds.
pub const USER_PERIOD_MS: RangeInclusive<u64> = 50..=60_000;
/// Times between two pushes that can be asked for, seconds.
pub const OTLP_INTERVAL_S: RangeInclusive<u64> = 1..=3600;
/// Numbers of dashboards that can be asked for.
pub const CLIENTS: RangeInclusive<usize> = 1..=10_000;

/// The settings of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Stack samples per second and CPU.
    pub frequency_hz: u64,
    /// What netto may cost, as a share of each CPU's time.
    pub max_overhead_ratio: f64,
    /// Whether somebody has asked for so many.
    pub frequency_is_given: bool,
    /// Length of an interval.
    pub user_period: Duration,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where to write every snapshot, if anywhere.
    pub log_file: Option<PathBuf>,
    /// How it is written.
    pub log: LogSettings,
    /// TLS and passwords, if any.
    pub web_config_file: Option<PathBuf>,
    /// Names under which this host may be addressed, besides its own.
    pub allowed_hosts: Vec<String>,
    /// Dashboards that may be open at once.
    pub max_clients: usize,
    /// Where to push metrics, if anywhere.
    pub otlp: Option<Target>,
    /// Where the kernel's proc file system is.
    pub proc_root: PathBuf,
    /// Where the kernel's sysfs is.
    pub sys_root: PathBuf,
    /// By which means to measure.
    pub method: RequestedMethod,
    /// What is to take stack samples.
    pub sampler: RequestedSampler,
    /// How much to log.
    pub log_level: LogLevel,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            frequency_hz: 1000,
            max_overhead_ratio: 0.01,
            frequency_is_given: false,
            user_period: Duration::from_millis(500),
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10880),
            log_file: None,
            log: LogSettings::default(),
            web_config_file: None,
            allowed_hosts: Vec::new(),
            max_clients: 64,
            otlp: None,
            proc_root: PathBuf::from("/proc"),
            sys_root: PathBuf::from("/sys"),
            method: RequestedMethod::Auto,
            sampler: RequestedSampler::Auto,
            log_level: LogLevel::default(),
        }
    }
}

/// The settings contradict what netto can do.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value outside its range.
    #[error("{option} must be {range}, not {value}")]
    OutOfRange {
        /// The flag, variable or key by which it was given.
        option: String,
        /// The range, with its unit.
        range: String,
        /// What was given.
        value: String,
    },
    /// A host name that is something else.
    #[error(
        "{option} takes a name without scheme, port or path, such as netto.example.com, not \"{name}\""
    )]
    NotAHostName {
        /// The flag, variable or key by which it was given.
        option: String,
        /// What was given.
        name: String,
    },
    /// A value that is understood, but cannot be used.
    #[error("{option} {message}")]
    Impossible {
        /// The flag, variable or key by which it was given.
        option: String,
        /// What is wrong with it.
        message: String,
    },
    /// The configuration file cannot be read.
    #[error("cannot read the configuration file {path}: {source}")]
    Unreadable {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The configuration file says something that netto does not understand.
    #[error("cannot use the configuration file {path}: {place}{message}")]
    NotUnderstood {
        /// Which.
        path: String,
        /// Where in the file, if known.
        place: String,
        /// What it stumbled on.
        message: String,
    },
}

impl Config {
    /// The settings of `netto run`.
    ///
    /// # Errors
    /// If the configuration file or a value cannot be used.
    pub fn for_run(args: &RunArgs) -> Result<Config, ConfigError> {
        Config::resolve(args, read_file(&args.host)?)
    }

    /// The settings of a command that only looks at the host.
    ///
    /// # Errors
    /// If the configuration file or a value in it cannot be used.
    pub fn for_host(args: &HostArgs) -> Result<Config, ConfigError> {
        Config::for_run(&RunArgs {
            host: args.clone(),
            ..RunArgs::default()
        })
    }

    fn resolve(args: &RunArgs, mut file: FileOptions) -> Result<Config, ConfigError> {
        let default = Config::default();
        let otlp = otlp::target(args, &mut file)?;
        let log = LogSettings::resolve(args, &mut file)?;
        let (host, place) = (&args.host, &file.place);
        let frequency_is_given = args.frequency.is_some() || file.frequency.is_some();
        let frequency_hz = match given("frequency", host, args.frequency, file.frequency, place) {
            Some(hz) => in_range(hz, &FREQUENCY_HZ, "Hz")?,
            None => default.frequency_hz,
        };
        let max_overhead = given(
            "max_overhead",
            host,
            args.max_overhead,
            file.max_overhead,
            place,
        );
        let max_overhead_ratio = match max_overhead {
            Some(percent) => in_range(percent, &MAX_OVERHEAD_PERCENT, "per cent")? / 100.0,
            None => default.max_overhead_ratio,
        };
        let user_period = match given(
            "user_period",
            host,
            args.user_period,
            file.user_period,
            place,
        ) {
            Some(ms) => Duration::from_millis(in_range(ms, &USER_PERIOD_MS, "ms")?),
            None => default.user_period,
        };
        let max_clients = match given(
            "max_clients",
            host,
            args.serve.max_clients,
            file.max_clients,
            place,
        ) {
            Some(count) => in_range(count, &CLIENTS, "")?,
            None => default.max_clients,
        };
        let allowed_host = Some(args.serve.allowed_host.clone()).filter(|names| !names.is_empty());
        let allowed_hosts =
            match given("allowed_host", host, allowed_host, file.allowed_host, place) {
                Some(names) => host_names(names)?,
                None => Vec::new(),
            };
        Ok(Config {
            frequency_hz,
            max_overhead_ratio,
            frequency_is_given,
            user_period,
            listen: SocketAddr::new(
                args.serve
                    .address
                    .or(file.address)
                    .unwrap_or(default.listen.ip()),
                args.serve
                    .port
                    .or(file.port)
                    .unwrap_or(default.listen.port()),
            ),
            log_file: args.log_file.clone().or(file.log_file),
            log,
            web_config_file: args.serve.web_config_file.clone().or(file.web_config_file),
            allowed_hosts,
            max_clients,
            otlp,
            proc_root: host
                .proc_root
                .clone()
                .or(file.proc_root)
                .unwrap_or(default.proc_root),
            sys_root: host
                .sys_root
                .clone()
                .or(file.sys_root)
                .unwrap_or(default.sys_root),
            method: match host.method.or(file.method) {
                None | Some(MethodName::Auto) => default.method,
                Some(MethodName::Fentry) => RequestedMethod::Fentry,
                Some(MethodName::Kprobe) => RequestedMethod::Kprobe,
                Some(MethodName::Sampling) => RequestedMethod::Sampling,
            },
            sampler: match host.sampler.or(file.sampler) {
                None | Some(SamplerName::Auto) => default.sampler,
                Some(SamplerName::Perf) => RequestedSampler::Perf,
                Some(SamplerName::Tick) => RequestedSampler::Tick,
            },
            log_level: host
                .log_level
                .or(file.log_level)
                .unwrap_or(default.log_level),
        })
    }
}

/// Whether a made-up host can have so many CPUs.
///
/// # Errors
/// If it cannot.
pub fn check_demo_cpus(args: &DemoArgs) -> Result<(), ConfigError> {
    let place = Place::default();
    match given("cpus", &args.run.host, args.cpus, None, &place) {
        Some(cpus) => in_range(cpus, &demo::CPUS, "").map(drop),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;
    use crate::config::file::parse_file;

    fn file(text: &str) -> Result<FileOptions, String> {
        parse_file(text, Path::new("netto.toml")).map_err(|error| error.to_string())
    }

    fn resolved(args: RunArgs, text: &str) -> Result<Config, String> {
        Config::resolve(&args, file(text).unwrap()).map_err(|error| error.to_string())
    }

    /// A value that every key accepts in its own type.
    fn sample(option: &str) -> &'static str {
        match option {
            "allowed-host" => "[\"x.example\"]",
            "otlp-endpoint" => "\"http://x.example\"",
            "otlp-headers" => "[\"a=b\"]",
            "address" => "\"127.0.0.1\"",
            "method" => "\"sampling\"",
            "sampler" => "\"tick\"",
            "log-level" => "\"warn\"",
            "log-max-size" => "\"500M\"",
            "log-max-age" => "\"24h\"",
            "log-exact" | "log-stacks" => "true",
            "log-file" | "web-config-file" | "proc-root" | "sys-root" => "\"/x\"",
            _ => "77",
        }
    }

    #[test]
    fn every_option_is_also_a_variable_and_a_key() {
        let command = Cli::command();
        let run = command.find_subcommand("run").unwrap();
        let mut seen = 0;
        for option in run.get_arguments() {
            let name = option.get_long().unwrap_or_default();
            if ["help", "prometheus"].contains(&name) {
                continue;
            }
            let variable = format!("NETTO_{}", name.replace(['-', '.'], "_").to_uppercase());
            assert_eq!(option.get_env(), Some(variable.as_ref()), "{name}");
            if name != "config" {
                let key = name.replace('.', "-");
                file(&format!("{key} = {}", sample(&key))).unwrap();
                seen += 1;
            }
        }
        assert_eq!(seen, 23);
    }

    #[test]
    fn help_states_the_true_defaults() {
        let config = Config::default();
        let command = Cli::command();
        for (option, value) in [
            ("frequency", config.frequency_hz.to_string()),
            (
                "max_overhead",
                (100.0 * config.max_overhead_ratio).to_string(),
            ),
            ("user_period", config.user_period.as_millis().to_string()),
            ("address", config.listen.ip().to_string()),
            ("port", config.listen.port().to_string()),
            ("log_keep", config.log.keep.to_string()),
            ("log_flush", config.log.flush.as_millis().to_string()),
            ("log_exact", config.log.exact.to_string()),
            ("log_stacks", config.log.stacks.to_string()),
            ("max_clients", config.max_clients.to_string()),
            ("proc_root", config.proc_root.display().to_string()),
            ("sys_root", config.sys_root.display().to_string()),
            ("log_level", config.log_level.as_str().to_owned()),
        ] {
            let argument = command
                .get_arguments()
                .find(|argument| argument.get_id() == option)
                .unwrap();
            let help = argument.get_help().unwrap().to_string();
            assert!(help.contains(&format!("[default: {value}]")), "{help}");
        }
    }

    #[test]
    fn nothing_said_means_the_defaults() {
        assert_eq!(resolved(RunArgs::default(), "").unwrap(), Config::default());
    }

    #[test]
    fn an_argument_goes_before_the_file() {
        let args = RunArgs {
            frequency: Some(77),
            ..RunArgs::default()
        };
        let config = resolved(args, "frequency = 88\nuser-period = 99").unwrap();
        assert_eq!(config.frequency_hz, 77);
        assert_eq!(config.user_period, Duration::from_millis(99));
        assert!(config.frequency_is_given);
    }

    #[test]
    fn impossible_values_are_named_with_their_range() {
        for (text, expected) in [
            (
                "frequency = 0",
                "netto.toml, line 1: frequency must be 1 to 100000 Hz, not 0",
            ),
            ("frequency = 100001", "not 100001"),
            (
                "max-overhead = 0.0",
                "netto.toml, line 1: max-overhead must be 0.1 to 100 per cent, not 0",
            ),
            ("max-overhead = nan", "not NaN"),
            (
                "# slowly\nport = 1\nuser-period = 49",
                "netto.toml, line 3: user-period must be 50 to 60000 ms, not 49",
            ),
            ("user-period = 60001", "not 60001"),
            (
                "log-max-size = \"5k\"",
                "netto.toml, line 1: log-max-size must be 10k to 1000G, not 5k",
            ),
            (
                "log-flush = 5001",
                "log-flush must be 0 to 5000 ms, not 5001",
            ),
            (
                "max-clients = 0",
                "line 1: max-clients must be 1 to 10000, not 0",
            ),
            (
                "\nallowed-host = [\"http://x\"]",
                "line 2: allowed-host takes a name without scheme, port or path, such as netto.example.com, not \"http://x\"",
            ),
            ("allowed-host = [\"x:80\"]", "x:80"),
        ] {
            let error = resolved(RunArgs::default(), text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn an_impossible_value_is_blamed_on_whoever_gave_it() {
        let by = |by_environment: &[&str]| RunArgs {
            frequency: Some(0),
            host: HostArgs {
                by_environment: by_environment.iter().map(|id| (*id).to_owned()).collect(),
                ..HostArgs::default()
            },
            ..RunArgs::default()
        };
        let error = resolved(by(&[]), "frequency = 5").unwrap_err();
        assert!(error.starts_with("--frequency must"), "{error}");
        let error = resolved(by(&["port", "frequency"]), "frequency = 5").unwrap_err();
        assert!(error.starts_with("NETTO_FREQUENCY must"), "{error}");
    }

    #[test]
    fn mistakes_in_the_file_are_named_with_their_line() {
        for (text, expected) in [
            (
                "port = 1\nfrequenzy = 2",
                "line 2: unknown field `frequenzy`",
            ),
            ("port = 70000", "70000"),
            ("port = \"x\"", "line 1: "),
            ("= 1", "line 1: "),
        ] {
            let error = file(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(error.contains("netto.toml"), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn a_file_that_was_named_must_exist() {
        let args = HostArgs {
            config: Some(PathBuf::from("/nonexistent.toml")),
            ..HostArgs::default()
        };
        let error = Config::for_host(&args).unwrap_err().to_string();
        assert!(error.contains("/nonexistent.toml"), "{error}");
    }
}
