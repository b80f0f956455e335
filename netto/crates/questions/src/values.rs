//! Values that are checked as they are read, with words that follow the option's name.

use std::error::Error;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::num::{IntErrorKind, ParseIntError};
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
        let value: Result<T, Refused> = text.parse().map_err(Into::into);
        let value = match value {
            Ok(value) if range.contains(&value) => return Ok(value),
            Ok(value) => value.to_string(),
            Err(error) if is_beyond_type(&error) => text.to_owned(),
            Err(error) => return Err(error),
        };
        let unit = if unit.is_empty() {
            String::new()
        } else {
            format!(" {unit}")
        };
        let (from, to) = (range.start(), range.end());
        Err(Impossible(format!("must be {from} to {to}{unit}, not {value}")).into())
    }
}

/// Whether a number is outside of all that its type can hold.
fn is_beyond_type(error: &Refused) -> bool {
    let error = error.downcast_ref::<ParseIntError>();
    error.is_some_and(|error| {
        matches!(
            error.kind(),
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow
        )
    })
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

/// The address of an interface to listen on.
pub fn listen_address(text: &str) -> Result<IpAddr, Refused> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let message = match text.parse::<SocketAddr>() {
        Ok(both) => format!(
            "takes an address only: write --address {} --port {}",
            both.ip(),
            both.port()
        ),
        Err(_) => format!("takes an IP address such as 127.0.0.1 or ::, not \"{text}\""),
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_outside_of_its_range_or_type_is_told_the_range() {
        let read = in_range(1..=100_u8, "Hz");
        assert_eq!(read("100").unwrap(), 100);
        for (text, told) in [
            ("0", "must be 1 to 100 Hz, not 0"),
            ("007000", "must be 1 to 100 Hz, not 007000"),
            ("x", "invalid digit found in string"),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), told);
        }
    }

    #[test]
    fn an_address_with_a_port_is_told_where_the_port_goes() {
        for (text, told) in [
            (
                "[::1]:999",
                "takes an address only: write --address ::1 --port 999",
            ),
            (
                "localhost",
                "takes an IP address such as 127.0.0.1 or ::, not \"localhost\"",
            ),
        ] {
            assert_eq!(listen_address(text).unwrap_err().to_string(), told);
        }
    }
}
