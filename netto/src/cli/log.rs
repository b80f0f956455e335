//! The options of the log file and the command about such files, with the sizes and times that they take.

use std::fmt;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};

use netto_feature::values::in_range;

/// The group of options of `--log-file`.
pub const GROUP: &str = "The log file";

/// Options of `--log-file`.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = GROUP)]
pub struct LogArgs {
    /// Begin another log file when this one has so many bytes, such as 500M (k, M, G: powers of
    /// 1000); the old one gets the time as the end of its name
    #[arg(long, value_name = "SIZE", value_parser = in_range(Bytes(10_000)..=Bytes(1_000_000_000_000), ""))]
    pub log_max_size: Option<Bytes>,
    /// Begin another log file when this one is so old, such as 24h (s, m, h, d)
    #[arg(long, value_name = "TIME", value_parser = in_range(Age(Duration::from_secs(1))..=Age(Duration::from_secs(10_000 * 86_400)), ""))]
    pub log_max_age: Option<Age>,
    /// How many old log files to keep; the oldest are removed [default: 10]
    #[arg(long, value_name = "COUNT", value_parser = in_range(0..=100_000_usize, ""))]
    pub log_keep: Option<usize>,
    /// How long snapshots may wait to be written together, which takes less room,
    /// milliseconds: what a SIGKILL can cost [default: 3500]
    #[arg(long, value_name = "MS", value_parser = in_range(0..=5_000_u64, "ms"))]
    pub log_flush: Option<u64>,
    /// Keep every nanosecond and count instead of rounding them by less than what chance scatters:
    /// a log of three times the size [default: false]
    #[arg(long, value_name = "BOOL")]
    pub log_exact: Option<bool>,
    /// Write the sampled stacks of networking into the log, too, once a minute [default: false]
    #[arg(long, value_name = "BOOL")]
    pub log_stacks: Option<bool>,
}

/// What can be done with log files.
#[derive(Debug, Subcommand)]
pub enum LogCommand {
    /// Say what log files hold, and what of them is damaged; exit code 1 if anything is
    Verify(VerifyArgs),
}

/// Options of `netto log verify`.
#[derive(Debug, Clone, Args)]
pub struct VerifyArgs {
    /// The files
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// For programs: an array of JSON with an object for each file
    #[arg(long)]
    pub json: bool,
}

/// A number of bytes, as the user writes it: `500M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// A length of time, as the user writes it: `24h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Age(pub Duration);

const SIZES: [(&str, u64); 4] = [
    ("G", 1_000_000_000),
    ("M", 1_000_000),
    ("k", 1_000),
    ("", 1),
];
const SECONDS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

/// A whole number and one of these units behind it, whatever its case.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let (_, scale) = units
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    let number: NonZeroU64 = digits.parse().ok()?;
    number.get().checked_mul(*scale)
}

/// The same number with the largest unit that leaves it whole.
fn write_scaled(f: &mut fmt::Formatter<'_>, number: u64, units: &[(&str, u64)]) -> fmt::Result {
    let fits = |scale: u64| number.is_multiple_of(scale);
    match units.iter().find(|(_, scale)| fits(*scale)) {
        Some((name, scale)) => write!(f, "{}{name}", number / scale),
        None => write!(f, "{number}"),
    }
}

impl FromStr for Bytes {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number =
            scaled(text, &SIZES).ok_or("a size is a number with k, M or G, such as 500M")?;
        Ok(Bytes(number))
    }
}

impl FromStr for Age {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let seconds =
            scaled(text, &SECONDS).ok_or("a time is a number with s, m, h or d, such as 24h")?;
        Ok(Age(Duration::from_secs(seconds)))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0, &SIZES)
    }
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0.as_secs(), &SECONDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_understood_and_shown_as_they_are_written() {
        for (text, bytes) in [
            ("1", 1),
            ("10k", 10_000),
            ("500M", 500_000_000),
            ("2G", 2_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)));
            assert_eq!(Bytes(bytes).to_string(), text);
        }
        for (text, seconds) in [("90s", 90), ("5m", 300), ("1h", 3_600), ("7d", 604_800)] {
            assert_eq!(text.parse(), Ok(Age(Duration::from_secs(seconds))));
            assert_eq!(Age(Duration::from_secs(seconds)).to_string(), text);
        }
        assert_eq!("3K".parse(), Ok(Bytes(3_000)));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "M",
            "0",
            "-1",
            "1T",
            "1.5G",
            "1 M",
            "99999999999G",
            "1ä",
        ] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
            assert!(text.parse::<Age>().is_err(), "{text}");
        }
        assert!("5".parse::<Age>().is_err(), "five of what?");
    }
}
