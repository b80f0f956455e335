//! Values as text files write them: exact times, addresses, protocols, flags. Each answers what is
//! wrong in words that follow the name of the value.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::record::{Addresses, protocol};

const SECOND_NS: u64 = 1_000_000_000;
const FLAGS: [(u8, u8); 8] = [
    (b'C', 0x80),
    (b'E', 0x40),
    (b'U', 0x20),
    (b'A', 0x10),
    (b'P', 0x08),
    (b'R', 0x04),
    (b'S', 0x02),
    (b'F', 0x01),
];
const PROTOCOLS: [(&str, u8); 12] = [
    ("ICMP", protocol::ICMP),
    ("IGMP", protocol::IGMP),
    ("TCP", protocol::TCP),
    ("UDP", protocol::UDP),
    ("GRE", protocol::GRE),
    ("ESP", protocol::ESP),
    ("AH", protocol::AH),
    ("ICMP6", protocol::ICMPV6),
    ("ICMPv6", protocol::ICMPV6),
    ("IPv6-ICMP", protocol::ICMPV6),
    ("OSPF", protocol::OSPF),
    ("SCTP", protocol::SCTP),
];

/// Seconds with a fraction, in nanoseconds; digits behind the ninth are cut off.
pub fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("takes seconds such as 1234567890.123, not \"{text}\"");
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let nanoseconds = fraction
        .bytes()
        .chain(std::iter::repeat(b'0'))
        .take(9)
        .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    let all = whole.checked_mul(SECOND_NS);
    all.and_then(|ns| ns.checked_add(nanoseconds))
        .ok_or_else(wrong)
}

/// A date and time of day, or seconds since 1970. Without a zone, a date is UTC.
pub fn moment(text: &str) -> Result<u64, String> {
    if !text.contains('-') {
        return seconds(text);
    }
    let wrong = || format!("takes a time such as 2024-05-01 12:00:00.123, not \"{text}\"");
    let date: DateTime = text.parse().map_err(|_| wrong())?;
    let zoned = date.to_zoned(TimeZone::UTC).map_err(|_| wrong())?;
    u64::try_from(zoned.timestamp().as_nanosecond()).map_err(|_| wrong())
}

/// A whole number; hexadecimal with 0x.
pub fn number<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let number = parsed.map_err(|_| format!("takes a whole number, not \"{text}\""))?;
    T::try_from(number).map_err(|_| format!("is too large: {text}"))
}

/// A port, or type.code, or both in one number.
pub fn port(text: &str) -> Result<u16, String> {
    match text.split_once('.') {
        Some((kind, code)) => {
            let (kind, code): (u8, u8) = (number(kind)?, number(code)?);
            Ok(u16::from_be_bytes([kind, code]))
        }
        None => number(text),
    }
}

/// The number or name of a protocol.
pub fn protocol(text: &str) -> Result<u8, String> {
    let mut names = PROTOCOLS.iter();
    match names.find(|(name, _)| name.eq_ignore_ascii_case(text)) {
        Some((_, number)) => Ok(*number),
        None => number(text)
            .map_err(|_| format!("takes a number of 0 to 255, or TCP, UDP, …, not \"{text}\"")),
    }
}

/// TCP flags: a number, or letters such as `...AP.SF`.
pub fn flags(text: &str) -> Result<u8, String> {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return number(text);
    }
    text.bytes().try_fold(0, |flags, letter| {
        let mut known = FLAGS.iter();
        match known.find(|(name, _)| *name == letter) {
            Some((_, flag)) => Ok(flags | flag),
            None if letter == b'.' => Ok(flags),
            None => Err(format!(
                "takes a number, or letters of CEUAPRSF, not \"{text}\""
            )),
        }
    })
}

/// An address.
pub fn address(text: &str) -> Result<IpAddr, String> {
    text.parse()
        .map_err(|_| format!("takes an IP address, not \"{text}\""))
}

/// Both addresses, if they are of one family.
pub fn addresses(source: IpAddr, destination: IpAddr) -> Result<Addresses, String> {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Ok(v4(source, destination)),
        (IpAddr::V6(source), IpAddr::V6(destination)) => Ok(v6(source, destination)),
        _ => Err(format!(
            "must be of the source's family, and {destination} is not of {source}'s"
        )),
    }
}

fn v4(source: Ipv4Addr, destination: Ipv4Addr) -> Addresses {
    Addresses::V4 {
        source,
        destination,
    }
}

fn v6(source: Ipv6Addr, destination: Ipv6Addr) -> Addresses {
    Addresses::V6 {
        source,
        destination,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact_to_the_nanosecond() {
        for (text, ns) in [
            ("0", 0),
            ("1", 1_000_000_000),
            ("1.5", 1_500_000_000),
            ("1234567890.123456789", 1_234_567_890_123_456_789),
            ("1234567890.0000000019", 1_234_567_890_000_000_001),
            ("7.", 7_000_000_000),
        ] {
            assert_eq!(seconds(text), Ok(ns), "{text}");
        }
        for text in [
            "",
            ".5",
            "-1",
            "1e9",
            "1.5.5",
            "99999999999999",
            "1.-5",
            "ä",
        ] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn dates_are_utc() {
        assert_eq!(moment("1970-01-01 00:00:01.5"), Ok(1_500_000_000));
        assert_eq!(moment("2024-05-01 12:00:00"), Ok(1_714_564_800_000_000_000));
        assert_eq!(moment("12.25"), Ok(12_250_000_000));
        for text in [
            "1960-01-01 00:00:00",
            "2024-13-01 00:00:00",
            "-",
            "yesterday",
        ] {
            assert!(moment(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ports_flags_and_protocols_are_numbers_or_words() {
        assert_eq!(port("443"), Ok(443));
        assert_eq!(port("8.0"), Ok(0x0800));
        assert_eq!(port("3.13"), Ok(0x030d));
        assert!(port("70000").is_err());
        assert!(port("300.1").is_err());
        assert_eq!(flags("27"), Ok(27));
        assert_eq!(flags("0x1b"), Ok(27));
        assert_eq!(flags("...AP.SF"), Ok(27));
        assert_eq!(flags("......"), Ok(0));
        assert!(flags("...X").is_err());
        assert!(flags("256").is_err());
        assert_eq!(protocol("tcp"), Ok(6));
        assert_eq!(protocol("132"), Ok(132));
        assert!(protocol("256").is_err());
    }
}
