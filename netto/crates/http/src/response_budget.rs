//! Long answers on their way: how much memory all of them may hold, and for how long.
//!
//! An answer that is kept by nobody but its reader lives as long as that one reads. So each
//! takes room while it does, of which there is a fixed amount, and ends after a fixed time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use actix_web::body::{BodySize, MessageBody};
use actix_web::web::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What all long answers may hold at a time, bytes: six dumps, or some more answers about the
/// past.
pub const MOST_BYTES: usize = 24 << 20;
/// What one may take to be read.
pub const LONGEST: Duration = Duration::from_secs(60);
/// In such pieces is room given.
const UNIT_BYTES: usize = 1 << 10;

/// The room that there is.
#[derive(Debug, Clone)]
pub struct ResponseBudget(Arc<Semaphore>);

/// ResponseBudget for an answer.
#[derive(Debug)]
pub struct Place(#[expect(dead_code, reason = "it is held, never looked at")] OwnedSemaphorePermit);

impl Default for ResponseBudget {
    fn default() -> Self {
        ResponseBudget(Arc::new(Semaphore::new(MOST_BYTES / UNIT_BYTES)))
    }
}

impl ResponseBudget {
    /// ResponseBudget for so many bytes, if there is any left.
    pub fn take(&self, bytes: usize) -> Option<Place> {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).ok()?;
        self.0.clone().try_acquire_many_owned(units).ok().map(Place)
    }
}

/// An answer in pieces, with the room that it takes.
#[derive(Debug)]
pub struct Held<I> {
    pieces: I,
    size: BodySize,
    until: Instant,
    _place: Place,
}

impl<I> Held<I> {
    /// An answer of these pieces; `size` is how long they are in all, if that is known.
    pub fn new(pieces: I, size: BodySize, place: Place) -> Self {
        Held {
            pieces,
            size,
            until: Instant::now() + LONGEST,
            _place: place,
        }
    }
}

/// An answer that is broken off.
#[derive(Debug, thiserror::Error)]
pub enum BrokenOff<E> {
    /// Its reader was too slow.
    #[error("this answer was not read within {} s", LONGEST.as_secs())]
    TooSlow,
    /// A piece could not be made.
    #[error(transparent)]
    Failed(E),
}

impl<I, E> MessageBody for Held<I>
where
    I: Iterator<Item = Result<Bytes, E>> + Unpin,
    E: std::error::Error + 'static,
{
    type Error = BrokenOff<E>;

    fn size(&self) -> BodySize {
        self.size
    }

    fn poll_next(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let this = self.get_mut();
        if Instant::now() > this.until {
            return Poll::Ready(Some(Err(BrokenOff::TooSlow)));
        }
        let piece = this.pieces.next();
        Poll::Ready(piece.map(|piece| piece.map_err(BrokenOff::Failed)))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::future::poll_fn;

    use super::*;

    type Pieces = std::vec::IntoIter<Result<Bytes, Infallible>>;

    fn held(room: &ResponseBudget, bytes: usize) -> Option<Held<Pieces>> {
        let place = room.take(bytes)?;
        let pieces = vec![Ok(Bytes::from_static(b"ab")), Ok(Bytes::from_static(b"c"))];
        Some(Held::new(pieces.into_iter(), BodySize::Stream, place))
    }

    #[actix_web::test]
    async fn an_answer_comes_in_its_pieces_unless_its_time_is_over() {
        let room = ResponseBudget::default();
        let mut body = held(&room, 1).unwrap();
        let mut next = async || poll_fn(|cx| Pin::new(&mut body).poll_next(cx)).await;
        assert_eq!(next().await.unwrap().unwrap(), "ab");
        assert_eq!(next().await.unwrap().unwrap(), "c");
        assert!(next().await.is_none());
        let mut late = held(&room, 1).unwrap();
        late.until = Instant::now() - Duration::from_secs(1);
        let piece = poll_fn(|cx| Pin::new(&mut late).poll_next(cx)).await;
        assert!(matches!(piece, Some(Err(BrokenOff::TooSlow))));
    }

    #[test]
    fn answers_take_no_more_room_than_there_is_and_give_it_back() {
        let room = ResponseBudget::default();
        let first = held(&room, MOST_BYTES / 2 + 1);
        assert!(first.is_some());
        assert!(held(&room, MOST_BYTES / 2).is_none());
        assert!(held(&room, MOST_BYTES / 2 - UNIT_BYTES).is_some());
        drop(first);
        assert!(held(&room, MOST_BYTES).is_some());
    }
}
