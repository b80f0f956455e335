//! The responses of `/api/v1`, each computed once for all clients.
//!
//! A snapshot and a description are valid until there is a newer one. A flame graph changes with
//! every snapshot, but takes so long to symbolize and fold that it is computed at most once a
//! second, and in at most a twentieth of the time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::web::Bytes;
use metrics_common::Info;

use super::api::{self, FeatureApi};
use netto_pipeline::metrics_collector::Published;
use netto_pipeline::single_flight::SingleFlight;
use netto_pipeline::trace_analyzer::StackSource;
use netto_questions::api::json;

/// A flame graph is valid for at least this long, and for this multiple of its computing time.
const FLAME_GRAPH_HOLDS: Duration = Duration::from_secs(1);
const FLAME_GRAPH_PAUSE: u32 = 20;

/// A flame graph as it is sent; clones share the text.
#[derive(Debug, Clone)]
pub struct FlameGraph {
    /// Folded stacks.
    pub text: Bytes,
    /// Length of the sampling window, nanoseconds.
    pub window_ns: u64,
    /// Samples in the text.
    pub samples: u64,
    /// Samples whose stack was not stored.
    pub left_out: u64,
}

type Made<T> = Result<T, String>;

/// The newest response of each kind.
pub struct Answers {
    stacks: Arc<dyn StackSource>,
    features: Arc<[FeatureApi]>,
    info: SingleFlight<Arc<Info>, Made<Bytes>>,
    snapshot: SingleFlight<Arc<Published>, Made<Bytes>>,
    flame_graph: SingleFlight<Instant, Made<FlameGraph>>,
}

impl Answers {
    /// Nothing computed yet.
    pub fn new(stacks: Arc<dyn StackSource>, features: Arc<[FeatureApi]>) -> Self {
        Answers {
            stacks,
            features,
            info: SingleFlight::default(),
            snapshot: SingleFlight::default(),
            flame_graph: SingleFlight::default(),
        }
    }

    /// The description as JSON.
    ///
    /// # Errors
    /// Why it cannot be written, for people.
    pub async fn info(&self, info: Arc<Info>) -> Made<Bytes> {
        let now = info.clone();
        let made = self.info.get(
            |made| Arc::ptr_eq(made, &now),
            move || {
                let text = json(&*info).map(Bytes::from);
                (info, text.map_err(|error| error.to_string()))
            },
        );
        made.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// The snapshot as JSON.
    ///
    /// # Errors
    /// Why it cannot be written, for people.
    pub async fn snapshot(&self, published: Arc<Published>) -> Made<Bytes> {
        let (now, features) = (published.clone(), self.features.clone());
        let made = self.snapshot.get(
            |made| Arc::ptr_eq(made, &now),
            move || {
                let text = api::snapshot(&features, &published.info, &published.snapshot);
                let text = text.map(Bytes::from).map_err(|error| error.to_string());
                (published, text)
            },
        );
        made.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// The stacks of the last half to whole minute, folded.
    ///
    /// # Errors
    /// Why there are none, for people.
    pub async fn flame_graph(&self) -> Made<FlameGraph> {
        let stacks = self.stacks.clone();
        let made = self.flame_graph.get(
            |until| Instant::now() < *until,
            move || {
                let begun = Instant::now();
                let graph = stacks.folded().map_err(|error| format!("{error:#}"));
                let graph = graph.map(|folded| FlameGraph {
                    text: folded.text.into(),
                    window_ns: folded.window_ns,
                    samples: folded.samples,
                    left_out: folded.left_out,
                });
                let pause = FLAME_GRAPH_HOLDS.max(begun.elapsed() * FLAME_GRAPH_PAUSE);
                (Instant::now() + pause, graph)
            },
        );
        made.await.unwrap_or_else(|error| Err(error.to_string()))
    }
}
