//! The stream under the HTTP library: it passes one request at a time.
//!
//! The library would decode every request that it can read and queue them all with their responses.
//! The gate reads no further than the end of a request's head until that request is answered and
//! its response is being sent. A head that is too long is refused before it is complete, and
//! connections that read too slowly are closed. It knows where a head ends, nothing else of HTTP.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::{Connection, Phase};
use super::gate::Gate;
use super::progress::Progress;
use super::visitor::Slot;
use super::{MAX_DRAINED_BYTES, MAX_HEAD_BYTES};

/// A connection, encrypted or not.
pub trait Io: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

/// The stream; see the head of this file.
pub struct RequestGate {
    io: Box<dyn Io>,
    slot: Slot,
    /// Bytes received and not yet passed on; at most [`MAX_HEAD_BYTES`].
    received: Vec<u8>,
    /// Number of bytes of `received` that may pass: a head, or all.
    admitted: usize,
    /// Number of bytes of `received` already searched for the end of a head.
    searched: usize,
    /// Whether written bytes are still unsent.
    is_stalled: bool,
    progress: Progress,
}

impl RequestGate {
    /// Guards a connection that holds a place; closes it when its peer keeps writes waiting for
    /// longer than `patience` without taking enough.
    pub fn new(io: Box<dyn Io>, slot: Slot, patience: Duration) -> Self {
        RequestGate {
            io,
            slot,
            received: Vec::new(),
            admitted: 0,
            searched: 0,
            is_stalled: false,
            progress: Progress::new(patience),
        }
    }

    /// The connection's place.
    pub fn slot(&self) -> &Slot {
        &self.slot
    }

    fn check(&self, cx: &Context<'_>) -> io::Result<()> {
        let connection = self.slot.connection();
        connection.register(cx.waker());
        if connection.is_evicted() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }

    /// Passes on admitted bytes; `true` if there were any.
    fn let_through(&mut self, out: &mut ReadBuf<'_>) -> bool {
        let length = self.admitted.min(out.remaining());
        out.put_slice(&self.received[..length]);
        self.received.drain(..length);
        self.admitted -= length;
        if self.received.is_empty() {
            // An idle connection keeps no buffer.
            self.received = Vec::new();
        }
        length > 0
    }

    /// Discards received bytes, up to a limit: closing a connection with unread data resets it, and
    /// the client may not see the reason.
    fn discard(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let mut chunk = [0; 4096];
        for _ in 0..MAX_DRAINED_BYTES / chunk.len() {
            let mut buffer = ReadBuf::new(&mut chunk);
            let read = Pin::new(&mut self.io).poll_read(cx, &mut buffer)?;
            if read.is_pending() || buffer.filled().is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Reads until a head is complete.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Head>> {
        loop {
            let blank = self
                .received
                .iter()
                .take_while(|byte| matches!(byte, b'\r' | b'\n'));
            let blank = blank.count();
            if self.searched == 0 {
                // Empty lines before a request mean nothing (RFC 9112, section 2.2).
                self.received.drain(..blank);
            }
            if let Some(end) = end_of_head(&self.received, self.searched) {
                self.searched = 0;
                return Poll::Ready(Ok(Head::Whole(end)));
            }
            self.searched = self.received.len().saturating_sub(2);
            if self.received.len() == MAX_HEAD_BYTES {
                self.discard(cx)?;
                return Poll::Ready(Ok(Head::TooLong));
            }
            if !ready!(self.poll_more(cx))? {
                return Poll::Ready(Ok(Head::None));
            }
        }
    }

    /// Receives some more; `false` if the client sends nothing more, or there is no room for it.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut chunk = [0; 4096];
        let size = chunk.len().min(MAX_HEAD_BYTES - self.received.len());
        let mut buffer = ReadBuf::new(&mut chunk[..size]);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut buffer))?;
        self.received.extend_from_slice(buffer.filled());
        Poll::Ready(Ok(!buffer.filled().is_empty()))
    }

    /// Reads ahead, so that it is noticed when the client closes its end. One that sends more than
    /// a head meanwhile is taken for gone.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while ready!(self.poll_more(cx))? {}
        self.slot.connection().has_hung_up.set(true);
        Poll::Pending
    }
}

enum Head {
    /// A complete head of this many bytes.
    Whole(usize),
    /// The client sends nothing more.
    None,
    TooLong,
}

