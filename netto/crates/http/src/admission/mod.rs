//! Admission: which connections are accepted, how long they stay, and how much each may have in
//! flight.
//!
//! It stands between the socket and the HTTP library, which alone would read as much as a client
//! sends and buffer as much as it answers. `slots` assigns connection slots, `connection` holds
//! the state of each connection, `request_gate` passes one request at a time, `progress` closes
//! connections that read too slowly, `body` sends responses in slices, `response_budget` shares the
//! memory of long ones, `leftovers` returns memory. None of it knows a route or a snapshot.

mod body;
mod connection;
mod gate;
mod leftovers;
mod progress;
mod request_gate;
mod response_budget;
mod slots;

pub use body::Guarded;
pub use connection::{Connection, Peer};
pub use leftovers::Leftovers;
pub use request_gate::{Io, RequestBody, RequestGate, RequestPermit};
pub use response_budget::{BudgetShare, BudgetedBody};
pub use slots::{Dashboard, Limits, Slot, Slots, Visitor};

/// Slots for unauthenticated connections: new ones, and those whose requests were refused.
pub const UNAUTHENTICATED: usize = 64;

/// Slots for active connections, which got a successful response and are not dashboards: scrapers,
/// scripts, browsers loading the page.
pub const ACTIVE: usize = 32;

/// Connections that may be closing, beyond those that hold a slot.
pub const CLOSING: usize = 64;

/// Longest head of a request, in bytes.
pub const MAX_HEAD_BYTES: usize = 16 << 10;

/// Responses are passed to the HTTP library in slices of this many bytes; it writes when it holds
/// as many.
pub const SLICE_BYTES: usize = 16 << 10;

/// Bytes that are discarded after a refused request before the connection is closed.
const MAX_DRAINED_BYTES: usize = 256 << 10;

/// Most memory that one connection takes in admission and the HTTP library, in bytes, without the
/// response itself (responses are shared, see `docs/SECURITY.md`): a head in two buffers that grow
/// by doubling, its parsed form, the write buffer, the tasks and, with TLS, the session and its
/// records.
pub const CONNECTION_BYTES: usize = 4 * MAX_HEAD_BYTES + 4 * SLICE_BYTES + (128 << 10);

/// Most memory, in bytes, of all connections other than dashboards.
pub const ADMISSION_BYTES: usize = (UNAUTHENTICATED + ACTIVE + CLOSING) * CONNECTION_BYTES;
