//! The routes: which path has which response.
//!
//! Responses are computed once for all clients (`answers`), and WebSockets become actors of their
//! own.

use actix_web::http::{StatusCode, header};
use actix_web::middleware::from_fn;
use actix_web::web::{self, Data};
use actix_web::{HttpRequest, HttpResponse};

use super::State;
use super::access::from_own_page;
use super::past;
use super::profile::profile;
use super::responses::{fresh, newest_info, no_dashboard, not_found, not_ready, resource, text};
use crate::admission::Visitor;
use crate::assets;
use crate::gzip::Gzipped;
use crate::websocket_client::{Surroundings, WebSocketClient};
use crate::{frames, gzip};
use netto_metrics::prometheus::Form;
use netto_pipeline::supervisor::Part;

/// Registers every path.
pub(super) fn routes(config: &mut web::ServiceConfig, state: &State) {
    config
        .service(resource("/metrics", metrics))
        .service(resource("/healthz", healthz))
        .service(resource("/readyz", readyz))
        .service(resource("/api/v1/info", info).wrap(from_fn(from_own_page)))
        .service(resource("/api/v1/snapshot", snapshot).wrap(from_fn(from_own_page)))
        .service(resource("/api/v1/flamegraph", flame_graph).wrap(from_fn(from_own_page)))
        .service(resource("/debug/pprof/profile", profile).wrap(from_fn(from_own_page)))
        .service(resource("/api/v1/dump", past::dump).wrap(from_fn(from_own_page)))
        .service(resource("/ws", websocket).wrap(from_fn(from_own_page)))
        .service(resource("/", index))
        .default_service(web::to(not_found));
    for (index, asked) in state.asked.iter().enumerate() {
        let path = format!("/api/v1/{}", asked.question.name);
        let answer = move |request, visitor, state| past::answer(index, request, visitor, state);
        config.service(resource(&path, answer).wrap(from_fn(from_own_page)));
    }
    for asset in netto_assets::ASSETS {
        config.service(resource(
            asset.path,
            move |request: HttpRequest| async move { assets::respond(asset, &request) },
        ));
    }
}

async fn index(request: HttpRequest) -> HttpResponse {
    match netto_assets::find("/index.html") {
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

async fn readyz(state: Data<State>) -> HttpResponse {
    match state.wiring.kept.latest.get() {
        Some(_) => text(StatusCode::OK, "ready"),
        None => not_ready(),
    }
}

/// A page of the current state that should not be cached, compressed if the client accepts it, or
/// the reason for its absence.
async fn page(
    made: Result<web::Bytes, String>,
    content_type: &str,
    request: &HttpRequest,
    gzipped: &Gzipped,
) -> HttpResponse {
    let takes_gzip = gzip::accepts(request.headers(), "gzip");
    let body = match made {
        Ok(plain) if takes_gzip => gzipped.of(plain).await,
        made => made,
    };
    let body = match body {
        Ok(body) => body,
        Err(reason) => return text(StatusCode::INTERNAL_SERVER_ERROR, reason),
    };
    let mut response = fresh(StatusCode::OK, content_type);
    response.insert_header((header::VARY, "Accept-Encoding, Accept"));
    if takes_gzip {
        response.insert_header((header::CONTENT_ENCODING, "gzip"));
    }
    response.body(body)
}

async fn info(request: HttpRequest, state: Data<State>) -> HttpResponse {
    let made = state.answers.info(newest_info(&state)).await;
    page(made, "application/json", &request, &state.gzipped.info).await
}

async fn snapshot(request: HttpRequest, state: Data<State>) -> HttpResponse {
    let Some(latest) = state.wiring.kept.latest.get() else {
        return not_ready();
    };
    let made = state.answers.snapshot(latest).await;
    page(made, "application/json", &request, &state.gzipped.snapshot).await
}

/// Folded stacks for flame graph tools, with the covered time in headers.
async fn flame_graph(state: Data<State>) -> HttpResponse {
    match state.answers.flame_graph().await {
        Ok(graph) => fresh(StatusCode::OK, "text/plain; charset=utf-8")
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

/// The format of metrics that the client prefers.
pub(super) fn preferred_form(request: &HttpRequest) -> Form {
    let accept = request.headers().get_all(header::ACCEPT);
    let accept: Vec<&str> = accept.filter_map(|value| value.to_str().ok()).collect();
    Form::preferred(&accept.join(","))
}

async fn metrics(request: HttpRequest, state: Data<State>) -> HttpResponse {
    let form = preferred_form(&request);
    let gzipped = &state.gzipped.metrics[form as usize];
    let content_type = form.content_type();
    let made = state.wiring.metrics.page(form).await;
    page(made, content_type, &request, gzipped).await
}

async fn websocket(
    request: HttpRequest,
    payload: web::Payload,
    visitor: Visitor,
    state: Data<State>,
) -> Result<HttpResponse, actix_web::Error> {
    // Checked first, so that a bad request costs no slot.
    actix_http::ws::handshake(request.head())?;
    let Some(slot) = visitor.open_dashboard() else {
        return Ok(no_dashboard(&state));
    };
    let payload = frames::checked(&request, payload).await?;
    let (response, session, messages) = actix_ws::handle(&request, payload)?;
    visitor.connection().open_gate();
    let wiring = &state.wiring;
    let wants = |wanted: &str| {
        form_urlencoded::parse(request.query_string().as_bytes())
            .any(|(option, _)| option == wanted)
    };
    WebSocketClient::launch(
        session,
        messages.max_frame_size(frames::MAX_DATA_BYTES),
        Surroundings {
            collector: wiring.collector.clone(),
            info: newest_info(&state),
            wants_past: wants("history"),
            wants_compact: wants("compact"),
            drops: wiring.drops.clone(),
            patience: wiring.patience,
            slot,
            watch: wiring.supervisor.watch(Part::WebSocketClient),
        },
    );
    Ok(response)
}
