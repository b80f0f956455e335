//! What netto is to do, resolved: flag before environment before file before
//! default, in proper units, with every invariant checked.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::analysis::support::Method;
use crate::cli::{HostArgs, LogLevel, MethodName, RunArgs};
use crate::demo;

/// The configuration file that is read when none is named, if it exists.
pub const DEFAULT_FILE: &str = "/etc/netto.toml";

/// Stack samples per second and CPU that can be asked for.
pub const FREQUENCY_HZ: RangeInclusive<u64> = 1..=100_000;
/// Lengths of an interval that can be asked for, milliseconds.
pub const USER_PERIOD_MS: RangeInclusive<u64> = 50..=60_000;
/// Numbers of dashboards that can be asked for.
pub const CLIENTS: RangeInclusive<usize> = 1..=10_000;

/// The settings of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Stack samples per second and CPU.
    pub frequency_hz: u64,
    /// Length of an interval.
    pub user_period: Duration,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where to write every snapshot, if anywhere.
    pub log_file: Option<PathBuf>,
    /// TLS and passwords, if any.
    pub web_config_file: Option<PathBuf>,
    /// Names under which this host may be addressed, besides its own.
    pub allowed_hosts: Vec<String>,
    /// Dashboards that may be open at once.
    pub max_clients: usize,
    /// Where the kernel's proc file system is.
    pub proc_root: PathBuf,
    /// Where the kernel's sysfs is.
    pub sys_root: PathBuf,
    /// By which means to measure.
    pub method: Method,
    /// How much to log.
    pub log_level: LogLevel,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            frequency_hz: 1000,
            user_period: Duration::from_millis(500),
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10880),
            log_file: None,
            web_config_file: None,
            allowed_hosts: Vec::new(),
            max_clients: 64,
            proc_root: PathBuf::from("/proc"),
            sys_root: PathBuf::from("/sys"),
            method: Method::Auto,
            log_level: LogLevel::default(),
        }
    }
}

/// The configuration file: the long options as keys.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileOptions {
    frequency: Option<u64>,
    user_period: Option<u64>,
    address: Option<IpAddr>,
    port: Option<u16>,
    log_file: Option<PathBuf>,
    web_config_file: Option<PathBuf>,
    allowed_host: Option<Vec<String>>,
    max_clients: Option<usize>,
    proc_root: Option<PathBuf>,
    sys_root: Option<PathBuf>,
    method: Option<MethodName>,
    log_level: Option<LogLevel>,
}

