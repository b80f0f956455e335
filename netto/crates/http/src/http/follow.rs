//! What is new, line by line, for clients that go on listening: newline-delimited JSON. Even if nothing
//! is new, a line comes as often as a silent dashboard is pinged, so that silence is told from death. It
//! knows no line's content.
//!
//! A listener takes the place of a dashboard while it listens. Once a second netto looks whether there is
//! news, so a listener gets one line a second at most, with all that is new since its last.

use std::time::{Duration, Instant};

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::web::{Bytes, Data};
use futures_util::stream;
use netto_questions::api::{Listened, News};
use tokio::time::sleep;

use super::State;
use super::responses::{fresh, no_dashboard};
use crate::admission::{Dashboard, Visitor};

/// Time between two looks.
const LOOKS: Duration = Duration::from_secs(1);

/// What is new, by what a listener has had.
type Newest = fn(&[&dyn std::any::Any], &Listened) -> Option<News>;

/// A client that listens.
struct Listener {
    news: Newest,
    state: Data<State>,
    until: u64,
    /// When it got its last line; `None` before the first.
    last: Option<Instant>,
    _place: Dashboard,
}

/// The response that goes on.
pub(super) fn lines(news: Newest, visitor: &Visitor, state: Data<State>) -> HttpResponse {
    let Some(place) = visitor.open_dashboard() else {
        return no_dashboard(&state);
    };
    let listener = Listener {
        news,
        state,
        until: 0,
        last: None,
        _place: place,
    };
    let lines = stream::unfold(listener, |mut listener| async move {
        let line = listener.next().await;
        Some((Ok::<_, std::convert::Infallible>(line), listener))
    });
    fresh(StatusCode::OK, "application/x-ndjson").streaming(Box::pin(lines))
}

impl Listener {
    /// The next line, once there is one: the first at once.
    async fn next(&mut self) -> Bytes {
        let heartbeat = self.state.wiring.patience.keepalive;
        loop {
            if self.last.is_some() {
                sleep(LOOKS.min(heartbeat)).await;
            }
            let quiet = self.last.map(|last| last.elapsed());
            let listened = Listened {
                until: self.until,
                quiet_ns: quiet.map_or(0, |quiet| quiet.as_nanos() as u64),
                is_due: quiet.is_none_or(|quiet| quiet >= heartbeat),
            };
            let metrics = &self.state.wiring.metrics;
            let news = metrics.of_states(|states| (self.news)(states, &listened));
            if let Some(News { until, mut line }) = news {
                (self.until, self.last) = (until, Some(Instant::now()));
                line.push(b'\n');
                return line.into();
            }
        }
    }
}
