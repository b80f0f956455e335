//! Formats numbers and texts for people: fixed units, steady precision, escaped for HTML. Pure.

pub use metrics_common::snapshot::ratio;
pub use metrics_common::text::{count, cpus, escape_html, percent_tenths as percent};

/// Percent with two decimals below one, where one decimal would hide changes.
pub fn fine_percent(value: f64) -> String {
    match value {
        low if low > 0.0 && low < 0.005 => "<0.01".to_owned(),
        low if low > 0.0 && low < 0.995 => format!("{low:.2}"),
        _ => percent(value / 100.0),
    }
}

/// The length of the time shown as now: `over the last 12 s`.
pub fn window(interval_ns: u64) -> String {
    format!("over the last {}", length(interval_ns))
}

/// The length of an interval, or of several: `0.5 s`, `12 s`, `21.7 min`.
pub fn length(interval_ns: u64) -> String {
    match interval_ns as f64 / 1e9 {
        seconds if seconds < 9.95 => format!("{seconds:.1} s"),
        seconds => span(seconds * 1e3),
    }
}

/// Nanoseconds of CPU time as seconds with suitable precision.
pub fn cpu_seconds(ns: u128) -> String {
    let seconds = ns as f64 / 1e9;
    if ns == 0 {
        "0".to_owned()
    } else if seconds < 0.005 {
        "<0.01".to_owned()
    } else if seconds < 100.0 {
        format!("{seconds:.2}")
    } else {
        format!("{seconds:.0}")
    }
}

/// Milliseconds of CPU time per second, without the unit.
pub fn milliseconds(value: f64) -> String {
    match value {
        v if v <= 0.0 => "0".to_owned(),
        v if v < 0.05 => "<0.1".to_owned(),
        v => format!("{v:.1}"),
    }
}

/// A length of time: `90 s`, `5 min`.
pub fn span(ms: f64) -> String {
    match ms {
        short if short < 120_000.0 => format!("{:.0} s", short / 1e3),
        long if (long / 60_000.0).fract() < 0.05 => format!("{:.0} min", long / 60_000.0),
        long => format!("{:.1} min", long / 60_000.0),
    }
}

/// Watts: `3.4 W`, and `250 mW` below one.
pub fn watts(watts: f64) -> String {
    if watts >= 1.0 {
        format!("{watts:.1} W")
    } else {
        format!("{:.0} mW", (watts * 1000.0).max(0.0))
    }
}

/// Bytes in MB of 10⁶, as in `top` and Prometheus.
pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Reads a decimal number without an exponent, as [`f64`] displays finite ones. Digits beyond the
/// sixteenth count as zeros. `str::parse` would bring 15 kB of tables into the page.
pub fn parse_decimal(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0_u64;
    let mut exponent = whole.len() as i32;
    for digit in whole.chars().chain(fraction.chars()) {
        let digit = u64::from(digit.to_digit(10)?);
        if value < 10_u64.pow(15) {
            value = 10 * value + digit;
            exponent -= 1;
        }
    }
    let value = value as f64;
    // A power of ten that is exact, so that the result is rounded once.
    let value = match exponent {
        0.. => value * 10_f64.powi(exponent),
        _ => value / 10_f64.powi(-exponent),
    };
    Some(if text.starts_with('-') { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_and_next_to_nothing_read_differently() {
        assert_eq!(percent(0.0), "0");
        assert_eq!(percent(0.0004), "<0.1");
        assert_eq!(percent(0.0006), "0.1");
        assert_eq!(percent(0.123_44), "12.3");
        assert_eq!(percent(128.0), "12800.0");
        assert_eq!(percent(f64::NAN), "0");
        assert_eq!(cpu_seconds(0), "0");
        assert_eq!(cpu_seconds(1), "<0.01");
        assert_eq!(cpu_seconds(12_345_678_901), "12.35");
        assert_eq!(cpu_seconds(3_600_000_000_000), "3600");
        assert_eq!(cpus(0.0), "0");
        assert_eq!(cpus(0.001), "<0.01");
        assert_eq!(cpus(1.25), "1.25");
    }

    #[test]
    fn units_stand_with_their_numbers() {
        assert_eq!(window(500_000_000), "over the last 0.5 s");
        assert_eq!(window(60_000_000_000), "over the last 60 s");
        assert_eq!(length(1_300_000_000_000), "21.7 min");
        assert_eq!(watts(0.25), "250 mW");
        assert_eq!(watts(12.34), "12.3 W");
        assert_eq!(megabytes(18_250_000), "18.2 MB");
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
    }

    #[test]
    fn markup_in_a_name_stays_text() {
        assert_eq!(
            escape_html("<img src=x onerror='a'> & \"b\""),
            "&lt;img src=x onerror=&#39;a&#39;&gt; &amp; &quot;b&quot;"
        );
        assert_eq!(escape_html("größer · 100 %"), "größer · 100 %");
    }

    #[test]
    fn time_is_said_in_each_second() {
        assert_eq!(milliseconds(0.0), "0");
        assert_eq!(milliseconds(250.0), "250.0");
        assert_eq!(milliseconds(1e-6), "<0.1");
    }

    #[test]
    fn lengths_of_time_are_said_shortly() {
        for (ms, text) in [
            (5_000.0, "5 s"),
            (90_000.0, "90 s"),
            (300_000.0, "5 min"),
            (330_000.0, "5.5 min"),
        ] {
            assert_eq!(span(ms), text);
        }
    }

    #[test]
    fn a_share_of_nothing_is_nothing() {
        assert_eq!(ratio(5, 0), 0.0);
        assert_eq!(ratio(1, 4), 0.25);
    }

    #[test]
    fn decimal_numbers_are_read_as_they_are_displayed() {
        for number in [
            0.0,
            5.0,
            -0.25,
            0.1,
            99.9,
            1_732_444_444_123.456,
            9_007_199_254_740_991.0,
            1e21,
            1e-7,
        ] {
            assert_eq!(parse_decimal(&number.to_string()), Some(number), "{number}");
        }
        assert_eq!(parse_decimal("+.5"), Some(0.5));
        assert_eq!(parse_decimal("007."), Some(7.0));
        let long = parse_decimal("0.30000000000000004").unwrap();
        assert!((long - 0.3).abs() < 1e-15);
        for text in [
            "", "-", ".", "1e5", "inf", "NaN", "1,5", " 1", "--1", "1.2.3",
        ] {
            assert_eq!(parse_decimal(text), None, "{text}");
        }
    }
}
