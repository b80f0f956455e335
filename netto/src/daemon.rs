//! A daemon from its socket to its end, given a source of snapshots.
//!
//! It owns the order of things: sockets and files are opened before anything
//! is announced or measured, the measurement ends before the sinks, and the
//! first failure of any part is the process's own.

use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use actix::{Addr, Arbiter, System};
use anyhow::{Context, anyhow};
use metrics_common::Info;
use metrics_common::history::History;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use crate::actors::metrics_collector::{Farewell, MetricsCollector, Sink, SinkDrops, Subscribe};
use crate::actors::supervisor::{Failures, Part, Supervisor};
use crate::actors::trace_analyzer::{self, SnapshotSource, TraceAnalyzer};
use crate::config::Config;
use crate::sinks::file_logger::{FileLogger, OpenLog};
use crate::sinks::hosts::HostPolicy;
use crate::sinks::http::{self, Wiring};
use crate::sinks::prometheus_logger::{self, PrometheusLogger};
use crate::sinks::web_config::WebConfig;
use crate::sinks::websocket_client::Patience;

/// How long each part may take to end before the process goes without it.
const FAREWELL: Duration = Duration::from_secs(2);

/// A daemon with its socket bound and its files open, not yet serving.
pub struct Prepared {
    config: Config,
    listener: TcpListener,
    web: WebConfig,
    log: Option<OpenLog>,
    patience: Patience,
    past: Option<History>,
}

