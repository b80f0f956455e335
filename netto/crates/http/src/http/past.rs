//! The past over HTTP: responses to queries, and the newest snapshots as a log.

use actix_web::http::{StatusCode, header};
use actix_web::web::{Bytes, Data};
use actix_web::{HttpRequest, HttpResponse};
use futures_util::{StreamExt, stream};

use super::responses::{attachment, fresh, full, newest_info, not_ready, text};
use super::{State, follow};
use crate::admission::Visitor;
use crate::dump;
use netto_questions::api::{Answer, Refusal};

/// The response to the query at this index of the list.
pub(super) async fn answer(
    index: usize,
    request: HttpRequest,
    visitor: Visitor,
    state: Data<State>,
) -> HttpResponse {
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
        return follow::lines(news, &visitor, state.clone());
    }
    let content_type = asked.question.content_type(&selection);
    let info = newest_info(&state);
    let sources = (kept, &state.wiring.metrics);
    match asked.answer(selection, sources, info, &visitor).await {
        Some(answer) => given(answer, content_type),
        None => text(StatusCode::NOT_FOUND, OF_A_RECORDING),
    }
}

/// Why a replay has no such response.
const OF_A_RECORDING: &str = "this is a recording: its log has all snapshots";

/// The HTTP response for a result, or for the lack of one.
fn given(answer: Result<Bytes, Refusal>, content_type: &'static str) -> HttpResponse {
    let answer = match answer {
        Ok(answer) => answer,
        Err(refusal @ Refusal::Wrong(_)) => return text(StatusCode::BAD_REQUEST, refusal),
        Err(refusal @ Refusal::Failed(_)) => {
            return text(StatusCode::INTERNAL_SERVER_ERROR, refusal);
        }
    };
    fresh(StatusCode::OK, content_type)
        .insert_header((header::VARY, "Accept"))
        .body(answer)
}

/// The newest snapshots as a log.
pub(super) async fn dump(visitor: Visitor, state: Data<State>) -> HttpResponse {
    let kept = &state.wiring.kept;
    let Some(recent) = &kept.recent else {
        return text(StatusCode::NOT_FOUND, OF_A_RECORDING);
    };
    if kept.latest.get().is_none() {
        return not_ready();
    }
    let (_, recent) = recent.get();
    let Some(held) = visitor.hold_bytes(recent.bytes()) else {
        return full();
    };
    let pieces = stream::iter(dump::pieces(&recent)).map(move |piece| {
        // Until the last piece is read.
        let _ = &held;
        piece
    });
    attachment(
        "application/octet-stream",
        "attachment; filename=\"netto.log\"",
    )
    .streaming(pieces)
}
