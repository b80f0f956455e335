//! The HTTP server: from a socket to its request handlers.
//!
//! It turns connections into requests: TLS, timeouts, one place each. `admission` decides which
//! connections are accepted and how much each takes, `access` which requests are allowed, `routes`
//! how they are answered. The server measures nothing and stores nothing. No request is a message
//! to an actor on the path of snapshots.

use std::future::ready;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use actix_http::error::DispatchError;
use actix_http::{HttpService, Protocol};
use actix_server::{GracefulShutdownSignal, Server};
use actix_service::{
    IntoServiceFactory, Service, ServiceFactory, ServiceFactoryExt, fn_factory, fn_service,
    map_config,
};
use actix_web::App;
use actix_web::dev::AppConfig;
use actix_web::middleware::from_fn;
use actix_web::web::Data;
use anyhow::Context;
use metrics_common::Info;
use socket2::SockRef;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::admission::{self, Accounts, Io, Leftovers, Limits, Peer, RequestGate};
use super::answers::Answers;
use super::api::FeatureApi;
use super::gzip::Gzipped;
use super::hosts::HostPolicy;
use super::limited_question::LimitedQuestion;
use super::live_web_config::LiveWebConfig;
use super::websocket_client::Patience;
use super::while_used::WhileUsed;
use netto_metrics::prometheus::{Metrics, Targets};
use netto_pipeline::clients::ClientCounts;
use netto_pipeline::metrics_collector::{CollectorData, MetricsCollector, SinkDrops};
use netto_pipeline::playback::Controls;
use netto_pipeline::supervisor::Supervisor;
use netto_pipeline::trace_analyzer::StackSource;
use netto_questions::api::Question;
use netto_questions::history::HISTORY;
use netto_sys::listener::Listener;
use netto_sys::peer::user_of;
use netto_sys::privileges;

mod access;
mod follow;
mod past;
mod playback;
mod profile;
mod responses;
mod routes;
mod targets;

/// Timeout for receiving a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an idle connection is kept.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Timeout for the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);

/// The data and actors behind the server.
pub struct Wiring {
    /// The description at the daemon's start; snapshots bring newer ones.
    pub info: Arc<Info>,
    /// Where dashboards subscribe to snapshots.
    pub collector: Addr<MetricsCollector>,
    /// The latest snapshot and the history.
    pub kept: CollectorData,
    /// The source of stacks.
    pub stacks: Arc<dyn StackSource>,
    /// The source of metrics.
    pub metrics: Metrics,
    /// Counter of skipped snapshots.
    pub drops: Arc<SinkDrops>,
    /// Counters of misbehaving clients.
    pub clients: Arc<ClientCounts>,
    /// The names under which the server may be addressed.
    pub hosts: HostPolicy,
    /// Most open WebSockets.
    pub max_clients: usize,
    /// Timeouts for slow clients.
    pub patience: Patience,
    /// Reports panics.
    pub supervisor: Supervisor,
    /// How features show their sections.
    pub features: Arc<[FeatureApi]>,
    /// The playback state, if a recording is played.
    pub replay: Option<Controls>,
    /// Further hosts to scrape here.
    pub targets: Option<Arc<dyn Targets>>,
}

/// State shared by the handlers.
struct State {
    wiring: Wiring,
    web: LiveWebConfig,
    answers: Answers,
    gzipped: GzippedPages,
    asked: Vec<LimitedQuestion>,
}

/// The newest of each page in compressed form.
#[derive(Default)]
struct GzippedPages {
    info: Gzipped,
    snapshot: Gzipped,
    /// By their form.
    metrics: [Gzipped; 3],
}

/// Starts the server; the result resolves when it has ended.
///
/// # Errors
/// If the socket cannot be used.
pub fn start(listener: Listener, web: LiveWebConfig, wiring: Wiring) -> anyhow::Result<Server> {
    let of_features = wiring.features.iter().flat_map(|(_, api)| api.questions);
    let questions = [&HISTORY, &Question::SPAN].into_iter().chain(of_features);
    let state = Data::new(State {
        answers: Answers::new(wiring.stacks.clone(), wiring.features.clone()),
        gzipped: GzippedPages::default(),
        asked: questions.map(LimitedQuestion::new).collect(),
        wiring,
        web,
    });
    let builder = Server::build()
        // One thread is enough for the requests of one host's daemon.
        .workers(1)
        // One for password checks, and one for each kind of response.
        .worker_max_blocking_threads(4)
        .max_concurrent_connections(
            connections(state.wiring.max_clients) + 2 * scraped(&state.wiring),
        )
        .shutdown_timeout(1)
        .disable_signals();
    let shutdown = builder.graceful_shutdown_signal();
    let builder = match listener {
        Listener::Tcp(listener) => builder.listen("http", listener, move || {
            let (state, shutdown) = (state.clone(), shutdown.clone());
            fn_factory(move || serve::<TcpStream>(state.clone(), shutdown.clone()))
        }),
        Listener::Unix(listener) => builder.listen_uds("http", listener, move || {
            let (state, shutdown) = (state.clone(), shutdown.clone());
            fn_factory(move || serve::<UnixStream>(state.clone(), shutdown.clone()))
        }),
    };
    Ok(builder.context("cannot serve on the socket")?.run())
}

