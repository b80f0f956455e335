//! Admission: which connections are accepted, how long they stay, and how much each may have in
//! flight.
//!
//! It stands between the socket and the HTTP library, which alone would read as much as a client
//! sends and buffer as much as it answers. `accounts` decides what each client may take, `visitor`
//! applies that, `connection` holds the state of each connection, `request_gate` passes one request
//! at a time, `progress` closes connections that read too slowly, `body` sends responses in slices,
//! `leftovers` returns memory. None of it knows a route or a snapshot.

mod accounts;
mod body;
mod connection;
mod gate;
mod leftovers;
mod progress;
mod request_gate;
pub(crate) mod visitor;

pub use accounts::{ACTIVE, CLOSING, Peer, UNAUTHENTICATED, most_bytes};
pub use body::Guarded;
pub use connection::Connection;
pub use leftovers::Leftovers;
pub use request_gate::{Io, RequestBody, RequestGate, RequestPermit};
pub use visitor::{Accounts, Dashboard, Held, Limits, Slot, Visitor, Work};

/// Longest head of a request, in bytes.
pub const MAX_HEAD_BYTES: usize = 16 << 10;

/// Responses are passed to the HTTP library in slices of this many bytes; it writes when it holds
/// as many.
pub const SLICE_BYTES: usize = 16 << 10;

/// Bytes that are discarded after a refused request before the connection is closed.
const MAX_DRAINED_BYTES: usize = 256 << 10;

/// Most memory that one connection takes in admission and the HTTP library, in bytes, without the
/// response itself (see [`most_bytes`]): a head in two buffers that grow
/// by doubling, its parsed form, the write buffer, the tasks and, with TLS, the session and its
/// records.
pub const CONNECTION_BYTES: usize = 4 * MAX_HEAD_BYTES + 4 * SLICE_BYTES + (128 << 10);

/// Sizes of a socket's buffers, bytes; the kernel takes up to twice as much to receive, and three times to
/// send.
pub const SOCKET_BYTES: usize = 64 << 10;

/// Most memory, in bytes, of all connections other than dashboards.
pub const ADMISSION_BYTES: usize = (UNAUTHENTICATED + ACTIVE + CLOSING) * CONNECTION_BYTES;