/// A head that the HTTP library answers with 431 (more header fields than it takes).
fn too_long() -> Vec<u8> {
    let mut head = b"GET / HTTP/1.1\r\n".to_vec();
    for _ in 0..128 {
        head.extend_from_slice(b"x:\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// Returns the end of the head that starts these bytes: behind the first empty line.
fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    let lines = bytes.iter().enumerate().skip(from);
    for (at, _) in lines.filter(|(_, byte)| **byte == b'\n') {
        match bytes.get(at + 1..) {
            Some([b'\n', ..]) => return Some(at + 2),
            Some([b'\r', b'\n', ..]) => return Some(at + 3),
            _ => {}
        }
    }
    None
}

impl AsyncRead for RequestGate {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.check(cx)?;
        let connection = this.slot.connection().clone();
        match connection.gate.get() {
            // The next request waits until the previous response is being sent.
            Gate::Head if !this.is_stalled => {
                connection.enter(Phase::Idle);
                match ready!(this.poll_head(cx))? {
                    Head::Whole(length) => this.admitted = length,
                    Head::None => return Poll::Ready(Ok(())),
                    Head::TooLong => {
                        this.received = too_long();
                        this.admitted = this.received.len();
                    }
                }
                connection.enter(Phase::Working);
                connection.gate.set(Gate::Shut);
                this.let_through(out);
                Poll::Ready(Ok(()))
            }
            Gate::Head => Poll::Pending,
            Gate::Shut if this.let_through(out) => Poll::Ready(Ok(())),
            Gate::Shut if connection.is_watched.get() => this.poll_end(cx),
            Gate::Shut => Poll::Pending,
            Gate::Open => {
                this.admitted = this.received.len();
                if this.let_through(out) {
                    return Poll::Ready(Ok(()));
                }
                Pin::new(&mut this.io).poll_read(cx, out)
            }
            Gate::Drain(left) => {
                // The response is complete; a slow reader must not keep its rank against eviction.
                connection.enter(Phase::Stalled);
                this.received = Vec::new();
                let before = out.filled().len();
                ready!(Pin::new(&mut this.io).poll_read(cx, out))?;
                let read = out.filled().len() - before;
                connection.gate.set(match left.checked_sub(read) {
                    Some(left) if read > 0 => Gate::Drain(left),
                    _ => Gate::Ended,
                });
                Poll::Ready(Ok(()))
            }
            Gate::Ended => {
                connection.enter(Phase::Stalled);
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for RequestGate {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.check(cx)?;
        let written = Pin::new(&mut this.io).poll_write(cx, bytes);
        let connection = this.slot.connection();
        if written.is_pending() {
            this.is_stalled = true;
            connection.enter(Phase::Stalled);
        } else if this.is_stalled && connection.gate.get() == Gate::Shut {
            connection.enter(Phase::Working);
        }
        this.progress.check(written, |bytes| *bytes, cx)
    }

    /// Called by the HTTP library when it has nothing more to write.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.check(cx)?;
        let flushed = Pin::new(&mut this.io).poll_flush(cx);
        ready!(this.progress.check(flushed, |()| 0, cx))?;
        if std::mem::take(&mut this.is_stalled) {
            // The next request may be read.
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.check(cx)?;
        let shut = Pin::new(&mut this.io).poll_shutdown(cx);
        this.progress.check(shut, |()| 0, cx)
    }
}

/// One request's turn: when it ends, the next request may pass.
#[derive(Debug)]
pub struct RequestPermit {
    connection: Rc<Connection>,
    then: Gate,
}

impl RequestPermit {
    /// The turn of a request that was passed on.
    pub fn new(connection: Rc<Connection>, body: RequestBody) -> Self {
        let then = match body {
            RequestBody::None => Gate::Head,
            RequestBody::Announced => Gate::Drain(MAX_DRAINED_BYTES),
            RequestBody::Chunked => Gate::Ended,
        };
        RequestPermit { connection, then }
    }
}

/// The body after a request's head; netto uses none of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestBody {
    /// Nothing.
    None,
    /// Some bytes, or another protocol.
    Announced,
    /// Chunks, which the HTTP library would take without end.
    Chunked,
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.connection.gate.set(self.then);
        self.connection.wake();
    }
}
