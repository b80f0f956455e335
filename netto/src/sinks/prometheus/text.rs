//! Series as the lines that a scrape reads.
//!
//! A large host has a hundred series for each CPU, so each is written where it stays: no object is
//! made of it, nothing is sorted, and totals are printed as the integers that they are.

use prometheus::proto::MetricType;

use super::family::Family;

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
}

impl Default for Text {
    fn default() -> Self {
        Text {
            out: Vec::with_capacity(FIRST_BYTES),
            opening: Vec::new(),
            separators: Vec::new(),
        }
    }
}

impl Text {
    /// Writes a family with the series that `add` pushes; nothing if those are none.
    pub fn family<S>(&mut self, family: &Family<S>, add: impl FnOnce(&mut Text)) {
        self.opening = family.name.as_bytes().to_vec();
        if let Some(first) = family.labels.first() {
            self.opening.extend_from_slice(b"{");
            self.opening.extend_from_slice(first.as_bytes());
            self.opening.extend_from_slice(b"=\"");
        }
        let separator = |label: &&str| format!("\",{label}=\"").into_bytes();
        self.separators = family.labels.iter().skip(1).map(separator).collect();
        let before = self.out.len();
        let kind = match family.metric_type {
            MetricType::COUNTER => "counter",
            _ => "gauge",
        };
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
        match value {
            Value::Count(count) => push_integer(out, count),
            Value::Nanoseconds(ns) => push_seconds(out, ns),
            Value::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
        }
        out.push(b'\n');
    }

    /// The page.
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }
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
    use proptest::prelude::*;

    use super::*;
    use crate::sinks::prometheus::family::Series;

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
        String::from_utf8(text.into_bytes()).unwrap()
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
