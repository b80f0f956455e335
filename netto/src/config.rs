//! What netto is to do: the options in the units of the code, with every default.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use netto_analysis::plan::RequestedMethod;
use netto_analysis::precision::Precision;
use netto_analysis::sampler::RequestedSampler;
use netto_feature::instruments::Feature;
use netto_feature::values::{ListenAddress, UnixAddress};
use netto_metrics::otlp::target::{self, Target};
use netto_metrics::per_cpu::PerCpu;
use netto_pipeline::attention;
use netto_pipeline::options::FeatureOptions;
use netto_replay::player;

use crate::cli::log::{Age, Bytes, LogArgs};
use crate::cli::{
    HostArgs, LogLevel, MeasureArgs, MethodName, OtlpArgs, ReplayArgs, RunArgs, SamplerName,
};

pub use netto_log::settings::LogSettings;

/// From one push of metrics to the next.
const OTLP_INTERVAL: Duration = Duration::from_secs(10);

/// The settings of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Stack samples per second and CPU.
    pub frequency_hz: u64,
    /// What netto may cost, as a share of each CPU's time.
    pub max_overhead_ratio: f64,
    /// How well the parts of events are to be known, where that limit allows.
    pub precision: Precision,
    /// What features are asked to do.
    pub features: FeatureOptions,
    /// Whether the frequency was asked for, and is not the default.
    pub frequency_is_given: bool,
    /// Length of an interval.
    pub user_period: Duration,
    /// Where to listen.
    pub listen: SocketAddr,
    /// A UNIX socket to listen on instead.
    pub listen_at: Option<UnixAddress>,
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
    /// Which of Prometheus' metrics are by CPU.
    pub prometheus_per_cpu: PerCpu,
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
    /// Whether a configuration file was read.
    pub has_file: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            frequency_hz: 1000,
            max_overhead_ratio: 0.01,
            precision: Precision::default(),
            features: FeatureOptions::default(),
            frequency_is_given: false,
            user_period: Duration::from_millis(500),
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10880),
            listen_at: None,
            log_file: None,
            log: LogSettings::default(),
            web_config_file: None,
            allowed_hosts: Vec::new(),
            max_clients: 64,
            latency_compat: false,
            prometheus_per_cpu: PerCpu::Components,
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

impl Config {
    /// The settings of `netto run`.
    ///
    /// # Errors
    /// A value that cannot be used.
    pub fn for_run(args: &RunArgs) -> Result<Config, String> {
        let default = Config::default();
        let (measure, serve) = (&args.measure, &args.serve);
        let (host, exported) = (&measure.host, &args.prometheus_metrics);
        let or = |given: &Option<PathBuf>, default| given.clone().unwrap_or(default);
        Ok(Config {
            has_file: host.file.flags.is_there(),
            frequency_hz: args.frequency.unwrap_or(default.frequency_hz),
            frequency_is_given: args.frequency.is_some(),
            max_overhead_ratio: match args.max_overhead {
                Some(percent) => percent / 100.0,
                None => default.max_overhead_ratio,
            },
            precision: match args.precision {
                Some(points) => Precision::new(points / 100.0),
                None => default.precision,
            },
            features: args.features.clone(),
            user_period: match args.user_period {
                Some(ms) => Duration::from_millis(ms),
                None => default.user_period,
            },
            listen: SocketAddr::new(
                match &serve.address {
                    Some(ListenAddress::Ip(address)) => *address,
                    Some(ListenAddress::Unix(_)) | None => default.listen.ip(),
                },
                serve.port.unwrap_or(default.listen.port()),
            ),
            listen_at: match &serve.address {
                Some(ListenAddress::Unix(_)) if serve.port.is_some() => {
                    return Err("--port is of an address, and a UNIX socket has none".to_owned());
                }
                Some(ListenAddress::Unix(socket)) => Some(socket.clone()),
                Some(ListenAddress::Ip(_)) | None => None,
            },
            log_file: args.log_file.clone(),
            log: log_settings(&args.log),
            web_config_file: serve.web_config_file.clone(),
            allowed_hosts: serve.allowed_host.clone(),
            max_clients: serve.max_clients.unwrap_or(default.max_clients),
            latency_compat: exported.latency_compat.unwrap_or(false),
            prometheus_per_cpu: exported
                .prometheus_per_cpu
                .map_or(default.prometheus_per_cpu, PerCpu::from),
            otlp: otlp(&args.otlp)?,
            proc_root: or(&host.proc_root, default.proc_root),
            sys_root: or(&host.sys_root, default.sys_root),
            method: match measure.method {
                None | Some(MethodName::Auto) => default.method,
                Some(MethodName::Fentry) => RequestedMethod::Fentry,
                Some(MethodName::Kprobe) => RequestedMethod::Kprobe,
                Some(MethodName::Sampling) => RequestedMethod::Sampling,
            },
            sampler: match measure.sampler {
                None | Some(SamplerName::Auto) => default.sampler,
                Some(SamplerName::Perf) => RequestedSampler::Perf,
                Some(SamplerName::Tick) => RequestedSampler::Tick,
            },
            log_level: args.level.log_level.unwrap_or(default.log_level),
        })
    }