/// The settings contradict what netto can do.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value outside its range.
    #[error("{option} must be {range}, not {value}")]
    OutOfRange {
        /// The option as the user writes it.
        option: &'static str,
        /// The range, with its unit.
        range: String,
        /// What was given.
        value: u64,
    },
    /// A host name that is something else.
    #[error(
        "--allowed-host takes a name without scheme, port or path, such as netto.example.com, not \"{0}\""
    )]
    NotAHostName(String),
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

    fn resolve(args: &RunArgs, file: FileOptions) -> Result<Config, ConfigError> {
        let default = Config::default();
        let frequency_hz = args
            .frequency
            .or(file.frequency)
            .unwrap_or(default.frequency_hz);
        check("--frequency", &FREQUENCY_HZ, "Hz", frequency_hz)?;
        let user_period = match args.user_period.or(file.user_period) {
            Some(ms) => {
                check("--user-period", &USER_PERIOD_MS, "ms", ms)?;
                Duration::from_millis(ms)
            }
            None => default.user_period,
        };
        let max_clients = args
            .max_clients
            .or(file.max_clients)
            .unwrap_or(default.max_clients);
        if !CLIENTS.contains(&max_clients) {
            return Err(out_of_range(
                "--max-clients",
                &CLIENTS,
                "",
                max_clients as u64,
            ));
        }
        let allowed_hosts = if args.allowed_host.is_empty() {
            file.allowed_host.unwrap_or_default()
        } else {
            args.allowed_host.clone()
        };
        for name in &allowed_hosts {
            let strange = |c: char| !(c.is_ascii_alphanumeric() || "-._".contains(c));
            if name.is_empty() || name.contains(strange) {
                return Err(ConfigError::NotAHostName(name.clone()));
            }
        }
        let host = &args.host;
        Ok(Config {
            frequency_hz,
            user_period,
            listen: SocketAddr::new(
                args.address.or(file.address).unwrap_or(default.listen.ip()),
                args.port.or(file.port).unwrap_or(default.listen.port()),
            ),
            log_file: args.log_file.clone().or(file.log_file),
            web_config_file: args.web_config_file.clone().or(file.web_config_file),
            allowed_hosts,
            max_clients,
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
                Some(MethodName::Fentry) => Method::Fentry,
                Some(MethodName::Kprobe) => Method::Kprobe,
                Some(MethodName::Sampling) => Method::Sampling,
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
pub fn check_demo_cpus(cpus: Option<u32>) -> Result<(), ConfigError> {
    match cpus {
        Some(cpus) if !demo::CPUS.contains(&cpus) => {
            Err(out_of_range("--cpus", &demo::CPUS, "", u64::from(cpus)))
        }
        _ => Ok(()),
    }
}

fn check(
    option: &'static str,
    range: &RangeInclusive<u64>,
    unit: &str,
    value: u64,
) -> Result<(), ConfigError> {
    if range.contains(&value) {
        Ok(())
    } else {
        Err(out_of_range(option, range, unit, value))
    }
}

fn out_of_range<T: std::fmt::Display>(
    option: &'static str,
    range: &RangeInclusive<T>,
    unit: &str,
    value: u64,
) -> ConfigError {
    let range = format!("{} to {} {unit}", range.start(), range.end());
    ConfigError::OutOfRange {
        option,
        range: range.trim_end().to_owned(),
        value,
    }
}

fn read_file(args: &HostArgs) -> Result<FileOptions, ConfigError> {
    let (path, demanded) = match &args.config {
        Some(path) => (path.as_path(), true),
        None => (Path::new(DEFAULT_FILE), false),
    };
    match std::fs::read_to_string(path) {
        Ok(text) => parse_file(&text, path),
        Err(error) if !demanded && error.kind() == std::io::ErrorKind::NotFound => {
            Ok(FileOptions::default())
        }
        Err(source) => Err(ConfigError::Unreadable {
            path: path.display().to_string(),
            source,
        }),
    }
}

fn parse_file(text: &str, path: &Path) -> Result<FileOptions, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let place = error
            .span()
            .and_then(|span| text.get(..span.start))
            .map(|before| format!("line {}: ", before.matches('\n').count() + 1))
            .unwrap_or_default();
        ConfigError::NotUnderstood {
            path: path.display().to_string(),
            place,
            message: error.message().replace('\n', " "),
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

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
            "address" => "\"127.0.0.1\"",
            "method" => "\"sampling\"",
            "log-level" => "\"warn\"",
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
        assert_eq!(seen, 12);
    }

    #[test]
    fn help_states_the_true_defaults() {
        let config = Config::default();
        let command = Cli::command();
        for (option, value) in [
            ("frequency", config.frequency_hz.to_string()),
            ("user_period", config.user_period.as_millis().to_string()),
            ("address", config.listen.ip().to_string()),
            ("port", config.listen.port().to_string()),
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
    }

    #[test]
    fn impossible_values_are_named_with_their_range() {
        for (text, expected) in [
            ("frequency = 0", "--frequency must be 1 to 100000 Hz, not 0"),
            ("frequency = 100001", "not 100001"),
            (
                "user-period = 49",
                "--user-period must be 50 to 60000 ms, not 49",
            ),
            ("user-period = 60001", "not 60001"),
            ("max-clients = 0", "--max-clients must be 1 to 10000, not 0"),
            ("allowed-host = [\"http://x\"]", "http://x"),
            ("allowed-host = [\"x:80\"]", "x:80"),
        ] {
            let error = resolved(RunArgs::default(), text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
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
