//! What is left to say of a series besides its intervals: what was wrong with its files, why files
//! make none, and what stands in for a description that is lost. Pure.

use metrics_common::{Availability, ComponentInfo, Info};
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

/// The description of intervals whose own is lost: rows as this netto has them.
pub(super) fn undescribed() -> Info {
    Info {
        version: "unknown".to_owned(),
        kernel: "unknown".to_owned(),
        hostname: "unknown".to_owned(),
        boot_id: String::new(),
        started_unix_ns: 0,
        user_period_ms: 0,
        frequency_hz: 0,
        sampler: None,
        max_overhead_ratio: None,
        possible_cpus: 0,
        numa_nodes: Vec::new(),
        components: ComponentInfo::table(|_| Availability::by("unknown")),
        probes: Vec::new(),
        missable: Vec::new(),
        power: Availability::missing("the log has lost its description"),
        instruments: Vec::new(),
        notes: vec![
            "The log has lost its description: components are named as this netto names them."
                .to_owned(),
        ],
    }
}
