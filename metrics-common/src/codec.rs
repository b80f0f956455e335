//! The messages of the WebSocket, as MessagePack.
//!
//! Structs are written with their field names, so that a reader may skip fields
//! that it does not know; the arrays inside outweigh the names by far.

use serde::{Deserialize, Serialize};

use crate::history::HistoryMessage;
use crate::packed::{self, Packed};
use crate::snapshot::{CpuModes, Info, OwnCost, Power, Snapshot};

/// Version of the wire and log formats. The major part changes when an older
/// reader would misread; the minor part when something was added.
pub const FORMAT_VERSION: (u16, u16) = (1, 1);

/// What the daemon sends on `/ws`, one message per frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerMessage {
    /// The first message: what the rows of the following snapshots mean. It comes
    /// again, before the first snapshot that it holds for, when that has changed
    /// because a kernel module came or went.
    Hello(Box<Info>),
    /// What was before, to clients that have asked for it (`/ws?history`).
    History(Box<HistoryMessage>),
    /// One interval.
    Snapshot(Box<Snapshot>),
    /// The last message, with the reason why the daemon hangs up.
    Bye(String),
    /// Snapshots that are missing here (only in logs, since 1.1).
    Gap(Gap),
}

/// Snapshots that could not be written, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// How many are missing.
    pub snapshots: u64,
    /// [`Snapshot::sequence`] of the first.
    pub first_sequence: u64,
    /// [`Snapshot::sequence`] of the last.
    pub last_sequence: u64,
    /// [`Snapshot::time_unix_ns`] of the first.
    pub first_time_unix_ns: u64,
    /// [`Snapshot::time_unix_ns`] of the last.
    pub last_time_unix_ns: u64,
    /// The cause, for people.
    pub reason: String,
}

/// A message could not be written or understood.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// Writing failed; only possible for lack of memory.
    #[error("cannot encode a message: {0}")]
    Encode(#[from] rmp_serde::encode::Error),
    /// The bytes are not a message of this version.
    #[error("cannot decode a message of {length} bytes: {source}")]
    Decode {
        /// Bytes given.
        length: usize,
        /// What the decoder stumbled on.
        source: rmp_serde::decode::Error,
    },
}

/// Writes a value as MessagePack with field names.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, CodecError> {
    Ok(rmp_serde::to_vec_named(value)?)
}

/// Arrays in arrays and maps in maps that a message may have; none needs ten.
/// Each level takes a reader's stack, and a hostile message has nothing but levels.
const DEEPEST: usize = 32;

/// Reads a value written by [`encode`].
///
/// # Errors
/// If the bytes are something else, or nested too deeply.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, CodecError> {
    let mut decoder = rmp_serde::Deserializer::from_read_ref(bytes);
    decoder.set_max_depth(DEEPEST);
    T::deserialize(&mut decoder).map_err(|source| CodecError::Decode {
        length: bytes.len(),
        source,
    })
}

/// Reads a value without packed tables, as logs have it: a packed table may be
/// a million times as large as its bytes, and a log is read to its end.
///
/// # Errors
/// If the bytes are something else, or nested too deeply, or hold packed tables.
pub fn decode_unpacked<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, CodecError> {
    // Tables are packed in the binary form only, and serde knows no third one.
    let mut decoder = rmp_serde::Deserializer::from_read_ref(bytes).with_human_readable();
    decoder.set_max_depth(DEEPEST);
    T::deserialize(&mut decoder).map_err(|source| CodecError::Decode {
        length: bytes.len(),
        source,
    })
}

/// Up to so many CPUs a snapshot travels exact to the nanosecond; beyond, CPU
/// time is rounded to microseconds, so that 128 CPUs and 60 components fit into
/// 25 kB. The log is always exact.
pub const EXACT_CPUS: usize = 32;

/// A snapshot with its tables packed; read back as a [`Snapshot`].
#[derive(Serialize)]
struct PackedSnapshot<'a> {
    sequence: u64,
    time_unix_ns: u64,
    interval_ns: u64,
    cpus: &'a [u32],
    components: Packed,
    samples: Packed,
    split_basis: Packed,
    entries: Packed,
    ksoftirqd_rx_ns: Option<&'a [u64]>,
    cpu_modes: Packed,
    host_modes: &'a CpuModes,
    stacks_taken: &'a [u64],
    stacks_lost: &'a [u64],
    probe_missed: &'a [u64],
    power: &'a Option<Power>,
    own: &'a OwnCost,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum PackedMessage<'a> {
    Snapshot(PackedSnapshot<'a>),
}

/// Writes [`ServerMessage::Snapshot`] for the WebSocket, with packed tables.
///
/// # Errors
/// Only for lack of memory.
pub fn encode_packed(snapshot: &Snapshot) -> Result<Vec<u8>, CodecError> {
    let unit_ns = if snapshot.cpus.len() > EXACT_CPUS {
        1_000
    } else {
        1
    };
    let samples: packed::Rows = snapshot
        .samples
        .iter()
        .map(|row| Some(row.as_ref()?.iter().copied().map(u64::from).collect()))
        .collect();
    let split_basis: packed::Rows = snapshot
        .split_basis
        .iter()
        .map(|basis| Some(basis.values().to_vec()))
        .collect();
    let modes: Vec<Vec<u64>> = (0..CpuModes::NAMES.len())
        .map(|mode| {
            let of_cpu = |modes: &CpuModes| modes.values()[mode];
            snapshot.cpu_modes.iter().map(of_cpu).collect()
        })
        .collect();
    let pack = |rows: &packed::Rows, unit| packed::pack(rows.iter().map(|r| r.as_deref()), unit);
    encode(&PackedMessage::Snapshot(PackedSnapshot {
        sequence: snapshot.sequence,
        time_unix_ns: snapshot.time_unix_ns,
        interval_ns: snapshot.interval_ns,
        cpus: &snapshot.cpus,
        components: pack(&snapshot.components, unit_ns),
        samples: pack(&samples, 1),
        split_basis: pack(&split_basis, 1),
        entries: pack(&snapshot.entries, 1),
        ksoftirqd_rx_ns: snapshot.ksoftirqd_rx_ns.as_deref(),
        cpu_modes: packed::pack(modes.iter().map(|row| Some(row.as_slice())), unit_ns),
        host_modes: &snapshot.host_modes,
        stacks_taken: &snapshot.stacks_taken,
        stacks_lost: &snapshot.stacks_lost,
        probe_missed: &snapshot.probe_missed,
        power: &snapshot.power,
        own: &snapshot.own,
    }))
}
