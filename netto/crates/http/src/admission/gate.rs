//! What a connection may hand to the HTTP library now.

/// What may go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Gate {
    /// The next request's head, once it is whole.
    #[default]
    Head,
    /// Nothing: a request is being answered.
    Shut,
    /// Everything: a WebSocket.
    Open,
    /// So many bytes that nobody reads, so that the client hears the answer first.
    Drain(usize),
    /// Nothing ever.
    Ended,
}
