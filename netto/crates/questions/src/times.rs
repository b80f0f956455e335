//! Times and spans typed by users, their meaning for a log, and the display of times. Reads no
//! clock; the caller supplies the time zone.

use std::fmt;
use std::str::FromStr;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

/// A time as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// With an offset from UTC: RFC 3339.
    Absolute(Timestamp),
    /// Date and time in the local time zone.
    Local(DateTime),
    /// A time of day in the local time zone: its first occurrence in the log.
    OfDay(Time),
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(moment) = text.parse::<Timestamp>() {
            return Ok(Moment::Absolute(moment));
        }
        // Only a date has a hyphen.
        if text.contains('-') {
            if let Ok(moment) = text.parse::<DateTime>() {
                return Ok(Moment::Local(moment));
            }
        } else if text.contains(':')
            && let Ok(time) = text.parse::<Time>()
        {
            return Ok(Moment::OfDay(time));
        }
        Err(
            "write a moment as 2026-05-01T14:30:00Z, as 2026-05-01T14:30 or as 14:30 (local time)"
                .to_owned(),
        )
    }
}

/// A length of time, nanoseconds, as in `90s`, `15m`, `2h` or `1h30m`.
///
/// # Errors
/// A sentence for the user.
pub fn duration_ns(text: &str) -> Result<u64, String> {
    let parsed: Result<SignedDuration, _> = text.parse();
    parsed
        .ok()
        .and_then(|duration| u64::try_from(duration.as_nanos()).ok())
        .filter(|&ns| ns > 0)
        .ok_or_else(|| "write a length of time as 90s, 15m or 2h".to_owned())
}

/// The selected part of a log, as typed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Begin.
    pub from: Option<Moment>,
    /// End.
    pub to: Option<Moment>,
    /// Length of the selected end of the log, nanoseconds.
    pub last_ns: Option<u64>,
}

/// A time span. It contains the intervals that end in it, so each interval is in only one of two
/// adjacent spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Exclusive begin, nanoseconds since the Unix epoch; `None`: from the beginning.
    pub after_unix_ns: Option<u64>,
    /// Inclusive end, nanoseconds since the Unix epoch.
    pub until_unix_ns: u64,
}

impl Span {
    /// All time.
    pub const EVER: Span = Span {
        after_unix_ns: None,
        until_unix_ns: u64::MAX,
    };

    /// Whether an interval that ends at this time belongs to it.
    pub fn holds(&self, end_unix_ns: u64) -> bool {
        self.after_unix_ns.is_none_or(|after| end_unix_ns > after)
            && end_unix_ns <= self.until_unix_ns
    }

    /// Whether the whole time lies in it.
    pub fn holds_all(&self, begin_unix_ns: u64, end_unix_ns: u64) -> bool {
        self.after_unix_ns
            .is_none_or(|after| begin_unix_ns >= after)
            && self.holds(end_unix_ns)
    }
}

/// An invalid span.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoSpan(String);

impl Wanted {
    /// The span within a log with these bounds. `end` is called only if the span is relative to it.
    ///
    /// # Errors
    /// If the span ends before it begins.
    pub fn within(
        &self,
        begin_unix_ns: u64,
        end: impl FnOnce() -> u64,
        zone: &TimeZone,
    ) -> Result<Span, NoSpan> {
        if let Some(last_ns) = self.last_ns {
            let end = end();
            return Ok(Span {
                after_unix_ns: Some(end.saturating_sub(last_ns)),
                until_unix_ns: end,
            });
        }
        let after = self
            .from
            .map(|from| unix_ns(from, begin_unix_ns, zone))
            .transpose()?;
        let until = self
            .to
            .map(|to| unix_ns(to, after.unwrap_or(begin_unix_ns), zone))
            .transpose()?;
        if let (Some(after), Some(until)) = (after, until)
            && until <= after
        {
            return Err(NoSpan(format!(
                "the span ends ({}) before it begins ({})",
                shown(until, zone),
                shown(after, zone)
            )));
        }
        Ok(Span {
            after_unix_ns: after,
            until_unix_ns: until.unwrap_or(u64::MAX),
        })
    }
}

/// A time in nanoseconds since the Unix epoch; for a time of day, its first occurrence from
/// `since_unix_ns` on.
fn unix_ns(moment: Moment, since_unix_ns: u64, zone: &TimeZone) -> Result<u64, NoSpan> {
    let impossible = |error: jiff::Error| NoSpan(format!("this moment cannot be: {error}"));
    let timestamp = match moment {
        Moment::Absolute(timestamp) => timestamp,
        Moment::Local(civil) => zone.to_timestamp(civil).map_err(impossible)?,
        Moment::OfDay(time) => {
            let since = timestamp(since_unix_ns).to_zoned(zone.clone()).datetime();
            let today = since.date().to_datetime(time);
            // `14:30` of a log that begins within that minute is its beginning.
            let minute = since.time().with().second(0).subsec_nanosecond(0).build();
            let is_over = time < minute.map_err(impossible)?;
            let day = if is_over {
                today.checked_add(1.day()).map_err(impossible)?
            } else {
                today
            };
            zone.to_timestamp(day).map_err(impossible)?
        }
    };
    u64::try_from(timestamp.as_nanosecond())
        .map_err(|_| NoSpan("no log is older than 1970".to_owned()))
}

