//! What is wrong with a record that could not be read, and where.

use std::fmt;

/// Where in the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// A field of a line of text; both are counted from one.
    Field {
        /// The line.
        line: u64,
        /// The column of the table.
        column: usize,
    },
    /// A byte of a binary file, decompressed, counted from zero.
    Byte(u64),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Field { line, column } => write!(f, "line {line}, column {column}"),
            Location::Byte(offset) => write!(f, "byte {offset}"),
        }
    }
}

/// A record that was not understood. Reading goes on behind it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub struct RecordError {
    /// Where it is.
    pub place: Location,
    /// What is wrong.
    pub why: String,
}

/// What there is instead of a record.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// What the user must know of these records; nothing is wrong.
    #[error("{0}")]
    Note(String),
    /// So many packets have no record, as the records say themselves.
    #[error("{0} packets have no record")]
    NotListed(u64),
    /// This one was not understood.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The file cannot be read further.
    #[error("cannot read on: {0}")]
    Broken(#[from] std::io::Error),
}
