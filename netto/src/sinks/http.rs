//! The HTTP server: which path gives what, and who may ask.
//!
//! It owns the routes and the checks that every request passes. It measures
//! nothing and keeps nothing: what it shows is made once and handed to all who ask
//! (`answers`), and WebSockets become actors of their own. No request is a message
//! to an actor that snapshots pass through.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{Server, ServiceRequest, ServiceResponse};
use actix_web::http::{StatusCode, header};
use actix_web::middleware::{Next, from_fn};
use actix_web::web::{self, Data};
use actix_web::{App, FromRequest, Handler, HttpRequest, HttpResponse, HttpServer, Resource};
use actix_web::{Responder, guard};
use anyhow::Context;
use metrics_common::Info;
use tokio::sync::Semaphore;

use super::answers::Answers;
use super::assets;
use super::auth::Verdict;
use super::hosts::HostPolicy;
use super::prometheus_logger::Metrics;
use super::web_config::WebConfig;
use super::websocket_client::{MAX_FRAME_BYTES, Patience, Surroundings, WebSocketClient};
use crate::actors::metrics_collector::{Latest, MetricsCollector, SinkDrops};
use crate::actors::supervisor::{Part, Supervisor};
use crate::actors::trace_analyzer::StackSource;

/// Connections for everything but WebSockets.
const OTHER_CONNECTIONS: usize = 64;

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
    places: Arc<Semaphore>,
    answers: Answers,
}

/// Starts to serve; the result resolves when the server has ended.
///
/// # Errors
/// If the socket cannot be used.
pub fn start(listener: TcpListener, mut web: WebConfig, wiring: Wiring) -> anyhow::Result<Server> {
    let tls = web.tls.take();
    let max_clients = wiring.max_clients;
    let state = Data::new(State {
        places: Arc::new(Semaphore::new(max_clients)),
        answers: Answers::new(wiring.stacks.clone()),
        wiring,
        web,
    });
    let server = HttpServer::new(move || {
        App::new()
            .app_data(state.clone())
            .wrap(from_fn(admit))
            .configure(routes)
    })
    // One thread is plenty for what a daemon about this host is asked.
    .workers(1)
    // A password's check, and answers of each kind one at a time.
    .worker_max_blocking_threads(4)
    .max_connections(max_clients + OTHER_CONNECTIONS)
    .client_request_timeout(Duration::from_secs(5))
    .client_disconnect_timeout(Duration::from_secs(1))
    .shutdown_timeout(1)
    .disable_signals();
    let server = match tls {
        Some(tls) => server.listen_rustls_0_23(listener, tls),
        None => server.listen(listener),
    };
    Ok(server.context("cannot serve on the socket")?.run())
}

fn routes(config: &mut web::ServiceConfig) {
    config
        .service(resource("/metrics", metrics))
        .service(resource("/healthz", healthz))
        .service(resource("/readyz", readyz))
        .service(resource("/api/v1/info", info))
        .service(resource("/api/v1/snapshot", snapshot))
        .service(resource("/api/v1/flamegraph", flame_graph))
        .service(resource("/ws", websocket))
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
    let mut response = match refusal(&state, request.request()).await {
        Some(response) => request.into_response(response),
        None => next.call(request).await?.map_into_boxed_body(),
    };
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
    Ok(response)
}

/// The answer to a request that is not let through; `None` if it may pass.
async fn refusal(state: &State, request: &HttpRequest) -> Option<HttpResponse> {
    let header = |name| request.headers().get(name);
    let hosts = &state.wiring.hosts;
    let host = match header(header::HOST) {
        Some(value) => value.to_str().unwrap_or_default(),
        // Only HTTP/1.0 may leave it out, and no browser speaks that.
        None => "localhost",
    };
    if !hosts.accepts_host(host) {
        return Some(text(
            StatusCode::MISDIRECTED_REQUEST,
            "netto is not known by this host name; use its address, or start it with --allowed-host NAME",
        ));
    }
    let path = request.path();
    if let Some(origin) = header(header::ORIGIN)
        && (path == "/ws" || path.starts_with("/api/"))
        && !hosts.accepts_origin(origin.to_str().unwrap_or_default(), host)
    {
        return Some(text(
            StatusCode::FORBIDDEN,
            "pages of other sites may not read netto; to allow one, start netto with --allowed-host NAME",
        ));
    }
    let verdict = match &state.web.auth {
        Some(auth) => {
            let from = request.peer_addr().map(|peer| peer.ip());
            auth.check(header(header::AUTHORIZATION), from).await
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
    let Ok(permit) = state.places.clone().try_acquire_owned() else {
        return Ok(text(
            StatusCode::SERVICE_UNAVAILABLE,
            format!(
                "all {} dashboards are taken; close one, or start netto with a larger --max-clients",
                state.wiring.max_clients
            ),
        ));
    };
    let (response, session, messages) = actix_ws::handle(&request, payload)?;
    let wiring = &state.wiring;
    WebSocketClient::launch(
        session,
        messages.max_frame_size(MAX_FRAME_BYTES),
        Surroundings {
            collector: wiring.collector.clone(),
            info: newest_info(&state),
            wants_past: request
                .query_string()
                .split('&')
                .any(|option| option == "history"),
            drops: wiring.drops.clone(),
            patience: wiring.patience,
            permit,
            watch: wiring.supervisor.watch(Part::WebSocketClient),
        },
    );
    Ok(response)
}
