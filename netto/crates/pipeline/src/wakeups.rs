//! A descriptor as a stream: one item each time it becomes readable. The only unsafe code of this crate.

use std::io;
use std::os::fd::OwnedFd;

use futures_util::{Stream, stream};
use tokio::io::unix::AsyncFd;

/// The wake-ups of a descriptor, in the runtime of the caller. Whoever takes one reads what made it readable.
///
/// # Errors
/// If the descriptor cannot be waited for.
pub fn wakeups(descriptor: OwnedFd) -> io::Result<impl Stream<Item = ()>> {
    // SAFETY: an `OwnedFd` is one open descriptor, and the same for as long as it lives; the `AsyncFd` owns it, and
    // drops it last.
    let descriptor = unsafe { AsyncFd::register(descriptor) }?;
    Ok(stream::unfold(descriptor, |descriptor| async {
        // Cleared before it is read: what comes meanwhile makes it readable again.
        descriptor.readable().await.ok()?.clear_ready();
        Some(((), descriptor))
    }))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use futures_util::{FutureExt, StreamExt};

    use super::*;

    #[actix::test]
    async fn each_wake_up_is_one_item_and_none_comes_without() {
        let (mut ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
        let descriptor = ours.try_clone().expect("a descriptor");
        let mut wakeups = Box::pin(wakeups(descriptor.into()).expect("a stream"));
        assert_eq!(wakeups.next().now_or_never(), None, "not yet");
        for _ in 0..3 {
            theirs.write_all(b"!").expect("room");
            assert_eq!(wakeups.next().await, Some(()));
            ours.read_exact(&mut [0]).expect("a byte");
            assert_eq!(wakeups.next().now_or_never(), None, "it was taken");
        }
    }
}
