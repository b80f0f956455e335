//! How much netto says about itself.

use clap::ValueEnum;
use tracing_subscriber::filter::LevelFilter;

/// How much the daemon says about itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Only what stops netto
    Error,
    /// Also what is wrong
    Warn,
    /// Also what is going on
    #[default]
    Info,
    /// Also details
    Debug,
    /// Everything
    Trace,
}

impl LogLevel {
    /// What `tracing` lets through.
    pub fn filter(self) -> LevelFilter {
        match self {
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
            LogLevel::Trace => LevelFilter::TRACE,
        }
    }
}
