//! Values that are checked as they are read, with words that follow the option's name.

use std::error::Error;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::num::{IntErrorKind, ParseIntError};
use std::ops::RangeInclusive;
use std::path::PathBuf;
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

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// The address of an interface.
    Ip(IpAddr),
    /// A socket in the file system.
    Unix(UnixAddress),
}

/// A socket in the file system, and who may connect to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnixAddress {
    /// An absolute path.
    pub path: PathBuf,
    /// As of chmod.
    pub mode: u32,
    /// If it is not that of the process.
    pub group: Option<String>,
}

/// What a UNIX socket's address begins with.
pub const UNIX: &str = "unix:";

/// Longest path of a UNIX socket: `sun_path` of unix(7) without its end.
const LONGEST_PATH_BYTES: usize = 107;

fn unix_address(text: &str) -> Result<UnixAddress, String> {
    let example = "unix:/run/netto.sock?mode=660&group=adm";
    let (path, rest) = text.split_once('?').unwrap_or((text, ""));
    if !path.starts_with('/') || path.ends_with('/') || path.len() > LONGEST_PATH_BYTES {
        return Err(format!(
            "takes an absolute path of up to {LONGEST_PATH_BYTES} bytes behind {UNIX}, as in {example}"
        ));
    }
    let mut address = UnixAddress {
        path: path.into(),
        mode: 0o660,
        group: None,
    };
    for (key, value) in form_urlencoded::parse(rest.as_bytes()) {
        let mode = u32::from_str_radix(&value, 8).ok();
        match (&*key, mode.filter(|mode| *mode <= 0o777)) {
            ("mode", Some(mode)) => address.mode = mode,
            ("mode", None) => return Err(format!("mode is octal, as in {example}, not {value}")),
            ("group", _) => address.group = Some(value.into_owned()),
            _ => return Err(format!("knows mode and group, not {key}: {example}")),
        }
    }
    Ok(address)
}

/// An address to listen on.
pub fn listen_address(text: &str) -> Result<ListenAddress, Refused> {
    if let Some(socket) = text.strip_prefix(UNIX) {
        return Ok(ListenAddress::Unix(
            unix_address(socket).map_err(Impossible)?,
        ));
    }
    if let Ok(address) = text.parse() {
        return Ok(ListenAddress::Ip(address));
    }
    let message = match text.parse::<SocketAddr>() {
        Ok(both) => format!(
            "takes an address only: write --address {} --port {}",
            both.ip(),
            both.port()
        ),
        Err(_) => {
            format!("takes an IP address such as 127.0.0.1 or ::, or {UNIX}PATH, not \"{text}\"")
        }
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
        for (text, message) in [
            ("0", "must be 1 to 100 Hz, not 0"),
            ("007000", "must be 1 to 100 Hz, not 007000"),
            ("x", "invalid digit found in string"),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_socket_has_a_path_a_mode_and_a_group() {
        let unix = |path: &str, mode, group: Option<&str>| {
            ListenAddress::Unix(UnixAddress {
                path: path.into(),
                mode,
                group: group.map(str::to_owned),
            })
        };
        for (text, expected) in [
            ("unix:/run/n", unix("/run/n", 0o660, None)),
            ("unix:/run/n?mode=0600", unix("/run/n", 0o600, None)),
            ("unix:/n?group=adm&mode=666", unix("/n", 0o666, Some("adm"))),
        ] {
            assert_eq!(listen_address(text).unwrap(), expected);
        }
        for text in [
            "unix:",
            "unix:x",
            "unix:/",
            "unix:/run/",
            "unix:/n?mode=888",
            "unix:/n?mode=1777",
            "unix:/n?owner=me",
            &format!("unix:/{}", "n".repeat(107)),
        ] {
            assert!(listen_address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_with_a_port_is_told_where_the_port_goes() {
        for (text, message) in [
            (
                "[::1]:999",
                "takes an address only: write --address ::1 --port 999",
            ),
            (
                "localhost",
                "takes an IP address such as 127.0.0.1 or ::, or unix:PATH, not \"localhost\"",
            ),
        ] {
            assert_eq!(listen_address(text).unwrap_err().to_string(), message);
        }
    }
}
