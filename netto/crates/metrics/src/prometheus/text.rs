//! Writes series in Prometheus' text format, or in OpenMetrics', which names counters without
//! `_total` in their heads, has units, and ends with a mark.
//!
//! A large host has a hundred series for each CPU, so each is written directly into the buffer:
//! without objects, sorting, or floating-point numbers for totals.

use metrics_common::histogram::Histogram;

use netto_questions::figures::visible;

use crate::catalogue::{Family, Kind, Samples, Unit, Value};
use crate::histogram;
use crate::per_cpu::Page;

/// Initial capacity of a page, bytes.
const FIRST_BYTES: usize = 64 << 10;

/// A page of metrics being written.
#[derive(Debug)]
pub struct Text {
    out: Vec<u8>,
    is_open_metrics: bool,
    /// `name{label="` of the current family, up to the first label's value; the whole name without
    /// labels.
    opening: Vec<u8>,
    /// `",label="` before each further label's value.
    separators: Vec<Vec<u8>>,
    /// Name and labels of the current family.
    family: (&'static str, &'static [&'static str]),
}

impl Default for Text {
    fn default() -> Self {
        Text {
            out: Vec::with_capacity(FIRST_BYTES),
            is_open_metrics: false,
            opening: Vec::new(),
            separators: Vec::new(),
            family: ("", &[]),
        }
    }
}

impl Text {
    /// An empty page of OpenMetrics.
    pub fn open_metrics() -> Self {
        Text {
            is_open_metrics: true,
            ..Text::default()
        }
    }

    /// The lines before a family's series.
    fn head(&self, family: &Family) -> String {
        let (name, help, kind) = (family.name, family.help, family.kind.slug());
        if !self.is_open_metrics {
            return format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        }
        let name = match family.kind {
            Kind::Counter => name.strip_suffix("_total").unwrap_or(name),
            Kind::Gauge | Kind::Histogram => name,
        };
        let mut head = format!("# TYPE {name} {kind}\n");
        if let Some(unit) = unit(family.unit)
            && name.ends_with(family.unit.suffix())
        {
            head.push_str(&format!("# UNIT {name} {unit}\n"));
        }
        let help = help.replace('\\', "\\\\").replace('"', "\\\"");
        head + &format!("# HELP {name} {help}\n")
    }

    /// The whole page.
    pub fn into_bytes(mut self) -> Vec<u8> {
        if self.is_open_metrics {
            self.out.extend_from_slice(b"# EOF\n");
        }
        self.out
    }
}

/// The name of a unit in OpenMetrics, where it has one.
fn unit(unit: Unit) -> Option<&'static str> {
    match unit {
        Unit::Info | Unit::Flag | Unit::Count(_) => None,
        _ => unit.suffix().strip_prefix('_'),
    }
}

impl Page for Text {
    fn family(&mut self, family: &Family, add: &mut dyn FnMut(&mut dyn Samples)) {
        self.family = (family.name, family.labels);
        self.opening = family.name.as_bytes().to_vec();
        if let Some(first) = family.labels.first() {
            self.opening.extend_from_slice(b"{");
            self.opening.extend_from_slice(first.as_bytes());
            self.opening.extend_from_slice(b"=\"");
        }
        let separator = |label: &&str| format!("\",{label}=\"").into_bytes();
        self.separators = family.labels.iter().skip(1).map(separator).collect();
        let before = self.out.len();
        let head = self.head(family);
        self.out.extend_from_slice(head.as_bytes());
        let headed = self.out.len();
        add(self);
        if self.out.len() == headed {
            self.out.truncate(before);
        }
    }
}

impl Samples for Text {
    fn push(&mut self, values: &[&str], value: Value) {
        let out = &mut self.out;
        out.extend_from_slice(&self.opening);
        if let Some((first, others)) = values.split_first() {
            debug_assert_eq!(others.len(), self.separators.len());
            push_escaped(out, first);
            for (separator, value) in self.separators.iter().zip(others) {
                out.extend_from_slice(separator);
                push_escaped(out, value);
            }
            out.extend_from_slice(b"\"}");
        }
        out.push(b' ');
        push_value(out, value);
    }