    /// The settings of a command that only looks at the host.
    ///
    /// # Errors
    /// A value in the configuration file that cannot be used.
    pub fn for_host(features: &[Feature], args: &MeasureArgs) -> Result<Config, String> {
        Config::for_run(&args.for_run(features)?)
    }

    /// The settings of `netto replay`: those of serving, at the player's pace. What a configuration
    /// file says of measuring and of a log does not concern it.
    ///
    /// # Errors
    /// A value that cannot be used.
    pub fn for_replay(args: &ReplayArgs) -> Result<Config, String> {
        let config = Config::for_run(&RunArgs {
            serve: args.serve.clone(),
            measure: MeasureArgs {
                host: HostArgs {
                    file: args.file.clone(),
                    ..HostArgs::default()
                },
                ..MeasureArgs::default()
            },
            level: args.level,
            ..RunArgs::default()
        })?;
        Ok(Config {
            user_period: player::PERIOD,
            ..config
        })
    }
}

fn log_settings(args: &LogArgs) -> LogSettings {
    let default = LogSettings::default();
    LogSettings {
        max_bytes: args.log_max_size.map(|Bytes(bytes)| bytes),
        max_age: args.log_max_age.map(|Age(age)| age),
        keep: args.log_keep.unwrap_or(default.keep),
        flush: args.log_flush.map_or(default.flush, Duration::from_millis),
        exact: args.log_exact.unwrap_or(default.exact),
        stacks: args.log_stacks.unwrap_or(default.stacks),
    }
}

/// Where metrics are pushed; `None` where no receiver is named.
fn otlp(args: &OtlpArgs) -> Result<Option<Target>, String> {
    let Some(endpoint) = args.otlp_endpoint.as_deref().filter(|url| !url.is_empty()) else {
        return Ok(None);
    };
    if !netto_metrics::otlp::IS_BUILT_IN {
        let needs = "needs a netto that was built with OTLP; `cargo xtask build` makes one";
        return Err(format!("--otlp-endpoint {needs}"));
    }
    let headers = args.otlp_headers.iter().filter(|text| !text.is_empty());
    Ok(Some(Target {
        url: target::url(endpoint)?,
        headers: headers
            .map(|text| target::header(text))
            .collect::<Result<_, _>>()?,
        interval: args
            .otlp_interval
            .map_or(OTLP_INTERVAL, Duration::from_secs),
    }))
}

impl From<&Config> for netto_platform::Settings {
    fn from(config: &Config) -> Self {
        netto_platform::Settings {
            frequency_hz: config.frequency_hz,
            frequency_is_given: config.frequency_is_given,
            sampler: config.sampler,
            user_period: config.user_period,
            most_read_periods: attention::most_read_periods(config.user_period),
            method: config.method,
            max_overhead_ratio: config.max_overhead_ratio,
            precision: config.precision,
            roots: netto_sys::system::Roots {
                proc_root: config.proc_root.clone(),
                sys_root: config.sys_root.clone(),
            },
        }
    }
}

#[cfg(test)]
mod tests;
