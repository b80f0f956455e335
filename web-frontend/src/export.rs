//! What can be taken away: series, heat map and table as CSV, and a chart as a
//! drawing that stands alone. Pure; the page offers them as files.

use std::fmt::Write as _;

use metrics_common::snapshot::{Info, Snapshot};

use crate::areas::Chart;
use crate::bars::Rgb;
use crate::heat::Map;
use crate::view_model::tree;

/// A moment as ISO 8601 in UTC, with milliseconds.
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

/// A field of CSV (RFC 4180). What a spreadsheet would take for a formula is
/// kept from it by an apostrophe.
fn field(text: &str) -> String {
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

fn number(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:.4}"))
}

/// The series of a chart: a line for each step, a column for each component.
/// What was not measured is empty.
pub fn chart_csv(chart: &Chart) -> String {
    let mut csv = String::from("time");
    for layer in &chart.layers {
        let _ = write!(csv, ",{}_percent_of_host", field(&layer.key));
    }
    csv.push_str("\r\n");
    for step in 0..chart.frame.steps {
        csv.push_str(&iso_time(chart.frame.step_begin_ms(step)));
        for layer in &chart.layers {
            let _ = write!(
                csv,
                ",{}",
                number(layer.values.get(step).copied().flatten())
            );
        }
        csv.push_str("\r\n");
    }
    csv
}

/// The heat map: a line for each step, a column for each CPU.
pub fn heat_csv(map: &Map) -> String {
    let mut csv = String::from("time");
    for line in &map.lines {
        let _ = write!(csv, ",cpu{}_percent", line.cpu);
    }
    csv.push_str("\r\n");
    for step in 0..map.frame.steps {
        csv.push_str(&iso_time(map.frame.step_begin_ms(step)));
        for line in &map.lines {
            let percent = line.values.get(step).copied().flatten().map(|r| r * 100.0);
            let _ = write!(csv, ",{}", number(percent));
        }
        csv.push_str("\r\n");
    }
    csv
}

/// The table of one interval: a line for each component, a column for each CPU,
/// in nanoseconds of CPU time. What is not measured is empty.
pub fn table_csv(info: &Info, snapshot: &Snapshot) -> String {
    let mut csv = String::from("component,parent,label,all_cpus_ns");
    for cpu in &snapshot.cpus {
        let _ = write!(csv, ",cpu{cpu}_ns");
    }
    csv.push_str("\r\n");
    for row in tree(info) {
        let component = &info.components[row.component];
        let _ = write!(
            csv,
            "{},{},{}",
            field(&component.slug),
            field(component.parent.as_deref().unwrap_or("")),
            field(&component.label)
        );
        let values = snapshot
            .components
            .get(row.component)
            .and_then(Option::as_ref);
        let total = snapshot.total_ns(row.component);
        let _ = write!(csv, ",{}", total.map_or(String::new(), |ns| ns.to_string()));
        for column in 0..snapshot.cpus.len() {
            let ns = values.and_then(|values| values.get(column));
            let _ = write!(csv, ",{}", ns.map_or(String::new(), u64::to_string));
        }
        csv.push_str("\r\n");
    }
    csv
}

/// A drawing that needs no page around it: with a ground and a name.
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
    use crate::areas::Layer;
    use crate::fixture;
    use crate::timeline::Frame;

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
    fn a_gap_is_empty_and_a_zero_is_not() {
        let chart = Chart {
            frame: Frame {
                from_ms: 0.0,
                step_ms: 500.0,
                steps: 2,
            },
            layers: vec![Layer {
                key: "gro".to_owned(),
                label: String::new(),
                color: Rgb(0, 0, 0),
                values: vec![Some(0.0), None],
            }],
            top: 1.0,
            offset_ms: 0.0,
        };
        assert_eq!(
            chart_csv(&chart),
            "time,gro_percent_of_host\r\n1970-01-01T00:00:00.000Z,0.0000\r\n1970-01-01T00:00:00.500Z,\r\n"
        );
    }

    #[test]
    fn the_table_is_whole_and_exact() {
        let (mut info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        fixture::take_away(&mut info, &mut snapshot, "bridging", "not there");
        info.components[0].label = "=cmd, \"x\"".to_owned();
        let csv = table_csv(&info, &snapshot);
        assert_eq!(csv.lines().count(), info.components.len() + 1);
        assert!(csv.contains("network,,\"'=cmd, \"\"x\"\"\",120000000,20000000,100000000\r\n"));
        assert!(csv.contains("bridging,rx_softirq,Bridging,,,\r\n"));
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