/// Does everything that can fail for the user's settings alone, before any heavy work.
///
/// # Errors
/// If the address is taken, or a file cannot be used.
pub fn bind(config: &Config) -> anyhow::Result<Prepared> {
    let web = match &config.web_config_file {
        Some(path) => WebConfig::load(path)?,
        None => WebConfig::default(),
    };
    let listener = listen(config.listen)?;
    let log = match &config.log_file {
        Some(path) => Some(OpenLog::open(path)?),
        None => None,
    };
    Ok(Prepared {
        config: config.clone(),
        listener,
        web,
        log,
        patience: Patience::default(),
        past: None,
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

/// Binds and serves until SIGTERM, SIGINT or a failure.
///
/// # Errors
/// The true cause, if any part failed.
pub fn serve(config: &Config, info: Info, source: Box<dyn SnapshotSource>) -> anyhow::Result<()> {
    bind(config)?.serve(info, source)
}

impl Prepared {
    /// Where it listens, with the port that the system chose if none was given.
    ///
    /// # Errors
    /// As the operating system has it.
    pub fn local_addr(&self) -> anyhow::Result<SocketAddr> {
        Ok(self.listener.local_addr()?)
    }

    /// Changes how long slow clients are waited for.
    pub fn with_patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// Begins with a past, which new dashboards are shown.
    pub fn with_past(mut self, past: History) -> Self {
        self.past = Some(past);
        self
    }

    /// Serves until SIGTERM, SIGINT or a failure.
    ///
    /// # Errors
    /// The true cause, if any part failed.
    pub fn serve(self, info: Info, source: Box<dyn SnapshotSource>) -> anyhow::Result<()> {
        System::new().block_on(async {
            let stop = signals()?;
            self.conduct(info, source, stop).await
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
        System::new().block_on(self.conduct(info, source, stop))
    }

    async fn conduct(
        self,
        info: Info,
        source: Box<dyn SnapshotSource>,
        stop: impl Future<Output = String>,
    ) -> anyhow::Result<()> {
        let address = self.local_addr()?;
        let scheme = if self.web.tls.is_some() {
            "https"
        } else {
            "http"
        };
        let protected = self.web.auth.is_some();
        let period = self.config.user_period;
        let info = Arc::new(info);
        let (mut running, mut failures) = self.start(info.clone())?;
        tracing::info!("dashboard at {scheme}://{address}/");
        if !address.ip().is_loopback() && !protected {
            tracing::warn!(
                "anybody who can reach {address} can read this host's metrics; \
                 --web.config.file adds a password"
            );
        }
        let (arbiter, analyzer) = TraceAnalyzer::launch(
            source,
            info,
            period,
            running.collector.clone(),
            &running.supervisor,
        );
        running.stacks.get_or_init(|| analyzer.clone());
        running.analyzer = Some((arbiter, analyzer));
        let outcome = tokio::select! {
            failure = failures.first() => Err(failure),
            reason = stop => Ok(reason),
        };
        let reason = match &outcome {
            Ok(reason) => {
                tracing::info!("ending: {reason}");
                reason.clone()
            }
            // The caller shows it, once.
            Err(failure) => failure.to_string(),
        };
        let ended = running.end(reason).await;
        match outcome {
            Err(failure) => Err(failure.into()),
            // The end itself may fail: the last frame of the log, for one.
            Ok(_) => match failures.try_first() {
                Some(failure) => Err(failure.into()),
                None => ended,
            },
        }
    }

    /// Starts everything right of the analyzer.
    fn start(self, info: Arc<Info>) -> anyhow::Result<(Running, Failures)> {
        // Inherited by every connection: the kernel cuts off a peer that takes no data for so long.
        socket2::SockRef::from(&self.listener)
            .set_tcp_user_timeout(Some(self.patience.no_progress))
            .context("cannot set up the socket")?;
        let (supervisor, failures) = Supervisor::new();
        let drops = Arc::new(SinkDrops::default());
        let past = self.past.unwrap_or_else(|| History::new(&info));
        let collector = MetricsCollector::launch(past, drops.clone(), &supervisor);
        let prometheus = PrometheusLogger::launch(info.clone(), drops.clone(), &supervisor)?;
        collector.do_send(Subscribe {
            sink: Sink::Prometheus,
            updates: prometheus.clone().recipient(),
            past: None,
            farewell: None,
        });
        let file = self
            .log
            .map(|log| FileLogger::launch(log, info.clone(), &supervisor));
        if let Some((_, logger)) = &file {
            collector.do_send(Subscribe {
                sink: Sink::File,
                updates: logger.clone().recipient(),
                past: None,
                farewell: None,
            });
        }
        let stacks = Arc::new(OnceLock::new());
        let server = http::start(
            self.listener,
            self.web,
            Wiring {
                hosts: HostPolicy::new(&info.hostname, &self.config.allowed_hosts),
                info,
                collector: collector.clone(),
                analyzer: stacks.clone(),
                prometheus: prometheus.clone(),
                drops,
                max_clients: self.config.max_clients,
                patience: self.patience,
                supervisor: supervisor.clone(),
            },
        )?;
        let handle = server.handle();
        let mut watch = supervisor.watch(Part::HttpServer);
        actix::spawn(async move {
            // An end without an error that nobody asked for is told by the watch itself.
            if let Err(error) = server.await {
                watch.fail(error.into());
            }
        });
        let running = Running {
            supervisor,
            collector,
            prometheus,
            file,
            server: handle,
            analyzer: None,
            stacks,
        };
        Ok((running, failures))
    }
}

/// Resolves when the process is asked to end.
fn signals() -> anyhow::Result<impl Future<Output = String>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "netto received SIGTERM".to_owned(),
            _ = interrupt.recv() => "netto received SIGINT".to_owned(),
        }
    })
}

/// The actors of a running daemon.
struct Running {
    supervisor: Supervisor,
    collector: Addr<MetricsCollector>,
    prometheus: Addr<PrometheusLogger>,
    file: Option<(Arbiter, Addr<FileLogger>)>,
    server: actix_web::dev::ServerHandle,
    analyzer: Option<(Arbiter, Addr<TraceAnalyzer>)>,
    /// Tells the server where the analyzer is: it starts last.
    stacks: Arc<OnceLock<Addr<TraceAnalyzer>>>,
}

impl Running {
    /// Ends every part in the order of the data, waiting for none of them too long.
    ///
    /// Parts that are gone already make no difference here: their watch has told.
    ///
    /// # Errors
    /// If the log file could not be finished in time.
    async fn end(self, reason: String) -> anyhow::Result<()> {
        self.supervisor.begin_end();
        if let Some((arbiter, analyzer)) = self.analyzer {
            let _ = timeout(FAREWELL, analyzer.send(trace_analyzer::Finish)).await;
            join(arbiter).await;
        }
        let _ = timeout(FAREWELL, self.collector.send(Farewell(reason.clone()))).await;
        let mut finished = Ok(());
        if let Some((arbiter, logger)) = self.file {
            if timeout(FAREWELL, logger.send(Farewell(reason)))
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
        let _ = timeout(FAREWELL, self.prometheus.send(prometheus_logger::Finish)).await;
        if timeout(FAREWELL, self.server.stop(true)).await.is_err() {
            self.server.stop(false).await;
        }
        finished
    }
}

/// Ends a thread, unless it is stuck.
async fn join(arbiter: Arbiter) {
    arbiter.stop();
    let (joined, done) = tokio::sync::oneshot::channel();
    // Not a blocking task of the runtime: that one would be waited for without end.
    let join = move || joined.send(arbiter.join().is_ok());
    if std::thread::Builder::new().spawn(join).is_ok() {
        let _ = timeout(FAREWELL, done).await;
    }
}
