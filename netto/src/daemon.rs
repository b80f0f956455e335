//! A daemon from its socket to its end, given a source of snapshots.
//!
//! It owns the order of things: sockets and files are opened before anything
//! is announced or measured, the measurement ends before the sinks, and the
//! first failure of any part is the process's own.

use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use actix::{Addr, Arbiter, System};
use anyhow::{Context, anyhow, bail};
use metrics_common::Info;
use metrics_common::history::History;
use tokio::signal::unix::Signal;
use tokio::time::timeout;

use crate::cli::Setting;
use crate::config::Config;
use crate::features;
use netto_feature::instruments::Feature;
use netto_http::hosts::HostPolicy;
use netto_http::http::{self, Wiring};
use netto_http::live_web_config::LiveWebConfig;
use netto_http::websocket_client::Patience;
use netto_log::file_logger::FileLogger;
use netto_log::log_file::LogFile;
use netto_log::log_writer::LogStore;
#[cfg(feature = "otlp")]
use netto_metrics::otlp::OtlpLogger;
use netto_metrics::prometheus::{self, Exported, PrometheusLogger, Targets};
use netto_pipeline::attention::Attention;
use netto_pipeline::clients::ClientCounts;
use netto_pipeline::metrics_collector::{
    CollectorData, Latest, MetricsCollector, Shutdown, Sink, SinkDrops, Subscribe,
};
use netto_pipeline::playback::Controls;
use netto_pipeline::shared::Shared;
use netto_pipeline::supervisor::{Failures, Part, Supervisor};
use netto_pipeline::trace_analyzer::{self, SnapshotSource, StackSource, TraceAnalyzer};
use netto_questions::values::UNIX;
use netto_sys::listener::{Listener, SocketFile, listen_at};
#[cfg(feature = "otlp")]
use netto_sys::privileges::{self, Duty};
use netto_sys::{descriptors, memory, system};

mod service;
mod signals;

pub use signals::Reread;

/// How long each part may take to end before the process goes without it.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// How long after the start its memory is given back.
const SETTLED: Duration = Duration::from_secs(10);

/// Files that are opened now and then while everything runs.
const SPARE_DESCRIPTORS: u64 = 32;

/// A daemon with its socket bound and its files open, not yet serving.
pub struct Prepared {
    features: &'static [Feature],
    config: Config,
    listener: Listener,
    /// The listener's own place in the file system.
    place: Option<SocketFile>,
    web: LiveWebConfig,
    log: Option<Box<dyn LogStore>>,
    patience: Patience,
    past: Option<History>,
    replay: Option<Controls>,
    settings: Option<(Vec<Setting>, Reread)>,
    targets: Option<Arc<dyn Targets>>,
}

/// What a daemon of these settings exports to Prometheus.
pub fn exported(features: &[Feature], config: &Config) -> Exported {
    Exported {
        catalogues: features::metrics(features).into(),
        has_compat: config.latency_compat,
        per_cpu: config.prometheus_per_cpu,
    }
}

/// Does everything that can fail for the user's settings alone, before any heavy work.
///
/// # Errors
/// If the address is taken, or a file cannot be used.
pub fn bind(features: &'static [Feature], config: &Config) -> anyhow::Result<Prepared> {
    let web = match &config.web_config_file {
        Some(path) => LiveWebConfig::load(path)?,
        None => LiveWebConfig::default(),
    };
    for warning in &web.current().warnings {
        tracing::warn!("{warning}");
    }
    let (listener, place) = match (service::inherited_listener()?, &config.listen_at) {
        (Some(listener), _) => (listener, None),
        (None, None) => (Listener::Tcp(listen(config.listen)?), None),
        (None, Some(at)) => {
            let (listener, place) = listen_at(&at.path, at.mode, at.group.as_deref())?;
            (Listener::Unix(listener), Some(place))
        }
    };
    let log = match &config.log_file {
        Some(path) => Some(Box::new(LogFile::open(path, &config.log)?) as Box<dyn LogStore>),
        None => None,
    };
    Ok(Prepared {
        features,
        config: config.clone(),
        listener,
        place,
        web,
        log,
        patience: Patience::default(),
        past: None,
        replay: None,
        settings: None,
        targets: None,
    })
}

fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        let (cause, remedy) = match error.kind() {
            std::io::ErrorKind::AddrInUse => (
                "address in use".to_owned(),
                "another netto running? choose another with --port",
            ),
            std::io::ErrorKind::AddrNotAvailable => (
                "this host has no such address".to_owned(),
                "choose one of its own with --address",
            ),
            std::io::ErrorKind::PermissionDenied => (
                "permission denied".to_owned(),
                "choose a port above 1023 with --port",
            ),
            _ => (
                error.to_string(),
                "choose another with --address and --port",
            ),
        };
        anyhow!("cannot listen on {address}: {cause}; {remedy}")
    })
}

