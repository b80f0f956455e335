//! Bounds how long writes to a connection may make no progress.
//!
//! `TCP_USER_TIMEOUT` ends connections whose peer is silent, but each received packet restarts its
//! timer: a peer that sends and never reads would keep its connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

/// Checks write progress; see the head of this file.
pub(super) struct Progress {
    patience: Duration,
    /// Runs while writes make no progress.
    until: Option<Pin<Box<Sleep>>>,
}

impl Progress {
    /// Allows this long for each write.
    pub(super) fn new(patience: Duration) -> Self {
        Progress {
            patience,
            until: None,
        }
    }

    /// Checks and returns the result of a write.
    ///
    /// # Errors
    /// The write's own error, or `TimedOut` if no write made progress for too long.
    pub(super) fn check<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.until = None;
            return written;
        }
        let patience = self.patience;
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(patience)));
        until
            .as_mut()
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
        let end = poll_fn(|cx| progress.check::<usize>(Poll::Pending, cx)).await;
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() >= PATIENCE);
    }

    #[actix_web::test]
    async fn who_takes_a_little_is_waited_for_anew() {
        let mut progress = Progress::new(PATIENCE);
        poll_fn(|cx| {
            assert!(progress.check::<usize>(Poll::Pending, cx).is_pending());
            std::thread::sleep(2 * PATIENCE);
            assert!(progress.check(Poll::Ready(Ok(1)), cx).is_ready());
            assert!(progress.check::<usize>(Poll::Pending, cx).is_pending());
            Poll::Ready(())
        })
        .await;
    }
}
