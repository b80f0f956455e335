//! Responses that several routes share, and the methods of a path.

use std::sync::Arc;

use actix_web::http::{StatusCode, header};
use actix_web::web::{self, Data};
use actix_web::{FromRequest, Handler, HttpResponse, Resource, Responder, guard};
use metrics_common::Info;

use super::State;

/// A resource that only can be read.
pub(super) fn resource<F, Args>(path: &str, handler: F) -> Resource
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

/// A plain response of one line.
pub(super) fn text(status: StatusCode, message: impl std::fmt::Display) -> HttpResponse {
    HttpResponse::build(status)
        .content_type("text/plain; charset=utf-8")
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .body(format!("{message}\n"))
}

/// There is no room for this answer.
pub(super) fn full() -> HttpResponse {
    later("too many long answers are being read; try again in some seconds")
}

pub(super) fn later(reason: impl std::fmt::Display) -> HttpResponse {
    let mut response = text(StatusCode::SERVICE_UNAVAILABLE, reason);
    let seconds = header::HeaderValue::from_static("5");
    response.headers_mut().insert(header::RETRY_AFTER, seconds);
    response
}

pub(super) async fn not_found(state: Data<State>) -> HttpResponse {
    let asked = state.asked.iter().map(|asked| asked.question.name);
    let asked: String = asked.map(|name| format!("/api/v1/{name}, ")).collect();
    text(
        StatusCode::NOT_FOUND,
        format!(
            "no such page; there are /, /metrics, /api/v1/info, /api/v1/snapshot, \
             /api/v1/flamegraph, {asked}/api/v1/dump, /healthz, /readyz and /ws"
        ),
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

/// All places of those who go on listening are taken.
pub(super) fn no_dashboard(state: &State) -> HttpResponse {
    text(
        StatusCode::SERVICE_UNAVAILABLE,
        format!(
            "all {} dashboards are taken; close one, or start netto with a larger --max-clients",
            state.wiring.max_clients
        ),
    )
}

pub(super) fn not_ready() -> HttpResponse {
    text(
        StatusCode::SERVICE_UNAVAILABLE,
        "not ready: no interval has been measured yet",
    )
}

/// The description of the newest snapshot.
pub(super) fn newest_info(state: &State) -> Arc<Info> {
    match state.wiring.kept.latest.get() {
        Some(latest) => latest.info.clone(),
        None => state.wiring.info.clone(),
    }
}
