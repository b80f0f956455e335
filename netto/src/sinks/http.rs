//! The HTTP server: which path gives what, and who may ask.
//!
//! It owns the routes and the checks that requests pass; who may connect at all,
//! and how much each connection takes, is the door's business. It measures
//! nothing and keeps nothing: what it shows is made once and handed to all who ask
//! (`answers`), and WebSockets become actors of their own. No request is a message
//! to an actor that snapshots pass through.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use actix::Addr;
use actix_http::error::DispatchError;
use actix_http::{HttpService, Protocol};
use actix_server::Server;
use actix_service::{IntoServiceFactory, ServiceFactoryExt, fn_service, map_config};
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{AppConfig, ServiceRequest, ServiceResponse};
use actix_web::http::{StatusCode, header};
use actix_web::middleware::{Next, from_fn};
use actix_web::web::{self, Data};
use actix_web::{App, FromRequest, Handler, HttpRequest, HttpResponse, Resource};
use actix_web::{Responder, guard};
use anyhow::Context;
use metrics_common::Info;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::answers::Answers;
use super::assets;
use super::auth::Verdict;
use super::door::{
    self, Guarded, Io, Leftovers, Limits, Malformed, Places, RequestBody, Turn, Turnstile, Visitor,
};
use super::frames;
use super::hosts::HostPolicy;
use super::prometheus_logger::Metrics;
use super::web_config::WebConfig;
use super::websocket_client::{Patience, Surroundings, WebSocketClient};
use crate::actors::metrics_collector::{Latest, MetricsCollector, SinkDrops};
use crate::actors::supervisor::{Part, Supervisor};
use crate::actors::trace_analyzer::StackSource;

/// How long a client may take to send a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection is kept when nothing is asked.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// How long a client may take to agree on TLS.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);

/// The page runs WebAssembly, sets styles on SVG, and talks to its own host.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; \
    script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data:; connect-src 'self' ws: wss:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What the server needs to answer.
pub struct Wiring {
    /// What this daemon was when it started; snapshots bring newer descriptions.
    pub info: Arc<Info>,
    /// Where dashboards subscribe to snapshots.
    pub collector: Addr<MetricsCollector>,
    /// Where the latest snapshot is.
    pub latest: Latest,
    /// Where stacks are.
    pub stacks: Arc<dyn StackSource>,
    /// Where metrics are.
    pub metrics: Metrics,
    /// Where skipped snapshots are counted.
    pub drops: Arc<SinkDrops>,
    /// Where clients are counted that do not behave.
    pub clients: Arc<ClientCounts>,
    /// Under which names the server may be addressed.
    pub hosts: HostPolicy,
    /// How many WebSockets may be open at once.
    pub max_clients: usize,
    /// How long to wait for a slow one.
    pub patience: Patience,
    /// Where a panic is reported.
    pub supervisor: Supervisor,
}

struct State {
    wiring: Wiring,
    web: WebConfig,
    answers: Answers,
}

/// What the server counts of its clients.
#[derive(Debug, Default)]
pub struct ClientCounts {
    /// Requests that were no HTTP.
    pub malformed: Malformed,
    /// Connections that were closed or refused because others needed the place.
    pub given_away: Arc<AtomicU64>,
}

