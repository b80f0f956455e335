//! What a metric is: declared once, by the feature that it tells of, and written by every format.

use metrics_common::histogram::Histogram;
use metrics_common::{Info, Snapshot};

use crate::totals::{State, Totals};
use netto_pipeline::clients::ClientCounts;
use netto_pipeline::metrics_collector::SinkDrops;

/// What one feature exports.
#[derive(Debug, Clone, Copy)]
pub struct Catalogue {
    /// Its metrics.
    pub families: &'static [Family],
    /// Some of them under the names that another exporter has, where asked for.
    pub compat: &'static [Family],
    /// Makes what it keeps of all intervals beside their sum.
    pub state: Option<fn() -> Box<dyn State>>,
}

impl Catalogue {
    /// Metrics that read the sum of all intervals.
    pub const fn of(families: &'static [Family]) -> Self {
        Catalogue {
            families,
            compat: &[],
            state: None,
        }
    }
}

/// A family of metrics.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// Name in Prometheus: with prefix, unit and, for counters, `_total`.
    pub name: &'static str,
    /// What it says, in a sentence.
    pub help: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What its values are.
    pub unit: Unit,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// Finds its samples; none where the thing is not measured.
    pub samples: fn(&Inputs<'_>, &mut dyn Samples),
    /// How OTLP has it.
    pub otlp: Otlp,
}

/// The kinds of families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A total since netto's start.
    Counter,
    /// A state as of now.
    Gauge,
    /// A distribution of times since netto's start.
    Histogram,
}

impl Kind {
    /// As Prometheus' text has it.
    pub fn slug(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// What the values of a family are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// A time: seconds since 1970.
    Timestamp,
    /// Joules.
    Joules,
    /// Bytes.
    Bytes,
    /// Hertz.
    Hertz,
    /// From 0 to 1.
    Ratio,
    /// Always 1: what is told is in the labels.
    Info,
    /// 0 or 1.
    Flag,
    /// A number of these things.
    Count(&'static str),
}

impl Unit {
    /// What a name ends in because of it, but for `_total`.
    pub fn suffix(self) -> &'static str {
        match self {
            Unit::Seconds => "_seconds",
            Unit::Timestamp => "_timestamp_seconds",
            Unit::Joules => "_joules",
            Unit::Bytes => "_bytes",
            Unit::Hertz => "_hertz",
            Unit::Ratio => "_ratio",
            Unit::Info => "_info",
            Unit::Flag | Unit::Count(_) => "",
        }
    }

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Unit::Seconds => "seconds",
            Unit::Timestamp => "seconds since 1970",
            Unit::Joules => "joules",
            Unit::Bytes => "bytes",
            Unit::Hertz => "hertz",
            Unit::Ratio => "0 to 1",
            Unit::Info => "1",
            Unit::Flag => "0 or 1",
            Unit::Count(_) => "count",
        }
    }

    /// In the code of UCUM, which OTLP uses.
    pub fn ucum(self) -> String {
        match self {
            Unit::Seconds | Unit::Timestamp => "s".to_owned(),
            Unit::Joules => "J".to_owned(),
            Unit::Bytes => "By".to_owned(),
            Unit::Hertz => "Hz".to_owned(),
            Unit::Ratio | Unit::Info | Unit::Flag => "1".to_owned(),
            Unit::Count(thing) => format!("{{{thing}}}"),
        }
    }
}

