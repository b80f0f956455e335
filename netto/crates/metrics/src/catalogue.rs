//! The declaration of a metric: made once, by its feature, and used by every format.

use metrics_common::histogram::Histogram;
use metrics_common::named;
use metrics_common::{Info, Snapshot};

use crate::totals::{State, Totals};
use netto_pipeline::clients::ClientCounts;
use netto_pipeline::metrics_collector::SinkDrops;

/// What one feature exports.
#[derive(Debug, Clone, Copy)]
pub struct Catalogue {
    /// Its metrics.
    pub families: &'static [Family],
    /// Some of them under the names of another exporter, if requested.
    pub compat: &'static [Family],
    /// Creates state over all intervals in addition to their sum.
    pub state: Option<fn() -> Box<dyn State>>,
}

impl Catalogue {
    /// Metrics computed from the sum of all intervals.
    pub const fn of(families: &'static [Family]) -> Self {
        Catalogue {
            families,
            compat: &[],
            state: None,
        }
    }

    /// The same with state.
    pub const fn with_state(self, state: fn() -> Box<dyn State>) -> Self {
        let state = Some(state);
        Catalogue { state, ..self }
    }
}

/// A family of metrics.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// Name in Prometheus: with prefix, unit and, for counters, `_total`.
    pub name: &'static str,
    /// Its help text, one sentence.
    pub help: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// The unit of its values.
    pub unit: Unit,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// Produces its samples; none if it is not measured.
    pub samples: fn(&Inputs<'_>, &mut dyn Samples),
    /// Its form in OTLP.
    pub otlp: Otlp,
}

named! {
    /// The kinds of families.
    Kind:
    /// A total since the start of netto.
    Counter "counter";
    /// A current state.
    Gauge "gauge";
    /// A distribution of times since the start of netto.
    Histogram "histogram";
}

/// The unit of a family's values.
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
    /// Always 1: the information is in the labels.
    Info,
    /// 0 or 1.
    Flag,
    /// A number of these objects.
    Count(&'static str),
}

impl Unit {
    /// The suffix of names with this unit, without `_total`.
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

    /// The UCUM code, which OTLP uses.
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

/// The form of a family in OTLP.
#[derive(Debug, Clone, Copy)]
pub enum Otlp {
    /// Under the name derived from Prometheus' name.
    Derived,
    /// Under another name.
    Named(&'static str),
    /// With other attributes and points than in Prometheus.
    Instead(&'static [&'static str], fn(&Inputs<'_>, &mut dyn Samples)),
    /// Not exported: another metric or the resource has the information.
    Absent,
}

/// Families, each with kind, name, unit and labels, and its form in OTLP where that is not derived;
/// help; samples. Rustfmt leaves what is in braces as it is.
#[macro_export]
macro_rules! metrics {
    ($($kind:ident $name:literal $unit:ident $(($thing:literal))? [$($label:literal),*] $(as $otlp:expr)?;
        $help:literal; $samples:expr;)*) => {
        &[$($crate::catalogue::Family {
            name: $name,
            help: $help,
            kind: $crate::catalogue::Kind::$kind,
            unit: $crate::catalogue::Unit::$unit $(($thing))?,
            labels: &[$($label),*],
            samples: $samples,
            otlp: $crate::metrics!(@otlp $($otlp)?),
        }),*]
    };
    (@otlp) => { $crate::catalogue::Otlp::Derived };
    (@otlp $otlp:expr) => { $otlp };
}

impl Family {
    /// Its name in OTLP, if it is exported: with dots for underscores, and without the unit, which
    /// OTLP has in a separate field.
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
            // A total in bytes is not a number of objects; a value of 1 has no unit.
            (Unit::Bytes, Kind::Counter) | (Unit::Info, _) => ("", ""),
            _ => (self.unit.suffix(), ""),
        };
        let name = name.strip_suffix(suffix).unwrap_or(name);
        Some(format!("{}{quantity}", name.replace('_', ".")))
    }
}

/// The value of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A number of objects.
    Count(u64),
    /// A time, shown in seconds.
    Nanoseconds(u64),
    /// Anything else.
    Number(f64),
}

impl Value {
    /// The value as a floating-point number.
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
    /// Adds one: label values in the order of the family's labels, and the value.
    fn push(&mut self, labels: &[&str], value: Value);

    /// Adds one if its value is known.
    fn push_known(&mut self, labels: &[&str], value: Option<Value>) {
        if let Some(value) = value {
            self.push(labels, value);
        }
    }

    /// Adds a histogram.
    fn push_histogram(&mut self, labels: &[&str], latencies: &Histogram);
}

/// All sources of samples.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// The description of the daemon.
    pub info: &'a Info,
    /// The totals so far.
    pub totals: &'a Totals,
    /// Snapshots missed by sinks.
    pub drops: &'a SinkDrops,
    /// Counts of misbehaving clients.
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

    /// Adds a sample for each CPU of a row; the CPU is the only label.
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
        const NONE: Family = metrics! { Counter "" Flag []; ""; |_, _| {}; }[0];
        let family = Family {
            name,
            kind,
            unit,
            ..NONE
        };
        family.otlp_name()
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