/// Starts to serve; the result resolves when the server has ended.
///
/// # Errors
/// If the socket cannot be used.
pub fn start(listener: TcpListener, mut web: WebConfig, wiring: Wiring) -> anyhow::Result<Server> {
    let tls = web.tls.take().map(|mut tls| {
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        TlsAcceptor::from(Arc::new(tls))
    });
    let limits = Limits {
        strangers: door::STRANGERS,
        guests: door::GUESTS,
        dashboards: wiring.max_clients,
    };
    let clients = wiring.clients.clone();
    let state = Data::new(State {
        answers: Answers::new(wiring.stacks.clone()),
        wiring,
        web,
    });
    let builder = Server::build()
        // One thread is plenty for what a daemon about this host is asked.
        .workers(1)
        // A password's check, and answers of each kind one at a time.
        .worker_max_blocking_threads(4)
        .max_concurrent_connections(connections(limits.dashboards))
        .shutdown_timeout(1)
        .disable_signals();
    let shutdown = builder.graceful_shutdown_signal();
    let builder = builder.listen("http", listener, move || {
        let state = state.clone();
        let app = App::new()
            .app_data(state)
            .wrap(from_fn(admit))
            .configure(routes)
            .into_factory()
            .map_err(|error: actix_web::Error| error.error_response());
        let leftovers = Rc::new(Leftovers::default());
        let when_left = move || leftovers.clean_up_later();
        let places = Places::new(limits, clients.given_away.clone(), when_left);
        let (tls, shutdown) = (tls.clone(), shutdown.clone());
        let counts = (clients.clone(), clients.clone());
        let http = HttpService::build()
            .keep_alive(KEEP_ALIVE)
            .client_request_timeout(HEAD_TIMEOUT)
            .client_disconnect_timeout(Duration::from_secs(1))
            .h1_write_buffer_size(door::SLICE_BYTES)
            .graceful_shutdown_signal(move || {
                let shutdown = shutdown.clone();
                async move { shutdown.notified().await }
            })
            .on_connect_ext(|stream: &Turnstile, data| {
                data.insert(stream.place().visitor());
            })
            .finish(map_config(app, |()| AppConfig::default()))
            .map_err(move |error| {
                if let DispatchError::Parse(reason) = error {
                    counts.0.malformed.count(reason);
                }
            });
        fn_service(move |stream| let_in(stream, places.clone(), tls.clone(), counts.1.clone()))
            .and_then(http)
    });
    Ok(builder.context("cannot serve on the socket")?.run())
}

/// Most connections at a time, with so many dashboards.
pub fn connections(dashboards: usize) -> usize {
    door::STRANGERS + door::GUESTS + door::CLOSING + dashboards
}

/// Gives a new connection a place, and agrees on TLS.
async fn let_in(
    stream: TcpStream,
    places: Rc<Places>,
    tls: Option<TlsAcceptor>,
    counts: Arc<ClientCounts>,
) -> Result<(Turnstile, Protocol, Option<SocketAddr>), ()> {
    let peer = stream.peer_addr().ok();
    let address = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip());
    let place = places.admit(address).ok_or(())?;
    let io: Box<dyn Io> = match tls {
        None => Box::new(stream),
        Some(tls) => {
            let handshake = timeout(HANDSHAKE_TIMEOUT, tls.accept(stream));
            match place.unless_sent_away(handshake).await {
                Some(Ok(Ok(stream))) => Box::new(stream),
                Some(Ok(Err(error))) => {
                    counts.malformed.count(error);
                    return Err(());
                }
                Some(Err(_)) | None => return Err(()),
            }
        }
    };
    Ok((Turnstile::new(io, place), Protocol::Http1, peer))
}

fn routes(config: &mut web::ServiceConfig) {
    config
        .service(resource("/metrics", metrics))
        .service(resource("/healthz", healthz))
        .service(resource("/readyz", readyz))
        .service(resource("/api/v1/info", info).wrap(from_fn(from_own_page)))
        .service(resource("/api/v1/snapshot", snapshot).wrap(from_fn(from_own_page)))
        .service(resource("/api/v1/flamegraph", flame_graph).wrap(from_fn(from_own_page)))
        .service(resource("/ws", websocket).wrap(from_fn(from_own_page)))
        .service(resource("/", index))
        .default_service(web::to(not_found));
    for asset in assets::ASSETS {
        config.service(resource(
            asset.path,
            move |request: HttpRequest| async move { assets::respond(asset, &request) },
        ));
    }
}

/// A path that can be read, and nothing else.
fn resource<F, Args>(path: &str, handler: F) -> Resource
where
    F: Handler<Args>,
    Args: FromRequest + 'static,
    F::Output: Responder + 'static,
{
    let readable = guard::Any(guard::Get()).or(guard::Head());
    web::resource(path)
        .route(web::route().guard(readable).to(handler))
        .default_service(web::to(method_not_allowed))
}

fn text(status: StatusCode, message: impl std::fmt::Display) -> HttpResponse {
    HttpResponse::build(status)
        .content_type("text/plain; charset=utf-8")
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .body(format!("{message}\n"))
}

