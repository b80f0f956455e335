//! The checks that every request passes: whether it is meant for this host, whether its user may
//! make it, and whether the page that made it belongs to this host.
//!
//! The subject of a request does not matter here.

use std::future::{Ready, ready};

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::{StatusCode, header};
use actix_web::middleware::Next;
use actix_web::web::Data;
use actix_web::{FromRequest, HttpRequest, HttpResponse};

use super::State;
use super::responses::{full, text};
use crate::admission::{Guarded, Held, RequestBody, RequestPermit, SLICE_BYTES, Visitor};
use crate::auth::Verdict;

/// The page runs WebAssembly, sets styles on SVG, and talks to its own host.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; \
    script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data:; connect-src 'self' ws: wss:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Checks every request: whether it is meant for this host, and whether its user may make it.
pub(super) async fn admit(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let state = request
        .app_data::<Data<State>>()
        .cloned()
        .ok_or_else(|| actix_web::error::ErrorInternalServerError("no state"))?;
    let visitor = Visitor::extract(request.request()).await?;
    let turn = RequestPermit::new(
        visitor.connection().clone(),
        announced_body(request.headers()),
    );
    state.wiring.kept.attention.ask();
    let response = match refusal(&state, request.request(), &visitor).await {
        Some(response) => request.into_response(response),
        None => next.call(request).await?.map_into_boxed_body(),
    };
    let (mut response, held) = held(response, &visitor);
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        visitor.mark_active();
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
    for (name, value) in &state.web.current().headers {
        headers.insert(name.clone(), value.clone());
    }
    Ok(response.map_body(|_, body| BoxBody::new(Guarded::new(body, held, turn))))
}

impl FromRequest for Visitor {
    type Error = actix_web::Error;
    type Future = Ready<Result<Visitor, actix_web::Error>>;

    /// The connection that a request came by.
    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let visitor = request.conn_data::<Visitor>().cloned();
        ready(visitor.ok_or_else(|| actix_web::error::ErrorInternalServerError("no connection")))
    }
}

/// The response with the bytes of its body held, or a refusal if there is no room for them. What is
/// made while it is read holds its bytes itself.
fn held(
    response: ServiceResponse<BoxBody>,
    visitor: &Visitor,
) -> (ServiceResponse<BoxBody>, Option<Held>) {
    let mut bytes = None;
    let response = response.map_body(|_, body| match body.try_into_bytes() {
        Ok(whole) => {
            bytes = Some(whole.clone());
            BoxBody::new(whole)
        }
        Err(body) => body,
    });
    match bytes.filter(|bytes| bytes.len() > SLICE_BYTES) {
        None => (response, None),
        Some(bytes) => match visitor.hold(&bytes) {
            None => (response.into_response(full()), None),
            held => (response, held),
        },
    }
}

/// The body that a request announces.
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

/// Checks requests to the API and WebSockets: whether a page of this host made them.
///
/// It wraps the resources, so that no spelling of a path bypasses it.
pub(super) async fn from_own_page(
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

/// The name under which this host was addressed.
pub(super) fn host(headers: &header::HeaderMap) -> &str {
    match headers.get(header::HOST) {
        Some(value) => value.to_str().unwrap_or_default(),
        // Only HTTP/1.0 may omit it, and no browser speaks that.
        None => "localhost",
    }
}

/// The response to a refused request; `None` if it may pass.
async fn refusal(state: &State, request: &HttpRequest, visitor: &Visitor) -> Option<HttpResponse> {
    if !state.wiring.hosts.accepts_host(host(request.headers())) {
        return Some(text(
            StatusCode::MISDIRECTED_REQUEST,
            "netto is not known by this host name; use its address, or start it with --allowed-host NAME",
        ));
    }
    let verdict = match &state.web.current().auth {
        Some(auth) => {
            let authorization = request.headers().get(header::AUTHORIZATION);
            auth.check(authorization, visitor).await
        }
        None => Verdict::Accepted,
    };
    match verdict {
        Verdict::Accepted => None,
        Verdict::Refused => {
            let mut response = text(StatusCode::UNAUTHORIZED, "user name and password required");
            response.headers_mut().insert(
                header::WWW_AUTHENTICATE,
                header::HeaderValue::from_static("Basic realm=\"netto\", charset=\"UTF-8\""),
            );
            Some(response)
        }
    }
}