/// How OTLP has a family.
#[derive(Debug, Clone, Copy)]
pub enum Otlp {
    /// Under the name that follows from Prometheus' name.
    Derived,
    /// Under another name.
    Named(&'static str),
    /// With other attributes and points, which need not be those of Prometheus.
    Instead(&'static [&'static str], fn(&Inputs<'_>, &mut dyn Samples)),
    /// Not: something else says it there.
    Absent,
}

impl Family {
    /// A total since netto's start.
    pub const fn counter(
        name: &'static str,
        unit: Unit,
        help: &'static str,
        labels: &'static [&'static str],
        samples: fn(&Inputs<'_>, &mut dyn Samples),
    ) -> Self {
        Family {
            name,
            help,
            kind: Kind::Counter,
            unit,
            labels,
            samples,
            otlp: Otlp::Derived,
        }
    }

    /// A state as of now.
    pub const fn gauge(
        name: &'static str,
        unit: Unit,
        help: &'static str,
        labels: &'static [&'static str],
        samples: fn(&Inputs<'_>, &mut dyn Samples),
    ) -> Self {
        let kind = Kind::Gauge;
        Family {
            kind,
            ..Family::counter(name, unit, help, labels, samples)
        }
    }

    /// A distribution of times.
    pub const fn histogram(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
        samples: fn(&Inputs<'_>, &mut dyn Samples),
    ) -> Self {
        let kind = Kind::Histogram;
        Family {
            kind,
            ..Family::counter(name, Unit::Seconds, help, labels, samples)
        }
    }

    /// The same, but for OTLP.
    pub const fn in_otlp(self, otlp: Otlp) -> Self {
        Family { otlp, ..self }
    }

    /// Its name in OTLP, where it is there: dots for underscores, and no unit, for which OTLP has a
    /// place of its own.
    pub fn otlp_name(&self) -> Option<String> {
        let name = match self.otlp {
            Otlp::Absent => return None,
            Otlp::Named(name) => return Some(name.to_owned()),
            Otlp::Derived | Otlp::Instead(..) => self.name,
        };
        let name = name.strip_suffix("_total").unwrap_or(name);
        let (suffix, quantity) = match (self.unit, self.kind) {
            (Unit::Seconds, Kind::Counter) | (Unit::Timestamp, _) => (self.unit.suffix(), ".time"),
            (Unit::Hertz, _) => (self.unit.suffix(), ".frequency"),
            // The bytes of a thing are not its number; what is always 1 has nothing but its name.
            (Unit::Bytes, Kind::Counter) | (Unit::Info, _) => ("", ""),
            _ => (self.unit.suffix(), ""),
        };
        let name = name.strip_suffix(suffix).unwrap_or(name);
        Some(format!("{}{quantity}", name.replace('_', ".")))
    }
}

/// What a sample shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A number of things.
    Count(u64),
    /// A time, shown in seconds.
    Nanoseconds(u64),
    /// Anything else.
    Number(f64),
}

impl Value {
    /// As a number with a fraction.
    pub fn as_f64(self) -> f64 {
        match self {
            Value::Count(count) => count as f64,
            Value::Nanoseconds(ns) => ns as f64 / 1e9,
            Value::Number(number) => number,
        }
    }
}

/// Takes the samples of one family.
pub trait Samples {
    /// Adds one: label values in the order of the family's labels, and its value.
    fn push(&mut self, labels: &[&str], value: Value);

    /// Adds one of a histogram.
    fn push_histogram(&mut self, labels: &[&str], latencies: &Histogram);
}

/// Everything that a sample can be made of.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// What the daemon is.
    pub info: &'a Info,
    /// What it has measured so far.
    pub totals: &'a Totals,
    /// What sinks have missed.
    pub drops: &'a SinkDrops,
    /// What clients did that do not behave.
    pub clients: &'a ClientCounts,
}

impl<'a> Inputs<'a> {
    /// The sum of all intervals.
    pub fn sum(&self) -> &'a Snapshot {
        &self.totals.sum
    }

    /// Calls `each` with every CPU, as a label and as its column.
    pub fn per_cpu(&self, mut each: impl FnMut(&str, usize)) {
        for (column, cpu) in self.sum().cpus.iter().enumerate() {
            each(&cpu.to_string(), column);
        }
    }

    /// Adds a sample for each CPU of a row; the only label is the CPU.
    pub fn push_row(&self, out: &mut dyn Samples, row: &[u64], value: fn(u64) -> Value) {
        self.per_cpu(|cpu, column| {
            if let Some(of_cpu) = row.get(column) {
                out.push(&[cpu], value(*of_cpu));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &'static str, kind: Kind, unit: Unit) -> Option<String> {
        let family = Family::counter(name, unit, "", &[], |_, _| {});
        Family { kind, ..family }.otlp_name()
    }

    #[test]
    fn names_in_otlp_have_no_unit() {
        for (prometheus, kind, unit, otlp) in [
            (
                "netto_cpu_seconds_total",
                Kind::Counter,
                Unit::Seconds,
                "netto.cpu.time",
            ),
            (
                "netto_wait_seconds",
                Kind::Histogram,
                Unit::Seconds,
                "netto.wait",
            ),
            (
                "netto_last_timestamp_seconds",
                Kind::Gauge,
                Unit::Timestamp,
                "netto.last.time",
            ),
            (
                "netto_energy_joules_total",
                Kind::Counter,
                Unit::Joules,
                "netto.energy",
            ),
            (
                "netto_sampling_hertz",
                Kind::Gauge,
                Unit::Hertz,
                "netto.sampling.frequency",
            ),
            (
                "netto_overhead_ratio",
                Kind::Gauge,
                Unit::Ratio,
                "netto.overhead",
            ),
            (
                "netto_socket_bytes_total",
                Kind::Counter,
                Unit::Bytes,
                "netto.socket.bytes",
            ),
            (
                "netto_memory_bytes",
                Kind::Gauge,
                Unit::Bytes,
                "netto.memory",
            ),
            (
                "netto_build_info",
                Kind::Gauge,
                Unit::Info,
                "netto.build.info",
            ),
            (
                "netto_calls_total",
                Kind::Counter,
                Unit::Count("call"),
                "netto.calls",
            ),
        ] {
            assert_eq!(name(prometheus, kind, unit).as_deref(), Some(otlp));
        }
    }
}
