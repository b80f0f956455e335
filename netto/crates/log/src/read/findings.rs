//! What is left to say of a series besides its intervals: what was wrong with its files, and why
//! files make none. Pure.

use metrics_common::log::LogError;
use serde::Serialize;

/// What was wrong with files, and what was not counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// Stretches of damage that were skipped.
    pub damaged_stretches: u64,
    /// Files that end in the middle of a block.
    pub cut_files: u64,
    /// Messages of a newer netto.
    pub unknown_messages: u64,
    /// Intervals that were there more than once.
    pub repeated_intervals: u64,
    /// Intervals of another run of netto in the same time.
    pub overlapping_intervals: u64,
    /// Intervals with values that cannot be.
    pub implausible_intervals: u64,
    /// Intervals whose description is lost.
    pub undescribed_intervals: u64,
    /// Files that could not be read, or not to their end, and why.
    pub problems: Vec<String>,
}

/// Files that make no series.
#[derive(Debug, thiserror::Error)]
pub enum SeriesError {
    /// The only file, or each of them, holds nothing.
    #[error("{0}")]
    Nothing(String),
    /// They belong to different hosts.
    #[error(
        "these logs are of different hosts: {first_path} of {first}, {other_path} of {other}; \
         give those of one host"
    )]
    DifferentHosts {
        /// The first file.
        first_path: String,
        /// Its host.
        first: String,
        /// A file of another host.
        other_path: String,
        /// That host.
        other: String,
    },
}

/// What is wrong with a log, behind its name.
pub(super) fn wording(error: &LogError) -> String {
    match error {
        LogError::NotALog => {
            "is no log of netto's: it does not begin with \"NETTOLOG\", nor with a frame".to_owned()
        }
        other => other.to_string(),
    }
}
