//! Responses that depend on the query: computed one at a time, off the event loop, when the peer's turn
//! has come (`admission` limits their share of the CPU), and cached until the source changes, so that
//! many clients with the same query cost as much as one. This file knows nothing of a response's
//! content.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actix_web::web::Bytes;

use super::admission::{Visitor, Work};
use netto_pipeline::shared::Shared;
use netto_questions::api::Refusal;

/// Cached responses of one kind for the current version, bytes.
const CACHE_BYTES: usize = 4 << 20;

/// Responses of one kind.
pub struct RateLimiter<Q> {
    cache: Arc<Mutex<ResponseCache<Q>>>,
}

impl<Q> Default for RateLimiter<Q> {
    fn default() -> Self {
        RateLimiter {
            cache: Arc::default(),
        }
    }
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
    /// The response to a query, computed from the shared data as it is then.
    ///
    /// # Errors
    /// Why there is no response.
    pub async fn answer<T: Clone + Send + Sync + 'static>(
        &self,
        shared: &Shared<T>,
        question: Q,
        visitor: &Visitor,
        make: impl FnOnce(&Q, Arc<T>) -> Result<Vec<u8>, Refusal> + Send + 'static,
    ) -> Result<Bytes, Refusal> {
        if let Some(answer) = lock(&self.cache).find(shared.get().0, &question) {
            return Ok(answer);
        }
        let (shared, cache) = (shared.clone(), self.cache.clone());
        let work = move || answered(&shared, &cache, question, make);
        let made = visitor.in_turn(Work::Question, work, |_| true).await;
        made.unwrap_or_else(|| Err(Refusal::Failed("netto could not produce this answer".to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
