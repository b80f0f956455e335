//! The past over HTTP: responses to queries, and the newest snapshots as a log.

use actix_web::body::{BodyStream, BoxBody};
use actix_web::http::{StatusCode, header};
use actix_web::web::{Bytes, Data};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use futures_util::stream;

use super::responses::{newest_info, not_ready, text};
use super::{State, follow};
use crate::admission::{BudgetShare, BudgetedBody, Visitor};
use crate::dump;
use netto_questions::api::{Answer, Refusal};

/// The response to the query at this index of the list.
pub(super) async fn answer(index: usize, request: HttpRequest, state: Data<State>) -> HttpResponse {
    let asked = &state.asked[index];
    let accept = request.headers().get_all(header::ACCEPT);
    let accept: Vec<&str> = accept.filter_map(|value| value.to_str().ok()).collect();
    let query = request.query_string();
    let selection = match asked.question.parse(query, &accept.join(",")) {
        Ok(selection) => selection,
        Err(complaint) => return text(StatusCode::BAD_REQUEST, complaint),
    };
    let kept = &state.wiring.kept;
    if kept.latest.get().is_none() {
        return not_ready();
    }
    if let (true, Answer::State { news, .. }) = (selection.follows, asked.question.answer) {
        return follow::lines(news, &request, state);
    }
    let content_type = selection.form.content_type();
    let visitor = request.conn_data::<Visitor>();
    let from = visitor.map(Visitor::peer);
    let info = newest_info(&state);
    let sources = (kept, &state.wiring.metrics);
    match asked.answer(selection, sources, info, from).await {
        Some(answer) => given(visitor, answer, content_type),
        None => text(StatusCode::NOT_FOUND, OF_A_RECORDING),
    }
}

/// Why a replay has no such response.
const OF_A_RECORDING: &str = "this is a recording: its log has all snapshots";

/// The HTTP response for a result, or for the lack of one.
fn given(
    visitor: Option<&Visitor>,
    answer: Result<Bytes, Refusal>,
    content_type: &'static str,
) -> HttpResponse {
    let answer = match answer {
        Ok(answer) => answer,
        Err(refusal @ Refusal::Wrong(_)) => return text(StatusCode::BAD_REQUEST, refusal),
        Err(refusal @ Refusal::Busy) => return later(refusal),
        Err(refusal @ Refusal::Failed(_)) => {
            return text(StatusCode::INTERNAL_SERVER_ERROR, refusal);
        }
    };
    let Some(share) = share(visitor, answer.len()) else {
        return full();
    };
    let mut response = HttpResponse::Ok();
    response
        .content_type(content_type)
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .insert_header((header::VARY, "Accept"));
    budgeted(&mut response, answer, share)
}

/// Completes a response whose body holds its share of the budget until it is read.
pub(super) fn budgeted(
    response: &mut HttpResponseBuilder,
    body: Bytes,
    share: BudgetShare,
) -> HttpResponse {
    response.body(BoxBody::new(BudgetedBody { body, share }))
}

/// The share of a response of this many bytes.
pub(super) fn share(visitor: Option<&Visitor>, bytes: usize) -> Option<BudgetShare> {
    visitor?.response_share(bytes)
}

/// The newest snapshots as a log.
pub(super) async fn dump(request: HttpRequest, state: Data<State>) -> HttpResponse {
    let kept = &state.wiring.kept;
    let Some(recent) = &kept.recent else {
        return text(StatusCode::NOT_FOUND, OF_A_RECORDING);
    };
    if kept.latest.get().is_none() {
        return not_ready();
    }
    let (_, recent) = recent.get();
    let Some(share) = share(request.conn_data::<Visitor>(), recent.bytes()) else {
        return full();
    };
    HttpResponse::Ok()
        .content_type("application/octet-stream")
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .insert_header((
            header::CONTENT_DISPOSITION,
            "attachment; filename=\"netto.log\"",
        ))
        .body(BoxBody::new(BudgetedBody {
            body: BodyStream::new(stream::iter(dump::pieces(&recent))),
            share,
        }))
}

pub(super) fn full() -> HttpResponse {
    later("too many long answers are being read; try again in some seconds")
}

pub(super) fn later(reason: impl std::fmt::Display) -> HttpResponse {
    let mut response = text(StatusCode::SERVICE_UNAVAILABLE, reason);
    let seconds = header::HeaderValue::from_static("5");
    response.headers_mut().insert(header::RETRY_AFTER, seconds);
    response
}
