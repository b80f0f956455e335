//! Responses that several routes share, and the methods of a path.

use std::sync::Arc;

use actix_web::http::{StatusCode, header};
use actix_web::web::{self, Data};
use actix_web::{
    FromRequest, Handler, HttpResponse, HttpResponseBuilder, Resource, Responder, guard,
};
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
        .default_service(web::to(|| async {
            method_not_allowed("netto can only be read: use GET", "GET, HEAD")
        }))
}

/// The begin of a response that is not to be kept.
pub(super) fn fresh(status: StatusCode, content_type: &str) -> HttpResponseBuilder {
    let mut response = HttpResponse::build(status);
    response
        .content_type(content_type)
        .insert_header((header::CACHE_CONTROL, "no-store"));
    response
}

/// The begin of a response that browsers keep as a file.
pub(super) fn attachment(content_type: &str, disposition: &'static str) -> HttpResponseBuilder {
    let mut response = fresh(StatusCode::OK, content_type);
    response.insert_header((header::CONTENT_DISPOSITION, disposition));
    response
}

/// A plain response of one line.
pub(super) fn text(status: StatusCode, message: impl std::fmt::Display) -> HttpResponse {
    fresh(status, "text/plain; charset=utf-8").body(format!("{message}\n"))
}

/// The same, with a header.
fn text_with(
    status: StatusCode,
    message: impl std::fmt::Display,
    (name, value): (header::HeaderName, &'static str),
) -> HttpResponse {
    let mut response = text(status, message);
    let value = header::HeaderValue::from_static(value);
    response.headers_mut().insert(name, value);
    response
}

/// The response to a method that a resource does not have.
pub(super) fn method_not_allowed(message: &str, allowed: &'static str) -> HttpResponse {
    text_with(
        StatusCode::METHOD_NOT_ALLOWED,
        message,
        (header::ALLOW, allowed),
    )
}

/// There is no room for this answer.
pub(super) fn full() -> HttpResponse {
    later("too many long answers are being read; try again in some seconds")
}

/// The same may be had later.
pub(super) fn later(reason: impl std::fmt::Display) -> HttpResponse {
    text_with(
        StatusCode::SERVICE_UNAVAILABLE,
        reason,
        (header::RETRY_AFTER, "5"),
    )
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
