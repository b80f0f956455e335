//! `/debug/pprof/profile`: records the stacks of networking for some seconds, in pprof's format.

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::web::{self, Bytes, Data};
use actix_web::{HttpRequest, HttpResponse};
use netto_metrics::pprof;
use netto_pipeline::compression::gzip;

use super::State;
use super::responses::{attachment, later, text};
use crate::admission::Visitor;

/// The key of the query; others, which scrapers may send, have no meaning here.
const SECONDS: &str = "seconds";
/// As Go's own.
const USUAL_SECONDS: u64 = 30;
/// Scrapers ask for their interval.
const MOST_SECONDS: u64 = 60;

/// Records for the time that the request asks for, and answers.
pub(super) async fn profile(
    request: HttpRequest,
    visitor: Visitor,
    state: Data<State>,
) -> HttpResponse {
    let seconds = match seconds(request.query_string()) {
        Ok(seconds) => seconds,
        Err(complaint) => return text(StatusCode::BAD_REQUEST, complaint),
    };
    let Some(_place) = visitor.profile().await else {
        return later("too many profiles are being recorded; try again when one has ended");
    };
    // Dropped with the request if its connection ends, which ends the recording.
    let profile = match state.wiring.stacks.clone().begin_profile() {
        Ok(profile) => profile,
        Err(reason) => return later(format!("{reason:#}")),
    };
    tokio::select! {
        () = actix_web::rt::time::sleep(Duration::from_secs(seconds)) => {}
        () = visitor.hung_up() => return later("the client has gone"),
    }
    let made = web::block(move || -> anyhow::Result<Bytes> {
        let message = Bytes::from(pprof::encode(&profile.end()?));
        gzip(&message).map_err(anyhow::Error::msg)
    });
    match made.await {
        Ok(Ok(body)) => {
            attachment(pprof::CONTENT_TYPE, "attachment; filename=\"netto.pb.gz\"").body(body)
        }
        Ok(Err(reason)) => later(format!("{reason:#}")),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error),
    }
}

/// The requested length.
fn seconds(query: &str) -> Result<u64, String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let Some((_, value)) = pairs.find(|(key, _)| *key == SECONDS) else {
        return Ok(USUAL_SECONDS);
    };
    match value.parse() {
        Ok(seconds @ 1..=MOST_SECONDS) => Ok(seconds),
        _ => Err(format!(
            "{SECONDS} must be 1 to {MOST_SECONDS}, not {value}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_takes_some_seconds() {
        for (query, expected) in [
            ("", Ok(30)),
            ("seconds=10", Ok(10)),
            ("pid=1&seconds=1", Ok(1)),
            ("seconds=0", Err("not 0")),
            ("seconds=61", Err("not 61")),
            ("seconds=soon", Err("not soon")),
        ] {
            match (seconds(query), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{query}"),
                (Err(error), Err(expected)) => assert!(error.ends_with(expected), "{error}"),
                other => panic!("{query}: {other:?}"),
            }
        }
    }
}
