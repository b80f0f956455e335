//! Wall-clock times as text, in UTC.
//!
//! Pure: reads no clock.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const STAMP: &str = "%Y%m%dT%H%M%S%.3fZ";

/// For file names: `20261122T094501.123Z`. Later times sort after earlier ones.
pub fn stamp(unix_ns: u64) -> String {
    text(unix_ns, STAMP)
}

/// Parses such a name to nanoseconds since the Unix epoch; `None` if it is invalid.
pub fn of_stamp(stamp: &str) -> Option<u64> {
    let time = DateTime::strptime(STAMP, stamp).ok()?;
    let time = TimeZone::UTC.to_timestamp(time).ok()?;
    u64::try_from(time.as_nanosecond()).ok()
}

/// For people and programs (RFC 3339): `2026-11-22T09:45:01Z`.
pub fn rfc3339(unix_ns: u64) -> String {
    text(unix_ns, "%Y-%m-%dT%H:%M:%SZ")
}

pub(super) fn text(unix_ns: u64, format: &str) -> String {
    // All u64 times are before the year 2600.
    let time = Timestamp::from_nanosecond(unix_ns.into()).unwrap_or(Timestamp::MAX);
    time.strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, millis, name, text) in [
            (0, 0, "19700101T000000.000Z", "1970-01-01T00:00:00Z"),
            (
                951_827_696,
                7,
                "20000229T123456.007Z",
                "2000-02-29T12:34:56Z",
            ),
            (
                951_868_800,
                0,
                "20000301T000000.000Z",
                "2000-03-01T00:00:00Z",
            ),
            (
                1_798_761_599,
                999,
                "20261231T235959.999Z",
                "2026-12-31T23:59:59Z",
            ),
            (
                4_107_542_400,
                0,
                "21000301T000000.000Z",
                "2100-03-01T00:00:00Z",
            ),
        ] {
            let unix_ns = seconds * 1_000_000_000 + millis * 1_000_000;
            assert_eq!(stamp(unix_ns), name);
            assert_eq!(of_stamp(name), Some(unix_ns));
            assert_eq!(rfc3339(unix_ns), text);
        }
    }

    #[test]
    fn a_name_that_is_no_time_is_none() {
        for name in ["20261322T094501.123Z", "", "99991231T000000.000Z"] {
            assert_eq!(of_stamp(name), None, "{name}");
        }
    }
}