    fn push_histogram(&mut self, values: &[&str], latencies: &Histogram) {
        let (name, labels) = self.family;
        let out = &mut self.out;
        let mut line = |suffix: &str, end: Option<&str>, value: Value| {
            out.extend_from_slice(format!("{name}{suffix}").as_bytes());
            let pairs = labels.iter().copied().zip(values.iter().copied());
            let mut separator = b'{';
            for (label, value) in pairs.chain(end.map(|end| ("le", end))) {
                out.push(separator);
                separator = b',';
                out.extend_from_slice(format!("{label}=\"").as_bytes());
                push_escaped(out, value);
                out.push(b'"');
            }
            if separator == b',' {
                out.push(b'}');
            }
            out.push(b' ');
            push_value(out, value);
        };
        let count = latencies.count();
        for (end, below) in histogram::classic(latencies) {
            line("_bucket", Some(&end_text(end)), Value::Count(below));
        }
        line("_bucket", Some("+Inf"), Value::Count(count));
        line("_sum", None, Value::Nanoseconds(latencies.sum_ns));
        line("_count", None, Value::Count(count));
    }
}

/// The end of a bucket, in Prometheus' own format.
fn end_text(end: f64) -> String {
    if end < 1e-4 {
        // At least two digits of the exponent.
        format!("{end:e}")
            .replace("e-", "e-0")
            .replace("e-010", "e-10")
    } else {
        end.to_string()
    }
}

/// A value, and the end of its line.
fn push_value(out: &mut Vec<u8>, value: Value) {
    match value {
        Value::Count(count) => push_integer(out, count),
        Value::Nanoseconds(ns) => push_seconds(out, ns),
        Value::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
    }
    out.push(b'\n');
}

/// A label's value, with three special characters escaped.
fn push_escaped(out: &mut Vec<u8>, value: &str) {
    let is_usual = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'\\' | b'"');
    if value.bytes().all(is_usual) {
        out.extend_from_slice(value.as_bytes());
        return;
    }
    for &byte in visible(value).as_bytes() {
        match byte {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
            _ => out.push(byte),
        }
    }
}

