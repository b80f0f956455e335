//! When another log file is begun, and how it is written.

use std::time::Duration;

/// The settings of a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSettings {
    /// With so many bytes, another file is begun; `None`: never.
    pub max_bytes: Option<u64>,
    /// At this age, another file is begun; `None`: never.
    pub max_age: Option<Duration>,
    /// So many old files are kept.
    pub keep: usize,
    /// So long at most snapshots wait to be written together.
    pub flush: Duration,
    /// Whether nothing is rounded.
    pub exact: bool,
    /// Whether stacks are written, too.
    pub stacks: bool,
}

impl Default for LogSettings {
    fn default() -> Self {
        LogSettings {
            max_bytes: None,
            max_age: None,
            keep: 10,
            // With the interval before and what writing takes on a busy host, this is less than
            // five seconds.
            flush: Duration::from_millis(3_500),
            exact: false,
            stacks: false,
        }
    }
}
