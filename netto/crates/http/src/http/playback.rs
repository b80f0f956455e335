//! The playback of a replay over HTTP: its status, its overview, and the commands of viewers.
//!
//! These paths exist only while a recording is played. A request is either understood in full or
//! changes nothing.

use actix_web::http::StatusCode;
use actix_web::middleware::from_fn;
use actix_web::web::{self, Data};
use actix_web::{HttpRequest, HttpResponse, guard};

use super::State;
use super::access::from_own_page;
use super::responses::{fresh, method_not_allowed, not_found, resource, text};
use netto_pipeline::playback::{Command, SPEEDS};

/// The paths of a replay.
pub(super) fn routes(config: &mut web::ServiceConfig) {
    let readable = guard::Any(guard::Get()).or(guard::Head());
    let playback = web::resource("/api/v1/replay")
        .route(web::route().guard(readable).to(status))
        .route(web::post().to(ask))
        .default_service(web::to(|| async {
            let message = "a replay is read by GET and controlled by POST";
            method_not_allowed(message, "GET, HEAD, POST")
        }));
    config
        .service(playback.wrap(from_fn(from_own_page)))
        .service(resource("/api/v1/replay/course", course).wrap(from_fn(from_own_page)));
}

fn json(value: &impl serde::Serialize) -> HttpResponse {
    fresh(StatusCode::OK, "application/json").json(value)
}

async fn status(state: Data<State>) -> HttpResponse {
    match &state.wiring.replay {
        Some(controls) => json(&controls.status()),
        None => not_found(state).await,
    }
}

async fn course(state: Data<State>) -> HttpResponse {
    match &state.wiring.replay {
        Some(controls) => json(&controls.facts().overview),
        None => not_found(state).await,
    }
}

async fn ask(request: HttpRequest, state: Data<State>) -> HttpResponse {
    let Some(controls) = &state.wiring.replay else {
        return not_found(state).await;
    };
    match wish(request.query_string()) {
        Ok(wish) => {
            controls.ask(wish);
            json(&controls.status())
        }
        Err(complaint) => text(StatusCode::BAD_REQUEST, complaint),
    }
}

/// Parses a command from a query.
fn wish(query: &str) -> Result<Command, String> {
    let mut wish = Command::default();
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        match key.as_ref() {
            "playing" => {
                let playing = value.parse();
                wish.playing = Some(playing.map_err(|_| "playing is true or false")?);
            }
            "speed" => {
                let speed = value.parse().ok().filter(|speed| SPEEDS.contains(speed));
                wish.speed = Some(speed.ok_or_else(|| {
                    format!("speed is {} to {} times", SPEEDS.start(), SPEEDS.end())
                })?);
            }
            "seek_unix_ms" => {
                let ms = value.parse();
                let complaint = "seek_unix_ms is a time in milliseconds since 1970";
                wish.seek_unix_ms = Some(ms.map_err(|_| complaint)?);
            }
            _ => return Err("a replay knows playing, speed and seek_unix_ms".to_owned()),
        }
    }
    if wish == Command::default() {
        return Err("nothing is asked for: playing, speed or seek_unix_ms".to_owned());
    }
    Ok(wish)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_understood_whole_or_not_at_all() {
        let all = wish("playing=true&speed=60&seek_unix_ms=1700000000000");
        let expected = Command {
            playing: Some(true),
            speed: Some(60.0),
            seek_unix_ms: Some(1_700_000_000_000),
        };
        assert_eq!(all, Ok(expected));
        for nonsense in [
            "",
            "playing",
            "playing=yes",
            "speed=0",
            "speed=-1",
            "speed=nan",
            "speed=inf",
            "speed=1e9",
            "seek_unix_ms=",
            "seek_unix_ms=-5",
            "seek_unix_ms=99999999999999999999999",
            "playing=true&eject=1",
        ] {
            assert!(wish(nonsense).is_err(), "{nonsense}");
        }
    }
}