fn push_integer(out: &mut Vec<u8>, mut value: u64) {
    // u64::MAX has 20 digits.
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

/// Seconds with all decimals, exactly.
fn push_seconds(out: &mut Vec<u8>, ns: u64) {
    push_integer(out, ns / 1_000_000_000);
    let mut rest = (ns % 1_000_000_000) as u32;
    if rest == 0 {
        return;
    }
    let mut decimals = *b".000000000";
    for digit in decimals[1..].iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    let zeros = decimals.iter().rev().take_while(|&&digit| digit == b'0');
    let length = decimals.len() - zeros.count();
    out.extend_from_slice(&decimals[..length]);
}

#[cfg(test)]
mod tests {
    use prometheus::core::Collector as _;
    use prometheus::{GaugeVec, Opts, TextEncoder};
    use proptest::prelude::*;

    use super::*;
    use crate::metrics;

    const OF_CPUS: Family = metrics! {
        Gauge "netto_things" Count("thing") ["cpu", "thing"]; "Things."; |_, _| {};
    }[0];

    fn page(family: &Family, series: &[(&[&str], Value)]) -> String {
        let mut text = Text::default();
        text.family(family, &mut |text| {
            for (labels, value) in series {
                text.push(labels, *value);
            }
        });
        String::from_utf8(text.into_bytes()).unwrap()
    }

    /// A name as root of a container may give it to an interface.
    const HOSTILE: &str = "lan\u{1b}[2J\u{202e}";

    #[test]
    fn a_label_is_visible_and_the_same_in_each_format() {
        let labels = &["0", HOSTILE];
        let text = page(&OF_CPUS, &[(labels, Value::Count(1))]);
        assert!(text.contains(r#"thing="lan\\u{1b}[2J\\u{202e}""#), "{text}");
        let mut messages = super::super::protobuf::Messages::default();
        messages.family(&OF_CPUS, &mut |out| out.push(labels, Value::Count(1)));
        let bytes = messages.into_bytes();
        let expected = br"lan\u{1b}[2J\u{202e}";
        assert!(
            bytes
                .windows(expected.len())
                .any(|window| window == expected)
        );
    }

    proptest! {
        /// The result equals that of the `prometheus` crate, up to fifteen digits, the precision of
        /// its numbers.
        #[test]
        fn a_page_is_what_the_crate_would_have_written(
            cpu in 0_u32..2000, thing in "[a-z\"\\\\\n=,{} ü]{0,12}",
            number in 0_u64..1_000_000_000_000_000, kind in 0..3,
        ) {
            let (value, same) = match kind {
                0 => (Value::Count(number), number as f64),
                1 => (Value::Nanoseconds(number), number as f64 / 1e9),
                _ => (Value::Number(number as f64 / 7.0), number as f64 / 7.0),
            };
            let cpu = cpu.to_string();
            let labels = [cpu.as_str(), thing.as_str()];
            let theirs = GaugeVec::new(Opts::new(OF_CPUS.name, OF_CPUS.help), OF_CPUS.labels).unwrap();
            theirs.with_label_values(&labels).set(same);
            let expected = TextEncoder::new().encode_to_string(&theirs.collect()).unwrap();
            prop_assert_eq!(page(&OF_CPUS, &[(&labels, value)]), expected);
        }
    }

    #[test]
    fn a_histogram_counts_what_is_not_above_each_end() {
        const WAIT: Family = metrics! {
            Histogram "netto_wait_seconds" Seconds ["point"]; ""; |_, _| {};
        }[0];
        let mut latencies = Histogram::default();
        for ns in [10, 100, 1_000_000_000] {
            latencies.record(ns);
        }
        let mut text = Text::default();
        text.family(&WAIT, &mut |text| {
            text.push_histogram(&["a\"b"], &latencies)
        });
        let page = String::from_utf8(text.into_bytes()).unwrap();
        for line in [
            "# TYPE netto_wait_seconds histogram",
            r#"netto_wait_seconds_bucket{point="a\"b",le="6.4e-08"} 1"#,
            r#"netto_wait_seconds_bucket{point="a\"b",le="0.000131072"} 2"#,
            r#"netto_wait_seconds_bucket{point="a\"b",le="17.179869184"} 3"#,
            r#"netto_wait_seconds_bucket{point="a\"b",le="+Inf"} 3"#,
            r#"netto_wait_seconds_sum{point="a\"b"} 1.00000011"#,
            r#"netto_wait_seconds_count{point="a\"b"} 3"#,
        ] {
            assert!(page.lines().any(|shown| shown == line), "{line} in {page}");
        }
    }

    #[test]
    fn open_metrics_names_counters_without_their_suffix_and_says_units_and_the_end() {
        const TIME: Family = metrics! {
            Counter "netto_time_seconds_total" Seconds ["cpu"]; "Time, \"all\"."; |_, _| {};
        }[0];
        let mut text = Text::open_metrics();
        text.family(&TIME, &mut |text| text.push(&["0"], Value::Count(2)));
        assert_eq!(
            String::from_utf8(text.into_bytes()).unwrap(),
            "# TYPE netto_time_seconds counter\n# UNIT netto_time_seconds seconds\n\
             # HELP netto_time_seconds Time, \\\"all\\\".\n\
             netto_time_seconds_total{cpu=\"0\"} 2\n# EOF\n"
        );
    }

    #[test]
    fn a_family_without_series_is_not_mentioned() {
        assert_eq!(page(&OF_CPUS, &[]), "");
    }

    #[test]
    fn times_are_exact_however_long() {
        for (ns, seconds) in [
            (0, "0"),
            (1, "0.000000001"),
            (1_500_000_000, "1.5"),
            (7_000_000_000, "7"),
            (u64::MAX, "18446744073.709551615"),
        ] {
            let mut out = Vec::new();
            push_seconds(&mut out, ns);
            assert_eq!(String::from_utf8(out).unwrap(), seconds);
        }
    }
}
