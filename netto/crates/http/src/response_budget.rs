//! A budget for long responses: how much memory all of them may hold, and for how long.
//!
//! A response that only its reader holds lives as long as it is being read. Each therefore takes a
//! share of a fixed budget while it lives, and ends after a fixed time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use actix_web::body::{BodySize, MessageBody};
use actix_web::web::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most bytes held by all long responses at a time: six dumps, or some more responses about the
/// past.
pub const MOST_BYTES: usize = 24 << 20;
/// Longest time for reading one response.
pub const LONGEST: Duration = Duration::from_secs(60);
/// The unit of the budget.
const UNIT_BYTES: usize = 1 << 10;

/// The budget.
#[derive(Debug, Clone)]
pub struct ResponseBudget(Arc<Semaphore>);

/// One response's share of the budget.
#[derive(Debug)]
pub struct BudgetShare(
    #[expect(dead_code, reason = "it is held, never looked at")] OwnedSemaphorePermit,
);

impl Default for ResponseBudget {
    fn default() -> Self {
        ResponseBudget(Arc::new(Semaphore::new(MOST_BYTES / UNIT_BYTES)))
    }
}

impl ResponseBudget {
    /// Takes this many bytes of the budget, if they are left.
    pub fn take(&self, bytes: usize) -> Option<BudgetShare> {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).ok()?;
        self.0
            .clone()
            .try_acquire_many_owned(units)
            .ok()
            .map(BudgetShare)
    }
}

/// A response in pieces, with its share of the budget.
#[derive(Debug)]
pub struct BudgetedBody<I> {
    pieces: I,
    size: BodySize,
    until: Instant,
    _share: BudgetShare,
}

impl<I> BudgetedBody<I> {
    /// A response of these pieces; `size` is their total length, if known.
    pub fn new(pieces: I, size: BodySize, share: BudgetShare) -> Self {
        BudgetedBody {
            pieces,
            size,
            until: Instant::now() + LONGEST,
            _share: share,
        }
    }
}

/// Why a response was aborted.
#[derive(Debug, thiserror::Error)]
pub enum ReadAborted<E> {
    /// The client read too slowly.
    #[error("this answer was not read within {} s", LONGEST.as_secs())]
    TooSlow,
    /// A piece could not be made.
    #[error(transparent)]
    Failed(E),
}

impl<I, E> MessageBody for BudgetedBody<I>
where
    I: Iterator<Item = Result<Bytes, E>> + Unpin,
    E: std::error::Error + 'static,
{
    type Error = ReadAborted<E>;

    fn size(&self) -> BodySize {
        self.size
    }

    fn poll_next(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let this = self.get_mut();
        if Instant::now() > this.until {
            return Poll::Ready(Some(Err(ReadAborted::TooSlow)));
        }
        let piece = this.pieces.next();
        Poll::Ready(piece.map(|piece| piece.map_err(ReadAborted::Failed)))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::future::poll_fn;

    use super::*;

    type Pieces = std::vec::IntoIter<Result<Bytes, Infallible>>;

    fn held(budget: &ResponseBudget, bytes: usize) -> Option<BudgetedBody<Pieces>> {
        let share = budget.take(bytes)?;
        let pieces = vec![Ok(Bytes::from_static(b"ab")), Ok(Bytes::from_static(b"c"))];
        Some(BudgetedBody::new(
            pieces.into_iter(),
            BodySize::Stream,
            share,
        ))
    }

    #[actix_web::test]
    async fn an_answer_comes_in_its_pieces_unless_its_time_is_over() {
        let budget = ResponseBudget::default();
        let mut body = held(&budget, 1).unwrap();
        let mut next = async || poll_fn(|cx| Pin::new(&mut body).poll_next(cx)).await;
        assert_eq!(next().await.unwrap().unwrap(), "ab");
        assert_eq!(next().await.unwrap().unwrap(), "c");
        assert!(next().await.is_none());
        let mut late = held(&budget, 1).unwrap();
        late.until = Instant::now() - Duration::from_secs(1);
        let piece = poll_fn(|cx| Pin::new(&mut late).poll_next(cx)).await;
        assert!(matches!(piece, Some(Err(ReadAborted::TooSlow))));
    }

    #[test]
    fn answers_take_no_more_room_than_there_is_and_give_it_back() {
        let budget = ResponseBudget::default();
        let first = held(&budget, MOST_BYTES / 2 + 1);
        assert!(first.is_some());
        assert!(held(&budget, MOST_BYTES / 2).is_none());
        assert!(held(&budget, MOST_BYTES / 2 - UNIT_BYTES).is_some());
        drop(first);
        assert!(held(&budget, MOST_BYTES).is_some());
    }
}
