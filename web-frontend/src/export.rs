//! Parts of all files that the page offers: fields of CSV, times, and stand-alone SVG. The views
//! decide what is in a file. Pure.

use crate::color::Rgb;

/// A time as ISO 8601 in UTC, with milliseconds.
pub fn iso_time(unix_ms: f64) -> String {
    let ms = unix_ms.max(0.0) as u64;
    let (days, in_day) = (ms / 86_400_000, ms % 86_400_000);
    // Howard Hinnant's days_from_civil, backwards: eras of 400 years that begin in March.
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let seconds = in_day / 1_000;
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60,
        in_day % 1_000
    )
}

/// A field of CSV (RFC 4180). An apostrophe keeps spreadsheets from interpreting it as a formula.
pub fn field(text: &str) -> String {
    let risky = text.starts_with(['=', '+', '-', '@']);
    let text = if risky {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

/// A number as a field; empty if there is none.
pub fn number(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:.4}"))
}

/// A stand-alone drawing, with a background and a title.
pub fn standalone_svg(svg: &str, ground: Rgb, title: &str) -> String {
    let Some(open) = svg.find('>') else {
        return String::new();
    };
    let (head, rest) = svg.split_at(open + 1);
    let mut head = head.to_owned();
    if !head.contains("xmlns=") {
        head = head.replacen("<svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"", 1);
    }
    format!(
        "{head}<title>{}</title><rect width=\"100%\" height=\"100%\" fill=\"{}\"/>{rest}",
        crate::format::escape_html(title),
        ground.css()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_everybody_reads_them() {
        for (ms, text) in [
            (0.0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000.0, "2000-02-29T00:00:00.000Z"),
            (1_700_000_000_123.0, "2023-11-14T22:13:20.123Z"),
            (4_102_444_799_999.0, "2099-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(iso_time(ms), text);
        }
    }

    #[test]
    fn a_drawing_alone_has_a_ground_and_a_name() {
        let svg = standalone_svg("<svg width=\"1\"><rect/></svg>", Rgb(1, 2, 3), "a < b");
        assert_eq!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1\"><title>a &lt; b</title>\
             <rect width=\"100%\" height=\"100%\" fill=\"#010203\"/><rect/></svg>"
        );
        assert_eq!(standalone_svg("", Rgb(0, 0, 0), ""), "");
    }
}