impl Prepared {
    /// Where it listens, with the port that the system chose if none was given.
    ///
    /// # Errors
    /// As the operating system has it, or on a UNIX socket.
    pub fn local_addr(&self) -> anyhow::Result<SocketAddr> {
        match &self.listener {
            Listener::Tcp(listener) => Ok(listener.local_addr()?),
            Listener::Unix(_) => bail!("a UNIX socket has no IP address"),
        }
    }

    /// The same for people, and whether everybody in a network may reach it.
    fn at(&self) -> anyhow::Result<(String, bool)> {
        let scheme = match self.web.current().tls {
            Some(_) => "https",
            None => "http",
        };
        Ok(match &self.listener {
            Listener::Tcp(listener) => {
                let address = listener.local_addr()?;
                let at = format!("{scheme}://{address}/");
                (at, !address.ip().is_loopback())
            }
            Listener::Unix(listener) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname().unwrap_or(Path::new(""));
                (format!("{UNIX}{}", path.display()), false)
            }
        })
    }

    /// Changes how long slow clients are waited for.
    pub fn with_patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// Writes the log to this instead of its file.
    pub fn with_log_store(mut self, store: impl LogStore) -> Self {
        self.log = Some(Box::new(store));
        self
    }

    /// Begins with a past, which new dashboards are shown.
    pub fn with_past(mut self, past: History) -> Self {
        self.past = Some(past);
        self
    }

    /// Takes up what has changed in the settings at SIGHUP, as far as that is possible.
    pub fn with_settings(mut self, settings: Vec<Setting>, reread: Reread) -> Self {
        self.settings = Some((settings, reread));
        self
    }

    /// Has further hosts to scrape.
    pub fn with_targets(mut self, targets: Arc<dyn Targets>) -> Self {
        self.targets = Some(targets);
        self
    }

    /// Serves a recording, whose viewers control its playback.
    pub fn with_replay(mut self, controls: Controls) -> Self {
        self.replay = Some(controls);
        self
    }

    /// Serves until SIGTERM, SIGINT or a failure.
    ///
    /// # Errors
    /// The true cause, if any part failed.
    pub fn serve(self, info: Info, source: Box<dyn SnapshotSource>) -> anyhow::Result<()> {
        System::new().block_on(async {
            let is_reload = self.log.is_some() || self.settings.is_some() || service::is_waiting();
            let stop = signals::to_end(is_reload)?;
            let hangups = is_reload.then(signals::hangups).transpose()?;
            self.conduct(info, source, stop, hangups).await
        })
    }

    /// Serves until `stop` resolves, to the reason that clients are told, or a failure.
    ///
    /// # Errors
    /// The true cause, if any part failed.
    pub fn serve_until(
        self,
        info: Info,
        source: Box<dyn SnapshotSource>,
        stop: impl Future<Output = String>,
    ) -> anyhow::Result<()> {
        System::new().block_on(self.conduct(info, source, stop, None))
    }

    async fn conduct(
        mut self,
        info: Info,
        source: Box<dyn SnapshotSource>,
        stop: impl Future<Output = String>,
        hangups: Option<Signal>,
    ) -> anyhow::Result<()> {
        let (at, is_public) = self.at()?;
        // The socket stays in the file system until the daemon ends.
        let _place = self.place.take();
        let web = self.web.clone();
        let protected = web.current().auth.is_some();
        let period = self.config.user_period;
        let features = self.features;
        let (config, settings) = (self.config.clone(), self.settings.take());
        let info = Arc::new(info);
        let attention = Attention::default();
        web.start_following()?;
        let (mut running, mut failures) =
            self.start(info.clone(), source.stacks(), attention.clone())?;
        tracing::info!("dashboard at {at}");
        if is_public && !protected {
            tracing::warn!(
                "anybody who can reach {at} can read this host's metrics; \
                 --web.config.file adds a password"
            );
        }
        let (arbiter, analyzer) = TraceAnalyzer::launch(
            source,
            info,
            period,
            running.collector.clone(),
            attention,
            &running.supervisor,
        );
        if let Some(hangups) = hangups {
            let logger = running.file.as_ref().map(|(_, logger)| logger.clone());
            let analyzer = analyzer.clone();
            let take_up = signals::take_up(hangups, logger, analyzer, features, config, settings);
            actix::spawn(take_up);
        }
        running.analyzer = Some((arbiter, analyzer));
        service::is_ready(&at);
        actix::spawn(service::report_progress(running.latest.clone(), period));
        actix::spawn(async {
            tokio::time::sleep(SETTLED).await;
            memory::give_back();
        });
        let outcome = tokio::select! {
            failure = failures.first() => Err(failure),
            reason = stop => Ok(reason),
        };
        let reason = match &outcome {
            Ok(reason) => {
                tracing::info!("ending: {reason}");
                reason.clone()
            }
            // Not logged here, because the caller shows it.
            Err(failure) => failure.to_string(),
        };
        service::is_stopping(&reason);
        let ended = running.end(reason).await;
        match outcome {
            Err(failure) => Err(failure.into()),
            // Ending may itself fail, as when the last frame of the log is written.
            Ok(_) => match failures.try_first() {
                Some(failure) => Err(failure.into()),
                None => ended,
            },
        }
    }

    /// Starts everything right of the analyzer.
    fn start(
        self,
        info: Arc<Info>,
        stacks: Arc<dyn StackSource>,
        attention: Attention,
    ) -> anyhow::Result<(Running, Failures)> {
        // Inherited by every connection: the kernel closes a connection whose peer is silent for
        // this long, also after a close with unsent data in its buffers.
        if let Listener::Tcp(listener) = &self.listener {
            socket2::SockRef::from(listener)
                .set_tcp_user_timeout(Some(self.patience.no_progress))
                .context("cannot set up the socket")?;
        }
        // A scraper keeps a connection for each of its targets, while the last one closes.
        let targets = self.targets.as_ref();
        let scrapers = targets.map_or(0, |targets| 2 * targets.names().len() as u64);
        let max_clients = affordable_clients(
            self.config.max_clients,
            descriptors::raise_limit(),
            descriptors::open_now().unwrap_or(0) + scrapers,
        )?;
        let (supervisor, failures) = Supervisor::new();
        let drops = Arc::new(SinkDrops::default());
        let clients = Arc::new(ClientCounts::default());
        let past = self.past.unwrap_or_else(|| History::new(&info));
        let kept = CollectorData {
            latest: Latest::default(),
            past: Shared::new(past),
            recent: self.replay.is_none().then(Shared::default),
            attention,
        };
        let latest = kept.latest.clone();
        let (encoding, collector) =
            MetricsCollector::launch(kept.clone(), drops.clone(), &supervisor);
        let counted = (drops.clone(), clients.clone());
        let exported = exported(self.features, &self.config);
        let (prometheus, metrics) =
            PrometheusLogger::launch(info.clone(), counted.clone(), exported, &supervisor);
        collector.do_send(Subscribe::snapshots(
            Sink::Prometheus,
            prometheus.clone().recipient(),
        ));
        let logged = self.config.log.stacks.then(|| stacks.clone());
        let file = self
            .log
            .map(|log| {
                let path = self.config.log_file.clone().unwrap_or_default();
                let about = (path, self.config.log);
                FileLogger::launch(log, about, logged, info.clone(), drops.clone(), &supervisor)
            })
            .transpose()?;
        if let Some((_, logger)) = &file {
            collector.do_send(Subscribe::snapshots(Sink::File, logger.clone().recipient()));
        }
        #[cfg(feature = "otlp")]
        let otlp = self
            .config
            .otlp
            .map(|target| {
                let catalogues = features::metrics(self.features);
                // A made-up or recorded host is not this one.
                let is_here = self.replay.is_none() && !info.boot_id.is_empty();
                let host_id = is_here.then(system::machine_id).flatten();
                let host = (info.clone(), host_id);
                let confine = || privileges::confine_to(Duty::Send);
                OtlpLogger::launch(target, host, counted, catalogues, (&supervisor, confine))
            })
            .transpose()?;
        #[cfg(feature = "otlp")]
        if let Some((_, logger)) = &otlp {
            collector.do_send(Subscribe::snapshots(Sink::Otlp, logger.clone().recipient()));
        }
        // A recording may name any host, this one only its own name.
        let hostname = match self.replay {
            Some(_) => system::hostname(),
            None => info.hostname.clone(),
        };
        let server = http::start(
            self.listener,
            self.web,
            Wiring {
                hosts: HostPolicy::new(&hostname, &self.config.allowed_hosts),
                info,
                collector: collector.clone(),
                kept,
                stacks,
                metrics,
                drops,
                clients,
                max_clients,
                patience: self.patience,
                supervisor: supervisor.clone(),
                features: self
                    .features
                    .iter()
                    .map(|feature| (feature.name, feature.api))
                    .collect(),
                replay: self.replay,
                targets: self.targets,
            },
        )?;
        let handle = server.handle();
        let mut watch = supervisor.watch(Part::HttpServer);
        actix::spawn(async move {
            // An unexpected end without an error is reported by the watch itself.
            if let Err(error) = server.await {
                watch.fail(error.into());
            }
        });
        let running = Running {
            supervisor,
            latest,
            encoding,
            collector,
            prometheus,
            file,
            #[cfg(feature = "otlp")]
            otlp,
            server: handle,
            analyzer: None,
        };
        Ok((running, failures))
    }
}

