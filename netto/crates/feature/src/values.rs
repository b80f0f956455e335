//! Values that are checked as they are read, with words that follow the option's name.

use std::error::Error;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// What is wrong with a value that could be read: `must be 1 to 100 Hz, not 0`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Impossible(pub String);

/// Why a value is refused.
pub type Refused = Box<dyn Error + Send + Sync>;

/// Reads a value that must lie in this range.
pub fn in_range<T>(
    range: RangeInclusive<T>,
    unit: &'static str,
) -> impl Fn(&str) -> Result<T, Refused> + Clone
where
    T: FromStr<Err: Into<Refused>> + PartialOrd + Display + Clone,
{
    move |text| {
        let value: T = text.parse().map_err(Into::into)?;
        if range.contains(&value) {
            return Ok(value);
        }
        let unit = if unit.is_empty() {
            String::new()
        } else {
            format!(" {unit}")
        };
        let (from, to) = (range.start(), range.end());
        Err(Impossible(format!("must be {from} to {to}{unit}, not {value}")).into())
    }
}

/// A name under which a host may be addressed.
pub fn host_name(name: &str) -> Result<String, Refused> {
    let strange = |c: char| !(c.is_ascii_alphanumeric() || "-._".contains(c));
    if !name.is_empty() && !name.contains(strange) {
        return Ok(name.to_owned());
    }
    let message = format!(
        "takes a name without scheme, port or path, such as netto.example.com, not \"{name}\""
    );
    Err(Impossible(message).into())
}

/// A text that `understand` makes something of; nothing at all is left to whoever uses it.
pub fn understood<T>(
    understand: fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<String, Refused> + Clone {
    move |text| {
        let text = text.trim();
        if !text.is_empty() {
            understand(text).map_err(Impossible)?;
        }
        Ok(text.to_owned())
    }
}
