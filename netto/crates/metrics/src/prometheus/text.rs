//! Series as the lines that a scrape reads.
//!
//! A large host has a hundred series for each CPU, so each is written where it stays: no object is
//! made of it, nothing is sorted, and totals are printed as the integers that they are. A page for
//! those who want messages instead is written by the same calls (`protobuf.rs`).

use metrics_common::latency::Histogram;

use super::family::Family;
use super::histogram;
use super::protobuf::Messages;

/// Room that a page has at first, bytes.
const FIRST_BYTES: usize = 64 << 10;

/// What a series shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A number of things.
    Count(u64),
    /// A time, shown in seconds.
    Nanoseconds(u64),
    /// Anything else.
    Number(f64),
}

/// A page of metrics in the making.
#[derive(Debug)]
pub struct Text {
    out: Vec<u8>,
    /// `name{label="` of the family at hand, up to the first label's value; all of it without labels.
    opening: Vec<u8>,
    /// `",label="` before each further label's value.
    separators: Vec<Vec<u8>>,
    /// Name and labels of the family at hand.
    family: (&'static str, &'static [&'static str]),
    /// The page, if it is one of messages.
    messages: Option<Messages>,
}

impl Default for Text {
    fn default() -> Self {
        Text {
            out: Vec::with_capacity(FIRST_BYTES),
            opening: Vec::new(),
            separators: Vec::new(),
            family: ("", &[]),
            messages: None,
        }
    }
}

impl Text {
    /// A page of messages.
    pub fn messages() -> Self {
        Text {
            out: Vec::new(),
            messages: Some(Messages::default()),
            ..Text::default()
        }
    }

    /// Writes a family with the series that `add` pushes; nothing if those are none.
    pub fn family<S>(&mut self, family: &Family<S>, add: impl FnOnce(&mut Text)) {
        if let Some(messages) = &mut self.messages {
            messages.begin(family);
            add(self);
            if let Some(messages) = &mut self.messages {
                messages.end();
            }
            return;
        }
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
        let kind = family.kind();
        let (name, help) = (family.name, family.help);
        let head = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        self.out.extend_from_slice(head.as_bytes());
        let headed = self.out.len();
        add(self);
        if self.out.len() == headed {
            self.out.truncate(before);
        }
    }

    /// Adds a series: label values in the order of the family's labels, and its value.
    pub fn push(&mut self, values: &[&str], value: Value) {
        if let Some(messages) = &mut self.messages {
            return messages.push(values, value);
        }
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

    /// Adds a series of a histogram: label values in the order of the family's labels.
    pub fn push_histogram(&mut self, values: &[&str], latencies: &Histogram) {
        if let Some(messages) = &mut self.messages {
            return messages.push_histogram(values, latencies);
        }
        let (name, labels) = self.family;
        let out = &mut self.out;
        let mut line = |suffix: &str, end: Option<&str>, value: Value| {
            out.extend_from_slice(format!("{name}{suffix}").as_bytes());
            let own = labels.iter().copied().zip(values.iter().copied());
            let mut separator = b'{';
            for (label, value) in own.chain(end.map(|end| ("le", end))) {
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

    /// The page, but for what stands behind it.
    pub fn into_parts(self) -> (Vec<u8>, Option<Messages>) {
        (self.out, self.messages)
    }
}

/// The end of a bucket, written as Prometheus itself writes it.
fn end_text(end: f64) -> String {
    match end < 1e-4 {
        // At least two digits of the exponent.
        true => format!("{end:e}")
            .replace("e-", "e-0")
            .replace("e-010", "e-10"),
        false => end.to_string(),
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

/// A label's value, in which three characters have a meaning of their own.
fn push_escaped(out: &mut Vec<u8>, value: &str) {
    let value = value.as_bytes();
    if !value
        .iter()
        .any(|byte| matches!(byte, b'\\' | b'"' | b'\n'))
    {
        out.extend_from_slice(value);
        return;
    }
    for &byte in value {
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

/// Seconds with as many decimals as there are, exactly.
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
    use prometheus::TextEncoder;
    use prometheus::proto::MetricType;
    use proptest::prelude::*;

    use super::*;
    use crate::prometheus::family::Series;

    const OF_CPUS: Family<Text> = Family {
        name: "netto_things_total",
        help: "Things.",
        metric_type: MetricType::COUNTER,
        labels: &["cpu", "thing"],
        series: |_, _| {},
    };

    fn page(family: &Family<Text>, series: &[(&[&str], Value)]) -> String {
        let mut text = Text::default();
        text.family(family, |text| {
            for (labels, value) in series {
                text.push(labels, *value);
            }
        });
        String::from_utf8(text.into_parts().0).unwrap()
    }

    proptest! {
        /// The encoder of the `prometheus` crate is the measure, up to fifteen digits, which is
        /// what its numbers hold.
        #[test]
        fn a_page_is_what_the_crate_would_have_written(
            series in prop::collection::vec((0_u32..2000, "[a-z\"\\\\\n=,{} ü]{0,12}", 0_u64..1_000_000_000_000_000, 0..3), 1..6),
        ) {
            let mut theirs = Series::of(&OF_CPUS);
            let mut ours = Vec::new();
            for (cpu, thing, number, kind) in &series {
                let (value, same) = match kind {
                    0 => (Value::Count(*number), *number as f64),
                    1 => (Value::Nanoseconds(*number), *number as f64 / 1e9),
                    _ => (Value::Number(*number as f64 / 7.0), *number as f64 / 7.0),
                };
                theirs.push(&[&cpu.to_string(), thing], same);
                ours.push((cpu.to_string(), thing, value));
            }
            let expected = TextEncoder::new().encode_to_string(&[theirs.finish(&OF_CPUS)]).unwrap();
            let ours: Vec<([&str; 2], Value)> =
                ours.iter().map(|(cpu, thing, value)| ([cpu.as_str(), thing.as_str()], *value)).collect();
            let ours: Vec<(&[&str], Value)> = ours.iter().map(|(l, v)| (l.as_slice(), *v)).collect();
            prop_assert_eq!(page(&OF_CPUS, &ours), expected);
        }
    }

    #[test]
    fn a_histogram_counts_what_is_not_above_each_end() {
        const WAIT: Family<Text> = Family {
            name: "netto_wait_seconds",
            metric_type: MetricType::HISTOGRAM,
            labels: &["point"],
            ..OF_CPUS
        };
        let mut latencies = Histogram::default();
        for ns in [10, 100, 1_000_000_000] {
            latencies.record(ns);
        }
        let mut text = Text::default();
        text.family(&WAIT, |text| text.push_histogram(&["a\"b"], &latencies));
        let page = String::from_utf8(text.into_parts().0).unwrap();
        for line in [
            "# TYPE netto_wait_seconds histogram",
            r#"netto_wait_seconds_bucket{point="a\"b",le="6.4e-08"} 1"#,
            r#"netto_wait_seconds_bucket{point="a\"b",le="0.000131072"} 2"#,
            r#"netto_wait_seconds_bucket{point="a\"b",le="17.179869184"} 3"#,
            r#"netto_wait_seconds_bucket{point="a\"b",le="+Inf"} 3"#,
            r#"netto_wait_seconds_sum{point="a\"b"} 1.00000011"#,
            r#"netto_wait_seconds_count{point="a\"b"} 3"#,
        ] {
            assert!(page.lines().any(|own| own == line), "{line} in {page}");
        }
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
