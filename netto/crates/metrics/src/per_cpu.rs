//! Which metrics are exported for each CPU: in a fleet of large hosts they are most of all series.
//!
//! A metric that is not wanted by CPU is exported as the sum of all CPUs, without the label. A state
//! (gauge) of a CPU has no sum and is then absent.

use std::collections::BTreeMap;

use metrics_common::histogram::Histogram;

use crate::catalogue::{Family, Inputs, Kind, Samples, Value};

/// The label of a CPU; the first label of every family that has it.
const CPU: &str = "cpu";
/// The label of a component of an event.
const COMPONENT: &str = "component";

/// The metrics that are exported for each CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PerCpu {
    /// All that there are.
    #[default]
    Components,
    /// All except those by component.
    Events,
    /// None.
    None,
}

/// A page of metrics being written.
pub trait Page {
    /// Writes a family with the samples that `add` produces; nothing if there are none.
    fn family(&mut self, family: &Family, add: &mut dyn FnMut(&mut dyn Samples));
}

impl PerCpu {
    /// Writes a family in the requested detail.
    pub fn write(self, family: &Family, inputs: &Inputs<'_>, page: &mut dyn Page) {
        match family.labels.split_first() {
            Some((&CPU, others)) if !self.has(others) => {
                if family.kind == Kind::Gauge {
                    return;
                }
                let summed = Family {
                    labels: others,
                    ..*family
                };
                page.family(&summed, &mut |out| {
                    let mut sums = Sums::default();
                    (family.samples)(inputs, &mut sums);
                    sums.give(out);
                });
            }
            _ => page.family(family, &mut |out| (family.samples)(inputs, out)),
        }
    }

    /// Whether a family with these labels, besides the CPU, is exported by CPU.
    fn has(self, others: &[&str]) -> bool {
        match self {
            PerCpu::Components => true,
            PerCpu::Events => !others.contains(&COMPONENT),
            PerCpu::None => false,
        }
    }
}

/// Adds samples that differ in the CPU only.
#[derive(Debug, Default)]
struct Sums {
    values: BTreeMap<Vec<String>, Value>,
    histograms: BTreeMap<Vec<String>, Histogram>,
}

/// The labels' values but the CPU.
fn others(values: &[&str]) -> Vec<String> {
    let others = values.iter().skip(1);
    others.map(|value| (*value).to_owned()).collect()
}

impl Samples for Sums {
    fn push(&mut self, labels: &[&str], value: Value) {
        let sum = self.values.entry(others(labels)).or_insert(match value {
            Value::Count(_) => Value::Count(0),
            Value::Nanoseconds(_) => Value::Nanoseconds(0),
            Value::Number(_) => Value::Number(0.0),
        });
        *sum = match (*sum, value) {
            (Value::Count(sum), Value::Count(more)) => Value::Count(sum.saturating_add(more)),
            (Value::Nanoseconds(sum), Value::Nanoseconds(more)) => {
                Value::Nanoseconds(sum.saturating_add(more))
            }
            (sum, more) => Value::Number(sum.as_f64() + more.as_f64()),
        };
    }

    fn push_histogram(&mut self, labels: &[&str], latencies: &Histogram) {
        let sum = self.histograms.entry(others(labels)).or_default();
        sum.merge(latencies);
    }
}

impl Sums {
    fn give(self, out: &mut dyn Samples) {
        for (labels, value) in &self.values {
            let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
            out.push(&labels, *value);
        }
        for (labels, histogram) in &self.histograms {
            let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
            out.push_histogram(&labels, histogram);
        }
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::fixture::info;

    use super::*;
    use crate::catalogue::Catalogue;
    use crate::metrics;
    use crate::prometheus::text::Text;
    use crate::testing::with_inputs;

    const FAMILIES: &[Family] = metrics! {
        Counter "netto_time_seconds_total" Seconds ["cpu", "event", "component"]; "";
            |_, out| for (cpu, event, ns) in [("0", "rx", 1), ("1", "rx", 2), ("0", "tx", 4)] {
                out.push(&[cpu, event, "gro"], Value::Nanoseconds(ns * 1_000_000_000));
            };
        Counter "netto_calls_total" Count("call") ["cpu"]; "";
            |_, out| for (cpu, count) in [("0", 3), ("1", 4)] {
                out.push(&[cpu], Value::Count(count));
            };
        Gauge "netto_rate_hertz" Hertz ["cpu"]; "";
            |_, out| out.push(&["0"], Value::Count(9));
        Histogram "netto_wait_seconds" Seconds ["cpu"]; "";
            |_, out| {
                let mut one = Histogram::default();
                one.record(1 << 20);
                out.push_histogram(&["0"], &one);
                out.push_histogram(&["1"], &one);
            };
    };

    /// The series of all four, without the buckets of the histogram.
    fn series(detail: PerCpu) -> Vec<String> {
        let mut text = Text::default();
        with_inputs(Catalogue::of(&[]), &info(), &[], |inputs| {
            for family in FAMILIES {
                detail.write(family, inputs, &mut text);
            }
        });
        let text = String::from_utf8(text.into_bytes()).unwrap();
        let lines = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.contains("_bucket"));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn what_is_not_wanted_by_cpu_is_the_sum_of_all_and_states_of_cpus_are_absent() {
        let all = series(PerCpu::Components);
        assert_eq!(all.len(), 3 + 2 + 1 + 4, "{all:?}");
        let summed = [
            r#"netto_time_seconds_total{event="rx",component="gro"} 3"#,
            r#"netto_time_seconds_total{event="tx",component="gro"} 4"#,
        ];
        let events = series(PerCpu::Events);
        assert_eq!(events[..2], summed);
        assert_eq!(events[2..], all[3..]);
        let none = series(PerCpu::None);
        assert_eq!(none[..2], summed);
        assert_eq!(
            none[2..],
            [
                "netto_calls_total 7",
                "netto_wait_seconds_sum 0.002097152",
                "netto_wait_seconds_count 2"
            ]
        );
    }
}