/// Every request passes here: is it meant for this host, and may it be asked?
async fn admit(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let state = request
        .app_data::<Data<State>>()
        .cloned()
        .ok_or_else(|| actix_web::error::ErrorInternalServerError("no state"))?;
    let visitor = request.conn_data::<Visitor>().cloned();
    let turn = visitor
        .as_ref()
        .map(|visitor| Turn::new(visitor.seat().clone(), announced_body(request.headers())));
    let mut response = match refusal(&state, request.request()).await {
        Some(response) => request.into_response(response),
        None => next.call(request).await?.map_into_boxed_body(),
    };
    if let Some(visitor) = visitor
        && !response.status().is_client_error()
        && !response.status().is_server_error()
    {
        visitor.is_welcome();
    }
    let headers = response.headers_mut();
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        header::HeaderValue::from_static("nosniff"),
    );
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        header::HeaderValue::from_static(CONTENT_SECURITY_POLICY),
    );
    for (name, value) in &state.web.headers {
        headers.insert(name.clone(), value.clone());
    }
    Ok(response.map_body(|_, body| BoxBody::new(Guarded::new(body, turn))))
}

/// What a request says will follow its head.
fn announced_body(headers: &header::HeaderMap) -> RequestBody {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        RequestBody::Chunked
    } else if headers.contains_key(header::UPGRADE)
        || headers
            .get(header::CONTENT_LENGTH)
            .is_some_and(|length| length != "0")
    {
        RequestBody::Announced
    } else {
        RequestBody::None
    }
}

/// Requests to the API and WebSockets pass here: were they made by a page of this host?
///
/// It stands on the resources, so that no spelling of a path leads around it.
async fn from_own_page(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let accepted = match (
        request.headers().get(header::ORIGIN),
        request.app_data::<Data<State>>(),
    ) {
        (None, _) => true,
        (Some(origin), Some(state)) => state
            .wiring
            .hosts
            .accepts_origin(origin.to_str().unwrap_or_default(), host(request.headers())),
        (Some(_), None) => false,
    };
    if accepted {
        return Ok(next.call(request).await?.map_into_boxed_body());
    }
    Ok(request.into_response(text(
        StatusCode::FORBIDDEN,
        "pages of other sites may not read netto; to allow one, start netto with --allowed-host NAME",
    )))
}

/// Under which name this host was addressed.
fn host(headers: &header::HeaderMap) -> &str {
    match headers.get(header::HOST) {
        Some(value) => value.to_str().unwrap_or_default(),
        // Only HTTP/1.0 may leave it out, and no browser speaks that.
        None => "localhost",
    }
}

/// The answer to a request that is not let through; `None` if it may pass.
async fn refusal(state: &State, request: &HttpRequest) -> Option<HttpResponse> {
    if !state.wiring.hosts.accepts_host(host(request.headers())) {
        return Some(text(
            StatusCode::MISDIRECTED_REQUEST,
            "netto is not known by this host name; use its address, or start it with --allowed-host NAME",
        ));
    }
    let verdict = match &state.web.auth {
        Some(auth) => {
            let from = request.peer_addr().map(|peer| peer.ip());
            auth.check(request.headers().get(header::AUTHORIZATION), from)
                .await
        }
        None => Verdict::Accepted,
    };
    match verdict {
        Verdict::Accepted => None,
        Verdict::Refused => {
            let mut response = text(StatusCode::UNAUTHORIZED, "user name and password, please");
            response.headers_mut().insert(
                header::WWW_AUTHENTICATE,
                header::HeaderValue::from_static("Basic realm=\"netto\", charset=\"UTF-8\""),
            );
            Some(response)
        }
        Verdict::Busy => Some(text(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many passwords to check at once; try again later",
        )),
    }
}

async fn not_found() -> HttpResponse {
    text(
        StatusCode::NOT_FOUND,
        "no such page; there are /, /metrics, /api/v1/info, /api/v1/snapshot, /api/v1/flamegraph, /healthz, /readyz and /ws",
    )
}

async fn method_not_allowed() -> HttpResponse {
    let mut response = text(
        StatusCode::METHOD_NOT_ALLOWED,
        "netto can only be read: use GET",
    );
    response
        .headers_mut()
        .insert(header::ALLOW, header::HeaderValue::from_static("GET, HEAD"));
    response
}

