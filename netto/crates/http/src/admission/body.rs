//! A response body that is passed on in slices: the HTTP library copies a whole chunk into its
//! buffer, and keeps a buffer of that size while the connection lives.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::web::Bytes;

use super::{Held, RequestPermit, SLICE_BYTES};

/// A body in slices; when it has been sent, the request's turn ends, and its bytes are free.
pub struct Guarded {
    inner: BoxBody,
    rest: Bytes,
    _held: Option<Held>,
    _turn: RequestPermit,
}

impl Guarded {
    /// Guards a body.
    pub fn new(inner: BoxBody, held: Option<Held>, turn: RequestPermit) -> Self {
        Guarded {
            inner,
            rest: Bytes::new(),
            _held: held,
            _turn: turn,
        }
    }
}

impl MessageBody for Guarded {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.inner.size()
    }

    fn poll_next(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let this = self.get_mut();
        if this.rest.is_empty() {
            match ready!(Pin::new(&mut this.inner).poll_next(cx)) {
                Some(Ok(bytes)) => this.rest = bytes,
                end => return Poll::Ready(end),
            }
        }
        let slice = this.rest.split_to(this.rest.len().min(SLICE_BYTES));
        Poll::Ready(Some(Ok(slice)))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::poll_fn;

    use super::*;
    use crate::admission::RequestBody;
    use crate::admission::visitor::tests::admitted;

    #[actix_web::test]
    async fn a_body_comes_whole_and_in_slices() {
        let slot = admitted(1);
        let turn = RequestPermit::new(slot.connection().clone(), RequestBody::None);
        let whole: Vec<u8> = (0..100_000).map(|at| at as u8).collect();
        let mut body = Guarded::new(BoxBody::new(whole.clone()), None, turn);
        assert_eq!(body.size(), BodySize::Sized(100_000));
        let mut seen = Vec::new();
        while let Some(slice) = poll_fn(|cx| Pin::new(&mut body).poll_next(cx)).await {
            let slice = slice.unwrap();
            assert!(slice.len() <= SLICE_BYTES);
            seen.extend_from_slice(&slice);
        }
        assert_eq!(seen, whole);
    }
}