/// How many dashboards there may be, so that connections never take the
/// descriptors that the measurement needs.
fn affordable_clients(wanted: usize, limit: u64, open: u64) -> anyhow::Result<usize> {
    let others = open + SPARE_DESCRIPTORS + http::connections(0) as u64;
    let needed = others + wanted as u64;
    if needed <= limit {
        return Ok(wanted);
    }
    let remedy = "raise the limit: `ulimit -n`, or LimitNOFILE= of the service";
    let affordable = usize::try_from(limit.saturating_sub(others)).unwrap_or(wanted);
    if affordable == 0 {
        return Err(anyhow!(
            "this process may have {limit} files open, and netto needs {} to serve anybody; {remedy}",
            others + 1
        ));
    }
    tracing::warn!(
        "this process may have {limit} files open: that is {affordable} dashboards instead of \
         {wanted} (--max-clients), which need {needed}; {remedy}"
    );
    Ok(affordable)
}

/// The actors of a running daemon.
struct Running {
    supervisor: Supervisor,
    latest: Latest,
    /// The collector's thread.
    encoding: Arbiter,
    collector: Addr<MetricsCollector>,
    prometheus: Addr<PrometheusLogger>,
    file: Option<(Arbiter, Addr<FileLogger>)>,
    #[cfg(feature = "otlp")]
    otlp: Option<(Arbiter, Addr<OtlpLogger>)>,
    server: actix_web::dev::ServerHandle,
    analyzer: Option<(Arbiter, Addr<TraceAnalyzer>)>,
}

