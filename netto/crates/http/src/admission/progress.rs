//! Bounds how slowly a peer may read: connections that keep writes waiting must take a least number
//! of bytes for the time that they wait.
//!
//! `TCP_USER_TIMEOUT` ends connections whose peer is silent, but each received packet restarts its
//! timer: a peer that sends and never reads, or reads a byte now and then, would keep its
//! connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::time::{Sleep, sleep};

/// Least bytes that a peer takes in the time for which writes wait for it.
const LEAST_BYTES: usize = 64 << 10;

/// Checks write progress; see the head of this file.
pub(super) struct Progress {
    patience: Duration,
    /// How long writes have waited since [`LEAST_BYTES`] were taken.
    waited: Duration,
    /// Bytes taken meanwhile.
    taken: usize,
    /// Since when a write waits, and the end of its peer's time.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Progress {
    /// Lets writes wait this long for each [`LEAST_BYTES`].
    pub(super) fn new(patience: Duration) -> Self {
        Progress {
            patience,
            waited: Duration::ZERO,
            taken: 0,
            waiting: None,
        }
    }

    /// Checks and returns the result of a write; `bytes` tells how much of it was taken.
    ///
    /// # Errors
    /// The write's own error, or `TimedOut` if the peer reads too slowly.
    pub(super) fn check<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        bytes: impl FnOnce(&T) -> usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(result) = written {
            if let Some((since, _)) = self.waiting.take() {
                self.waited += since.elapsed();
            }
            self.taken += result.as_ref().map_or(0, bytes);
            if self.taken >= LEAST_BYTES {
                (self.waited, self.taken) = (Duration::ZERO, 0);
            }
            return Poll::Ready(result);
        }
        let left = self.patience.saturating_sub(self.waited);
        if left.is_zero() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let (_, end) = self
            .waiting
            .get_or_insert_with(|| (Instant::now(), Box::pin(sleep(left))));
        end.as_mut()
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Instant;

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(200);

    #[actix_web::test]
    async fn who_takes_nothing_is_waited_for_so_long_and_no_longer() {
        let mut progress = Progress::new(PATIENCE);
        let begun = Instant::now();
        let end = poll_fn(|cx| progress.check(Poll::Pending, |taken| *taken, cx)).await;
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() >= PATIENCE);
    }

    #[actix_web::test]
    async fn who_takes_enough_is_waited_for_anew_and_a_byte_is_not_enough() {
        for (taken, is_enough) in [(1, false), (LEAST_BYTES, true)] {
            let mut progress = Progress::new(PATIENCE);
            poll_fn(|cx| {
                let mut check = |written| progress.check(written, |taken| *taken, cx);
                assert!(check(Poll::Pending).is_pending());
                std::thread::sleep(2 * PATIENCE);
                assert!(check(Poll::Ready(Ok(taken))).is_ready());
                assert_eq!(check(Poll::Pending).is_pending(), is_enough, "{taken}");
                Poll::Ready(())
            })
            .await;
        }
    }
}
