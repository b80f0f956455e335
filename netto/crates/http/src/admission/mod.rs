//! The door: which connections are let in, how long they stay, and what each
//! may have in flight.
//!
//! It stands between the socket and the HTTP library, which by itself reads as
//! much as a client sends and keeps as much as it answers. `places` decides who
//! stays, `connection` is what is known of each connection, `gate` lets one request at
//! a time through, `progress` ends connections that take nothing, `body` hands out
//! answers in slices, `malformed` counts what is no HTTP, `leftovers` gives memory
//! back. None of it knows a route or a snapshot.

mod body;
mod connection;
mod gate;
mod leftovers;
mod places;
mod progress;
mod request_gate;

pub use body::Guarded;
pub use connection::Connection;
pub use leftovers::Leftovers;
pub use places::{Dashboard, Limits, Place, Places, Visitor};
pub use request_gate::{Io, RequestBody, RequestGate, Turn};

/// Connections that have not been given anything yet: new ones, and those whose
/// requests were refused.
pub const UNAUTHENTICATED: usize = 64;

/// Connections that were answered well and are no dashboards: scrapers, scripts,
/// browsers that load the page.
pub const ACTIVE: usize = 32;

/// Connections that may be closing, beyond those that have a place.
pub const CLOSING: usize = 64;

/// Longest head of a request, in bytes.
pub const MAX_HEAD_BYTES: usize = 16 << 10;

/// Answers are handed to the HTTP library in slices of so many bytes, and it
/// writes when it holds as many.
pub const SLICE_BYTES: usize = 16 << 10;

/// What may follow a request that is refused, before the connection is cut, in bytes.
const MAX_DRAINED_BYTES: usize = 256 << 10;

/// Most memory that one connection takes at the door and in the HTTP library, in
/// bytes, the answer itself not counted (answers are shared, see `docs/SECURITY.md`):
/// a head in two buffers that grow by doubling, its parsed form, the buffer of what
/// is to be written, the tasks and, with TLS, the session and its records.
pub const CONNECTION_BYTES: usize = 4 * MAX_HEAD_BYTES + 4 * SLICE_BYTES + (128 << 10);

/// Most memory, in bytes, that all connections but the dashboards take.
pub const DOOR_BYTES: usize = (UNAUTHENTICATED + ACTIVE + CLOSING) * CONNECTION_BYTES;
