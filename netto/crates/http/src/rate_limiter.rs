//! Responses that depend on the query, computed with a limited share of the CPU: one at a time off
//! the event loop, peers in turn, each followed by a pause of several times its duration. A
//! response is cached until its source changes, so that many clients with the same query cost as
//! much as one. This file knows nothing of a response's content.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix_web::web::{self, Bytes};
use tokio::sync::oneshot;

use super::admission::Peer;
use super::fair_queue::FairQueue;
use netto_pipeline::shared::Shared;
use netto_questions::api::Refusal;
use netto_sys::system::thread_cpu_ns;

/// Pause as a multiple of the work before it: at most a tenth of a CPU is used.
const PAUSE: u32 = 9;
/// Cached responses of one kind for the current version, bytes.
const CACHE_BYTES: usize = 4 << 20;

/// Responses of one kind; limiters that share a queue compute one response at a time together.
pub struct RateLimiter<Q> {
    turns: FairQueue,
    cache: Arc<Mutex<ResponseCache<Q>>>,
}

/// Responses computed from one version of the source.
struct ResponseCache<Q> {
    version: u64,
    answers: Vec<(Q, Bytes)>,
    bytes: usize,
}

impl<Q> Default for ResponseCache<Q> {
    fn default() -> Self {
        ResponseCache {
            version: 0,
            answers: Vec::new(),
            bytes: 0,
        }
    }
}

impl<Q: PartialEq> ResponseCache<Q> {
    fn find(&self, version: u64, question: &Q) -> Option<Bytes> {
        let mut answers = self.answers.iter().filter(|_| self.version == version);
        let (_, answer) = answers.find(|(known, _)| known == question)?;
        Some(answer.clone())
    }

    fn keep(&mut self, version: u64, question: Q, answer: &Bytes) {
        if self.version != version {
            *self = ResponseCache {
                version,
                ..ResponseCache::default()
            };
        }
        if self.bytes + answer.len() <= CACHE_BYTES {
            self.bytes += answer.len();
            self.answers.push((question, answer.clone()));
        }
    }
}

/// The pause after work of this CPU time, without time that it waited.
fn pause_after(cpu: Duration) -> Duration {
    cpu.saturating_mul(PAUSE)
}

/// Makes an answer, unless another client has asked the same meanwhile.
fn answered<Q: PartialEq, T: Clone>(
    shared: &Shared<T>,
    cache: &Mutex<ResponseCache<Q>>,
    question: Q,
    make: impl FnOnce(&Q, Arc<T>) -> Result<Vec<u8>, Refusal>,
) -> Result<Bytes, Refusal> {
    let (version, value) = shared.get();
    if let Some(answer) = lock(cache).find(version, &question) {
        return Ok(answer);
    }
    let text = make(&question, value)?;
    let answer = Bytes::from(text.into_boxed_slice());
    lock(cache).keep(version, question, &answer);
    Ok(answer)
}

fn lock<Q>(cache: &Mutex<ResponseCache<Q>>) -> MutexGuard<'_, ResponseCache<Q>> {
    // A poisoned lock still holds only complete responses.
    cache.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<Q: PartialEq + Send + 'static> RateLimiter<Q> {
    /// A limiter with an empty cache.
    pub fn new(turns: FairQueue) -> Self {
        RateLimiter {
            turns,
            cache: Arc::default(),
        }
    }

    /// The response to a query from this peer, computed from the shared data as it is then.
    ///
    /// # Errors
    /// Why there is no response.
    pub async fn answer<T: Clone + Send + Sync + 'static>(
        &self,
        shared: &Shared<T>,
        question: Q,
        from: Option<Peer>,
        make: impl FnOnce(&Q, Arc<T>) -> Result<Vec<u8>, Refusal> + Send + 'static,
    ) -> Result<Bytes, Refusal> {
        if let Some(answer) = lock(&self.cache).find(shared.get().0, &question) {
            return Ok(answer);
        }
        let place = self.turns.place(from).ok_or(Refusal::Busy)?;
        let turn = place.turn().await.ok_or(Refusal::Busy)?;
        let (shared, cache) = (shared.clone(), self.cache.clone());
        let (tell, told) = oneshot::channel();
        // The work and the pause after it continue if the client disconnects.
        actix_web::rt::spawn(async move {
            let made = web::block(move || {
                let begun_ns = thread_cpu_ns();
                let answer = answered(&shared, &cache, question, make);
                let cpu_ns = thread_cpu_ns().saturating_sub(begun_ns);
                (answer, Duration::from_nanos(cpu_ns))
            });
            let failed = "netto could not produce this answer";
            let unfinished = || Err(Refusal::Failed(failed.to_owned()));
            let (answer, cpu) = made
                .await
                .unwrap_or_else(|_| (unfinished(), Duration::ZERO));
            // Receiver dropped; ignore.
            let _ = tell.send(answer);
            tokio::time::sleep(pause_after(cpu)).await;
            drop(turn);
        });
        let ended = |_| Err(Refusal::Failed("netto ends".to_owned()));
        told.await.unwrap_or_else(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_and_its_pause_take_a_tenth_of_a_cpu_however_long_it_takes() {
        for cpu in [1, 220, 230, 5_000, 90_000].map(Duration::from_millis) {
            let ratio = cpu.as_secs_f64() / (cpu + pause_after(cpu)).as_secs_f64();
            assert!((ratio - 0.1).abs() < 1e-9, "{cpu:?}: {ratio}");
        }
    }

    #[test]
    fn answers_are_kept_within_the_bound_and_for_one_version_only() {
        let mut cache = ResponseCache::default();
        let half = Bytes::from(vec![0; CACHE_BYTES / 2]);
        for name in ["a", "b", "c"] {
            cache.keep(1, name, &half);
        }
        assert!(cache.find(1, &"b").is_some());
        assert!(cache.find(1, &"c").is_none(), "no room");
        assert!(cache.find(2, &"b").is_none());
        cache.keep(2, "c", &half);
        assert!(cache.find(2, &"c").is_some());
        assert!(cache.find(1, &"b").is_none());
    }
}
