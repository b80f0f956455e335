//! A single-flight cache: a value that is computed once for all callers.
//!
//! Computing may take long, and a client can send requests as often as it likes. Values are
//! therefore computed off the event loop, one at a time of each kind, and the work itself stores
//! its result: a caller that disconnects while it waits neither wastes the result nor lets the next
//! caller start the work again. This file knows nothing of a value's content.

use std::sync::Arc;

use actix_web::web;
use tokio::sync::Mutex;

/// The newest value of one kind, with the state that tells whether it is still valid.
#[derive(Debug)]
pub struct SingleFlight<K, A>(Arc<Mutex<Option<(K, A)>>>);

impl<K, A> Default for SingleFlight<K, A> {
    fn default() -> Self {
        SingleFlight(Arc::default())
    }
}

/// The work was not finished: it panicked, or the daemon ends.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("netto could not produce this answer")]
pub struct Unfinished;

impl<K: Send + 'static, A: Clone + Send + 'static> SingleFlight<K, A> {
    /// The stored value, if still valid, else a new one. Callers that arrive while it is being
    /// computed wait for the same one.
    ///
    /// # Errors
    /// If the computation panicked.
    pub async fn get(
        &self,
        holds: impl FnOnce(&K) -> bool,
        make: impl FnOnce() -> (K, A) + Send + 'static,
    ) -> Result<A, Unfinished> {
        let mut place = self.0.clone().lock_owned().await;
        if let Some((key, answer)) = &*place
            && holds(key)
        {
            return Ok(answer.clone());
        }
        web::block(move || {
            let (key, answer) = make();
            *place = Some((key, answer.clone()));
            answer
        })
        .await
        .map_err(|_| Unfinished)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use futures_util::future::join_all;

    use super::*;

    #[actix_web::test]
    async fn many_who_ask_at_once_get_what_was_made_once() {
        let rendered = SingleFlight::default();
        let made = Arc::new(AtomicUsize::new(0));
        let ask = |of: u32| {
            let made = made.clone();
            rendered.get(
                move |key| *key == of,
                move || {
                    made.fetch_add(1, Ordering::SeqCst);
                    (of, format!("of {of}"))
                },
            )
        };
        let answers = join_all((0..50).map(|_| ask(1))).await;
        assert!(answers.iter().all(|a| a.as_deref() == Ok("of 1")));
        assert_eq!(made.load(Ordering::SeqCst), 1);
        assert_eq!(ask(2).await.as_deref(), Ok("of 2"));
        assert_eq!(made.load(Ordering::SeqCst), 2);
    }

    #[actix_web::test]
    async fn who_goes_away_leaves_the_work_to_the_next_one() {
        let rendered: SingleFlight<(), u32> = SingleFlight::default();
        let (begin, may_begin) = mpsc::channel::<()>();
        let first = rendered.get(
            |()| true,
            move || {
                let _ = may_begin.recv();
                ((), 1)
            },
        );
        // The work has begun when the timeout expires.
        let timeout = tokio::time::timeout(Duration::from_millis(20), first).await;
        assert!(timeout.is_err());
        drop(begin);
        assert_eq!(rendered.get(|()| true, || ((), 2)).await.ok(), Some(1));
    }

    #[actix_web::test]
    async fn work_that_panics_is_tried_again() {
        let rendered: SingleFlight<(), u32> = SingleFlight::default();
        let failed = rendered.get(|()| true, || panic!("no paper")).await;
        assert!(failed.is_err());
        assert_eq!(rendered.get(|()| true, || ((), 2)).await.ok(), Some(2));
    }
}