async fn index(request: HttpRequest) -> HttpResponse {
    match assets::find("/index.html") {
        Some(page) => assets::respond(page, &request),
        None => text(
            StatusCode::NOT_FOUND,
            "this netto was built without its dashboard; its data is at /metrics and /api/v1/snapshot",
        ),
    }
}

async fn healthz() -> HttpResponse {
    text(StatusCode::OK, "alive")
}

fn not_ready() -> HttpResponse {
    text(
        StatusCode::SERVICE_UNAVAILABLE,
        "not ready: no interval has been measured yet",
    )
}

async fn readyz(state: Data<State>) -> HttpResponse {
    match state.wiring.latest.get() {
        Some(_) => text(StatusCode::OK, "ready"),
        None => not_ready(),
    }
}

/// What the newest snapshot's rows mean.
fn newest_info(state: &State) -> Arc<Info> {
    match state.wiring.latest.get() {
        Some(latest) => latest.info.clone(),
        None => state.wiring.info.clone(),
    }
}

/// A page that holds now and should not be kept, or why there is none.
fn page(made: Result<web::Bytes, String>, content_type: &str) -> HttpResponse {
    match made {
        Ok(bytes) => HttpResponse::Ok()
            .content_type(content_type)
            .insert_header((header::CACHE_CONTROL, "no-store"))
            .body(bytes),
        Err(reason) => text(StatusCode::INTERNAL_SERVER_ERROR, reason),
    }
}

async fn info(state: Data<State>) -> HttpResponse {
    let made = state.answers.info(newest_info(&state)).await;
    page(made, "application/json")
}

async fn snapshot(state: Data<State>) -> HttpResponse {
    match state.wiring.latest.get() {
        Some(latest) => page(state.answers.snapshot(latest).await, "application/json"),
        None => not_ready(),
    }
}

/// Folded stacks, as flame graph tools read them; what they stand for is in the headers.
async fn flame_graph(state: Data<State>) -> HttpResponse {
    match state.answers.flame_graph().await {
        Ok(graph) => HttpResponse::Ok()
            .content_type("text/plain; charset=utf-8")
            .insert_header((header::CACHE_CONTROL, "no-store"))
            .insert_header((
                "x-netto-window-seconds",
                format!("{:.1}", graph.window_ns as f64 / 1e9),
            ))
            .insert_header(("x-netto-samples", graph.samples))
            .insert_header(("x-netto-samples-left-out", graph.left_out))
            .body(graph.text),
        Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, reason),
    }
}

async fn metrics(state: Data<State>) -> HttpResponse {
    let made = state.wiring.metrics.page().await;
    page(made, "text/plain; version=0.0.4; charset=utf-8")
}

async fn websocket(
    request: HttpRequest,
    payload: web::Payload,
    state: Data<State>,
) -> Result<HttpResponse, actix_web::Error> {
    // Asked first, so that a mistake costs nobody's place.
    actix_http::ws::handshake(request.head())?;
    let visitor = request.conn_data::<Visitor>();
    let Some(place) = visitor.and_then(Visitor::open_dashboard) else {
        return Ok(text(
            StatusCode::SERVICE_UNAVAILABLE,
            format!(
                "all {} dashboards are taken; close one, or start netto with a larger --max-clients",
                state.wiring.max_clients
            ),
        ));
    };
    let payload = frames::checked(&request, payload).await?;
    let (response, session, messages) = actix_ws::handle(&request, payload)?;
    if let Some(visitor) = visitor {
        visitor.seat().open_gate();
    }
    let wiring = &state.wiring;
    WebSocketClient::launch(
        session,
        messages.max_frame_size(frames::MAX_DATA_BYTES),
        Surroundings {
            collector: wiring.collector.clone(),
            info: newest_info(&state),
            wants_past: request
                .query_string()
                .split('&')
                .any(|option| option == "history"),
            drops: wiring.drops.clone(),
            patience: wiring.patience,
            place,
            watch: wiring.supervisor.watch(Part::WebSocketClient),
        },
    );
    Ok(response)
}
