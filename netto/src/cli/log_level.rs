//! How much netto says about itself.

use clap::ValueEnum;

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
    /// Name as the user writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        }
    }
}
