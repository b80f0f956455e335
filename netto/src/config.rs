//! What netto is to do, resolved: flag before environment before file before
//! default, in proper units, with every invariant checked.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use self::file::{FileOptions, Place, read_file};
use self::given::{given, host_names, in_range};
pub use self::replay::check_speed;
use crate::cli::{DemoArgs, HostArgs, LogLevel, MethodName, RunArgs, SamplerName};
use netto_analysis::plan::RequestedMethod;
use netto_analysis::sampler::RequestedSampler;
use netto_latency::request::Request as LatencyRequest;
use netto_metrics::otlp::target::Target;
use netto_owners::OwnerLevel;
use netto_pipeline::options::FeatureOptions;

mod file;
mod given;
mod latency;
mod log;
mod otlp;
mod replay;

pub use netto_log::settings::LogSettings;

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
    /// How finely owners are told apart.
    pub owners: OwnerLevel,
    /// What latencies are measured, if any.
    pub latency: Option<LatencyRequest>,
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
    /// Whether metrics of latency have netstacklat's names, too.
    pub latency_compat: bool,
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
    /// Whether a configuration file has had a say.
    pub has_file: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            frequency_hz: 1000,
            max_overhead_ratio: 0.01,
            owners: OwnerLevel::None,
            latency: None,
            frequency_is_given: false,
            user_period: Duration::from_millis(500),
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10880),
            log_file: None,
            log: LogSettings::default(),
            web_config_file: None,
            allowed_hosts: Vec::new(),
            max_clients: 64,
            latency_compat: false,
            otlp: None,
            proc_root: PathBuf::from("/proc"),
            sys_root: PathBuf::from("/sys"),
            method: RequestedMethod::Auto,
            sampler: RequestedSampler::Auto,
            log_level: LogLevel::default(),
            has_file: false,
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

    /// What features are asked to do.
    pub fn feature_options(&self) -> FeatureOptions {
        let options = FeatureOptions::default().with(netto_owners::ENTRY.name, self.owners);
        match &self.latency {
            Some(request) => options.with(netto_latency::ENTRY.name, request.clone()),
            None => options,
        }
    }

    fn resolve(args: &RunArgs, mut file: FileOptions) -> Result<Config, ConfigError> {
        let default = Config::default();
        let otlp = otlp::target(args, &mut file)?;
        let log = log::resolve(args, &mut file)?;
        let latency = latency::request(args, &mut file)?;
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
            has_file: !place.is_nowhere(),
            frequency_hz,
            max_overhead_ratio,
            owners: match args.owners.or(file.owners) {
                Some(name) => name.into(),
                None => default.owners,
            },
            latency,
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
            latency_compat: args
                .latency_compat
                .latency_compat
                .or(file.latency_compat)
                .unwrap_or(default.latency_compat),
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
        Some(cpus) => in_range(cpus, &netto_demo::CPUS, "").map(drop),
        None => Ok(()),
    }
}

impl From<&Config> for netto_platform::Settings {
    fn from(config: &Config) -> Self {
        netto_platform::Settings {
            frequency_hz: config.frequency_hz,
            frequency_is_given: config.frequency_is_given,
            sampler: config.sampler,
            user_period: config.user_period,
            method: config.method,
            max_overhead_ratio: config.max_overhead_ratio,
            roots: netto_sys::system::Roots {
                proc_root: config.proc_root.clone(),
                sys_root: config.sys_root.clone(),
            },
        }
    }
}

#[cfg(test)]
mod tests;
