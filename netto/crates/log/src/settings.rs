//! When another log file is started, and how it is written.

use std::time::Duration;

/// The settings of a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSettings {
    /// Size at which another file is started; `None`: never.
    pub max_bytes: Option<u64>,
    /// Age at which another file is started; `None`: never.
    pub max_age: Option<Duration>,
    /// Number of old files to keep.
    pub keep: usize,
    /// How long snapshots may wait to be written together.
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
            // With the interval before and the time of a write on a busy host, this is less than
            // five seconds.
            flush: Duration::from_millis(3_500),
            exact: false,
            stacks: false,
        }
    }
}