fn timestamp(unix_ns: u64) -> Timestamp {
    // Every u64 of nanoseconds is before the year 2555.
    Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default()
}

/// The day in UTC.
pub fn utc_date(unix_ns: u64) -> Date {
    timestamp(unix_ns).to_zoned(TimeZone::UTC).date()
}

/// Date and time of day, to the second.
pub fn shown(unix_ns: u64, zone: &TimeZone) -> String {
    let zoned = timestamp(unix_ns).to_zoned(zone.clone());
    zoned.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Time of day, to the second.
pub fn shown_time(unix_ns: u64, zone: &TimeZone) -> String {
    let zoned = timestamp(unix_ns).to_zoned(zone.clone());
    zoned.strftime("%H:%M:%S").to_string()
}

/// RFC 3339 in UTC, to the nanosecond.
#[derive(Debug, Clone, Copy)]
pub struct Rfc3339(pub u64);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.9}", timestamp(self.0))
    }
}

/// A length of time in at most two units: `1 h 30 min`, `12.5 s`.
pub fn length(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    let whole = (seconds.round()) as u64;
    match whole {
        0..60 => {
            let text = format!("{seconds:.1}");
            format!("{} s", text.strip_suffix(".0").unwrap_or(&text))
        }
        60..3_600 => format!("{} min {} s", whole / 60, whole % 60),
        3_600..86_400 => format!("{} h {} min", whole / 3_600, whole % 3_600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn berlin() -> TimeZone {
        TimeZone::fixed(jiff::tz::offset(2))
    }

    fn at(text: &str) -> u64 {
        u64::try_from(text.parse::<Timestamp>().unwrap().as_nanosecond()).unwrap()
    }

    fn wanted(from: Option<&str>, to: Option<&str>) -> Wanted {
        Wanted {
            from: from.map(|text| text.parse().unwrap()),
            to: to.map(|text| text.parse().unwrap()),
            last_ns: None,
        }
    }

    #[test]
    fn a_time_of_day_is_the_first_within_the_log_and_then_the_first_after_the_begin() {
        let begin = at("2026-05-01T21:15:30.5Z"); // 23:15:30 there
        let span = |from, to| wanted(from, to).within(begin, || 0, &berlin());
        let next_day = span(Some("14:30"), Some("02:00")).unwrap();
        assert_eq!(next_day.after_unix_ns, Some(at("2026-05-02T12:30:00Z")));
        assert_eq!(next_day.until_unix_ns, at("2026-05-03T00:00:00Z"));
        let same = span(Some("23:15"), Some("23:20:30")).unwrap();
        assert_eq!(same.after_unix_ns, Some(at("2026-05-01T21:15:00Z")));
        assert_eq!(same.until_unix_ns, at("2026-05-01T21:20:30Z"));
    }

    #[test]
    fn a_moment_may_be_absolute_or_local() {
        let span = wanted(Some("2026-05-01T10:00:00Z"), Some("2026-05-01T13:00"));
        let span = span.within(0, || 0, &berlin()).unwrap();
        assert_eq!(span.after_unix_ns, Some(at("2026-05-01T10:00:00Z")));
        assert_eq!(span.until_unix_ns, at("2026-05-01T11:00:00Z"));
        let backwards = wanted(Some("2026-05-01T13:00"), Some("2026-05-01T10:00:00Z"));
        let error = backwards.within(0, || 0, &berlin()).unwrap_err();
        assert!(error.to_string().contains("before it begins"), "{error}");
    }

    #[test]
    fn the_last_is_counted_from_the_end_of_the_log() {
        let wanted = Wanted {
            last_ns: Some(duration_ns("90s").unwrap()),
            ..Wanted::default()
        };
        let span = wanted.within(0, || 100_000_000_000, &berlin()).unwrap();
        assert!(!span.holds(10_000_000_000) && span.holds(10_000_000_001));
        assert!(span.holds(100_000_000_000) && !span.holds(100_000_000_001));
    }

    #[test]
    fn what_is_no_time_is_refused_with_what_would_be_one() {
        for text in ["", "noon", "25:00", "14", "-14:30", "2026-13-01T00:00:00Z"] {
            let error = text.parse::<Moment>().unwrap_err();
            assert!(error.contains("14:30"), "{text}: {error}");
        }
        for text in ["", "0s", "-5m", "15", "five"] {
            assert!(duration_ns(text).unwrap_err().contains("15m"), "{text}");
        }
        assert_eq!(duration_ns("1h30m"), Ok(5_400_000_000_000));
    }

    #[test]
    fn moments_and_lengths_read_as_people_write_them() {
        let moment = at("2026-05-01T21:15:30.5Z");
        assert_eq!(shown(moment, &berlin()), "2026-05-01 23:15:30");
        assert_eq!(shown_time(moment, &berlin()), "23:15:30");
        assert_eq!(
            Rfc3339(moment).to_string(),
            "2026-05-01T21:15:30.500000000Z"
        );
        assert!(shown(u64::MAX, &TimeZone::UTC).starts_with("2554-"));
        for (seconds, text) in [
            (0.5, "0.5 s"),
            (12.0, "12 s"),
            (90.0, "1 min 30 s"),
            (5_400.0, "1 h 30 min"),
            (90_000.0, "1 d 1 h"),
        ] {
            assert_eq!(length((seconds * 1e9) as u64), text);
        }
    }
}
