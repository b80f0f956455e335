//! A value as somebody gave it: which of argument and file goes first, and the words that
//! blame the right one when it is impossible.

use std::fmt::Display;
use std::ops::RangeInclusive;

use toml::Spanned;

use super::ConfigError;
use super::file::Place;
use crate::cli::HostArgs;

/// A value and who gave it: the flag, the variable, or the key and its line.
pub(super) struct Given<T> {
    value: T,
    by: String,
}

/// The value of an option, by its field's name: an argument, or else that of the file.
pub(super) fn given<T>(
    option: &str,
    host: &HostArgs,
    argument: Option<T>,
    key: Option<Spanned<T>>,
    place: &Place,
) -> Option<Given<T>> {
    if let Some(value) = argument {
        let by = argument_name(option, host);
        return Some(Given { value, by });
    }
    let key = key?;
    let by = place.line(key.span().start) + &option.replace('_', "-");
    let value = key.into_inner();
    Some(Given { value, by })
}

/// An option as its user has written it: `--user-period`, or `NETTO_USER_PERIOD`.
fn argument_name(option: &str, host: &HostArgs) -> String {
    if host.by_environment.iter().any(|id| id == option) {
        format!("NETTO_{}", option.to_uppercase())
    } else {
        format!("--{}", option.replace('_', "-"))
    }
}

/// The value, if it lies in this range.
pub(super) fn in_range<T: PartialOrd + Display>(
    given: Given<T>,
    range: &RangeInclusive<T>,
    unit: &str,
) -> Result<T, ConfigError> {
    if range.contains(&given.value) {
        return Ok(given.value);
    }
    let range = format!("{} to {} {unit}", range.start(), range.end());
    Err(ConfigError::OutOfRange {
        option: given.by,
        range: range.trim_end().to_owned(),
        value: given.value.to_string(),
    })
}

impl<T> Given<T> {
    /// What can be made of the value, or what is wrong with it.
    pub(super) fn understood<U>(
        self,
        understand: impl FnOnce(T) -> Result<U, String>,
    ) -> Result<U, ConfigError> {
        understand(self.value).map_err(|message| ConfigError::Impossible {
            option: self.by,
            message,
        })
    }
}

/// The names, if each of them can be one.
pub(super) fn host_names(given: Given<Vec<String>>) -> Result<Vec<String>, ConfigError> {
    let strange = |c: char| !(c.is_ascii_alphanumeric() || "-._".contains(c));
    let is_one = |name: &String| !name.is_empty() && !name.contains(strange);
    match given.value.iter().find(|name| !is_one(name)) {
        None => Ok(given.value),
        Some(name) => Err(ConfigError::NotAHostName {
            name: name.clone(),
            option: given.by,
        }),
    }
}
