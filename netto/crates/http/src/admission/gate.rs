//! The bytes of a connection that may pass to the HTTP library now.

/// The bytes that may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Gate {
    /// The next request's head, once it is complete.
    #[default]
    Head,
    /// Nothing: a request is being answered.
    Shut,
    /// Everything: a WebSocket.
    Open,
    /// Up to this many bytes, discarded, so that the client receives the response before the close.
    Drain(usize),
    /// Nothing, permanently.
    Ended,
}
