//! What is to become of the log file: when another one is begun, and how it is written.

use std::ops::RangeInclusive;
use std::time::Duration;

use netto_log::settings::LogSettings;

use super::ConfigError;
use super::file::FileOptions;
use super::given::{given, in_range};
use crate::cli::RunArgs;
use crate::cli::log::{Age, Bytes};

/// Sizes of a log file that can be asked for.
pub const LOG_MAX_SIZE: RangeInclusive<Bytes> = Bytes(10_000)..=Bytes(1_000_000_000_000);
/// Ages of a log file that can be asked for.
pub const LOG_MAX_AGE: RangeInclusive<Age> =
    Age(Duration::from_secs(1))..=Age(Duration::from_secs(10_000 * 86_400));
/// Numbers of old log files that can be kept.
pub const LOG_KEEP: RangeInclusive<usize> = 0..=100_000;
/// How long snapshots may be asked to wait to be written, milliseconds.
pub const LOG_FLUSH_MS: RangeInclusive<u64> = 0..=5_000;

/// What was asked for of the log file.
///
/// # Errors
/// An impossible value.
pub(super) fn resolve(args: &RunArgs, file: &mut FileOptions) -> Result<LogSettings, ConfigError> {
    let default = LogSettings::default();
    let (args, host) = (&args.log, &args.host);
    let keys = (
        file.log_max_size.take(),
        file.log_max_age.take(),
        file.log_keep.take(),
        file.log_flush.take(),
    );
    let place = &file.place;
    let max_bytes = given("log_max_size", host, args.log_max_size, keys.0, place)
        .map(|size| in_range(size, &LOG_MAX_SIZE, ""))
        .transpose()?;
    let max_age = given("log_max_age", host, args.log_max_age, keys.1, place)
        .map(|age| in_range(age, &LOG_MAX_AGE, ""))
        .transpose()?;
    let keep = given("log_keep", host, args.log_keep, keys.2, place)
        .map(|keep| in_range(keep, &LOG_KEEP, ""))
        .transpose()?;
    let flush = given("log_flush", host, args.log_flush, keys.3, place)
        .map(|ms| in_range(ms, &LOG_FLUSH_MS, "ms"))
        .transpose()?;
    Ok(LogSettings {
        max_bytes: max_bytes.map(|Bytes(bytes)| bytes),
        max_age: max_age.map(|Age(age)| age),
        keep: keep.unwrap_or(default.keep),
        flush: flush.map_or(default.flush, Duration::from_millis),
        exact: args.log_exact.or(file.log_exact).unwrap_or(default.exact),
        stacks: args
            .log_stacks
            .or(file.log_stacks)
            .unwrap_or(default.stacks),
    })
}