/// The service of a thread: it serves one connection after another, until each has ended.
async fn serve<S: Accepted>(
    state: Data<State>,
    shutdown: GracefulShutdownSignal,
) -> Result<impl Service<S, Response = (), Error = ()>, ()> {
    tracing::info!("{}", privileges::confine());
    let wiring = &state.wiring;
    let clients = wiring.clients.clone();
    let longest_stall = wiring.patience.longest_stall();
    let scraped = scraped(wiring);
    let limits = Limits {
        unauthenticated: admission::UNAUTHENTICATED + scraped,
        active: admission::ACTIVE + scraped,
        dashboards: wiring.max_clients,
        bytes: admission::most_bytes(wiring.info.possible_cpus as usize),
    };
    let leftovers = Rc::new(Leftovers::default());
    let when_left = move || leftovers.clean_up_later();
    let accounts = Accounts::new(limits, clients.given_away.clone(), when_left);
    let app = App::new()
        .app_data(state.clone())
        .wrap(from_fn(access::admit))
        .configure(|config| {
            routes::routes(config, &state);
            if wiring.replay.is_some() {
                playback::routes(config);
            }
            if let Some(targets) = &wiring.targets {
                targets::routes(config, targets);
            }
        })
        .into_factory()
        .map_err(|error: actix_web::Error| error.error_response());
    let app = map_config(app, |()| AppConfig::default());
    let app = Rc::new(app.new_service(()).await?);
    // actix-http's service sets its date twice a second as long as it exists.
    let http = Rc::new(WhileUsed::new(move || {
        let (app, shutdown) = (app.clone(), shutdown.clone());
        HttpService::build()
            .keep_alive(KEEP_ALIVE)
            .client_request_timeout(HEAD_TIMEOUT)
            .client_disconnect_timeout(Duration::from_secs(1))
            .h1_write_buffer_size(admission::SLICE_BYTES)
            .graceful_shutdown_signal(move || {
                let shutdown = shutdown.clone();
                async move { shutdown.notified().await }
            })
            .on_connect_ext(|stream: &RequestGate, data| {
                data.insert(stream.slot().visitor());
            })
            .finish(fn_factory(move || ready(Ok::<_, ()>(app.clone()))))
            .new_service(())
    }));
    Ok(fn_service(move |stream: S| {
        let (accounts, tls) = (accounts.clone(), state.web.current().tls.clone());
        let (http, clients) = (http.clone(), clients.clone());
        async move {
            let connection = let_in(stream, accounts, tls, longest_stall, &clients).await?;
            let http = http.get().await?;
            let served = http.call(connection).await;
            if let Err(DispatchError::Parse(reason)) = served {
                clients.malformed.count(reason);
            }
            Ok(())
        }
    }))
}

/// Connections of a scraper, which keeps one for each target.
fn scraped(wiring: &Wiring) -> usize {
    let targets = wiring.targets.as_ref();
    targets.map_or(0, |targets| targets.names().len())
}

/// Most connections at a time, with this many dashboards.
pub fn connections(dashboards: usize) -> usize {
    admission::UNAUTHENTICATED + admission::ACTIVE + admission::CLOSING + dashboards
}

/// A connection as it was accepted.
trait Accepted: Io + AsFd + Sized + 'static {
    /// Whether it is encrypted, if so configured.
    const MAY_ENCRYPT: bool;

    /// Bounds what the kernel holds for it.
    fn bound_buffers(&self) -> std::io::Result<()> {
        let socket = SockRef::from(self);
        socket.set_recv_buffer_size(admission::SOCKET_BYTES)?;
        socket.set_send_buffer_size(admission::SOCKET_BYTES)
    }

    /// The address at the other end.
    fn address(&self) -> Option<SocketAddr>;

    /// The user at the other end of a connection within this host.
    fn user(&self) -> Option<u32>;
}

impl Accepted for TcpStream {
    const MAY_ENCRYPT: bool = true;

    fn address(&self) -> Option<SocketAddr> {
        self.peer_addr().ok()
    }

    fn user(&self) -> Option<u32> {
        let (peer, local) = (self.address()?, self.local_addr().ok()?);
        let [at_peer, here] = [peer, local].map(|end| end.ip().to_canonical());
        let is_within = at_peer == here || at_peer.is_loopback() || here.is_loopback();
        is_within.then(|| user_of(local, peer).ok())?
    }
}

impl Accepted for UnixStream {
    const MAY_ENCRYPT: bool = false;

    fn address(&self) -> Option<SocketAddr> {
        None
    }

    fn user(&self) -> Option<u32> {
        self.peer_cred().ok().map(|peer| peer.uid())
    }
}

/// Assigns a place to a new connection, and completes the TLS handshake.
async fn let_in<S: Accepted>(
    stream: S,
    accounts: Rc<Accounts>,
    tls: Option<TlsAcceptor>,
    longest_stall: Duration,
    counts: &ClientCounts,
) -> Result<(RequestGate, Protocol, Option<SocketAddr>), ()> {
    let peer = stream.address();
    let address = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip());
    let party = Peer::new(address, stream.user());
    let slot = accounts.admit(party).ok_or(())?;
    stream.bound_buffers().map_err(drop)?;
    let io: Box<dyn Io> = match tls.filter(|_| S::MAY_ENCRYPT) {
        None => Box::new(stream),
        Some(tls) => {
            let handshake = timeout(HANDSHAKE_TIMEOUT, tls.accept(stream));
            match slot.unless_evicted(handshake).await {
                Some(Ok(Ok(stream))) => Box::new(stream),
                Some(Ok(Err(error))) => {
                    counts.malformed.count(error);
                    return Err(());
                }
                Some(Err(_)) | None => return Err(()),
            }
        }
    };
    let gate = RequestGate::new(io, slot, longest_stall);
    Ok((gate, Protocol::Http1, peer))
}
