//! The daemon's own log: to standard error, plain, and never in the way.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::cli::LogLevel;

/// Sets up logging for the whole process; a second call changes nothing.
///
/// systemd's journal has its own clock, so lines carry no time there.
pub fn init(level: LogLevel) {
    let level = level.as_str();
    let builder = tracing_subscriber::fmt()
        // The HTTP library logs each malformed request; netto counts them instead.
        .with_env_filter(EnvFilter::new(format!(
            "warn,actix_http::h1::dispatcher=off,netto={level}"
        )))
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_target(false)
        // If standard error is closed, errors cannot be reported.
        .log_internal_errors(false);
    let under_systemd = std::env::var_os("JOURNAL_STREAM").is_some();
    // The only error is that logging was set up before.
    let _ = if under_systemd {
        builder.without_time().try_init()
    } else {
        builder.try_init()
    };
}
