//! The findings of a series: problems in its files, and why files make no series. Pure.

use netto_log_format::LogError;
use serde::Serialize;

/// Problems in files, and intervals that were not counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Findings {
    /// Stretches of damage that were skipped.
    pub damaged_stretches: u64,
    /// Files that end in the middle of a block.
    pub cut_files: u64,
    /// Messages of a newer netto.
    pub unknown_messages: u64,
    /// Intervals that occurred more than once.
    pub repeated_intervals: u64,
    /// Intervals of another run of netto in the same time.
    pub overlapping_intervals: u64,
    /// Intervals with impossible values.
    pub implausible_intervals: u64,
    /// Intervals whose description is lost.
    pub undescribed_intervals: u64,
    /// Files that could not be read completely, and why.
    pub problems: Vec<String>,
}

/// Why files make no series.
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

/// The problem of a log, in words that follow its name.
pub(super) fn wording(error: &LogError) -> String {
    match error {
        LogError::NotALog => {
            "is no log of netto's: it does not begin with \"NETTOLOG\", nor with a frame".to_owned()
        }
        other => other.to_string(),
    }
}