impl Running {
    /// Ends every part in the order of the data, waiting for none of them too long.
    ///
    /// A part that has failed before is skipped: its watch has reported it.
    ///
    /// # Errors
    /// If the log file could not be finished in time.
    async fn end(self, reason: String) -> anyhow::Result<()> {
        self.supervisor.begin_end();
        if let Some((arbiter, analyzer)) = self.analyzer {
            let _ = timeout(SHUTDOWN_TIMEOUT, analyzer.send(trace_analyzer::Finish)).await;
            join(arbiter).await;
        }
        let _ = timeout(
            SHUTDOWN_TIMEOUT,
            self.collector.send(Shutdown(reason.clone())),
        )
        .await;
        join(self.encoding).await;
        let mut finished = Ok(());
        if let Some((arbiter, logger)) = self.file {
            if timeout(SHUTDOWN_TIMEOUT, logger.send(Shutdown(reason.clone())))
                .await
                .is_ok()
            {
                join(arbiter).await;
            } else {
                finished = Err(anyhow!(
                    "the log file's disk does not answer; the end of the log is missing"
                ));
            }
        }
        #[cfg(feature = "otlp")]
        if let Some((arbiter, logger)) = self.otlp {
            // A receiver that does not answer is no reason to fail: it may never have been there.
            let _ = timeout(SHUTDOWN_TIMEOUT, logger.send(Shutdown(reason))).await;
            join(arbiter).await;
        }
        let _ = timeout(SHUTDOWN_TIMEOUT, self.prometheus.send(prometheus::Finish)).await;
        // The server gives up connections after a second. Where it takes longer, a thread is stuck, and
        // stopping it again would wait forever.
        let _ = timeout(SHUTDOWN_TIMEOUT, self.server.stop(true)).await;
        finished
    }
}

/// Ends a thread, unless it is stuck.
async fn join(arbiter: Arbiter) {
    arbiter.stop();
    let (joined, done) = tokio::sync::oneshot::channel();
    // Not a blocking task of the runtime, which would wait for it forever.
    let join = move || joined.send(arbiter.join().is_ok());
    if std::thread::Builder::new().spawn(join).is_ok() {
        let _ = timeout(SHUTDOWN_TIMEOUT, done).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashboards_are_as_many_as_there_are_descriptors_for() {
        let others = http::connections(0) as u64 + SPARE_DESCRIPTORS;
        assert_eq!(affordable_clients(64, 1 << 20, 100).unwrap(), 64);
        assert_eq!(affordable_clients(64, others + 100 + 64, 100).unwrap(), 64);
        assert_eq!(affordable_clients(64, others + 100 + 63, 100).unwrap(), 63);
        let error = affordable_clients(64, others + 100, 100).unwrap_err();
        assert!(error.to_string().contains("LimitNOFILE"), "{error}");
        assert!(affordable_clients(64, 8, 100).is_err());
    }
}
