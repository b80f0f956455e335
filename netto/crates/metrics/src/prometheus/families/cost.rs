//! Families of the section `cost`: CPU time of networking and its components.

use metrics_common::{ComponentInfo, Cost, KindName};
use prometheus::proto::MetricType;

use super::per_cpu;
use crate::prometheus::family::{Family, Inputs};
use crate::prometheus::text::{Text, Value};

/// Calls `each` with CPU, row and seconds of every measured component of these kinds.
fn per_component(
    inputs: &Inputs<'_>,
    kinds: &[KindName],
    mut each: impl FnMut(&str, &ComponentInfo, Value),
) {
    let components = inputs.info.components.iter();
    let rows: Vec<_> = components
        .zip(&cost(inputs).components)
        .filter(|(component, _)| kinds.contains(&component.kind))
        .filter_map(|(component, row)| Some((component, row.as_deref()?)))
        .collect();
    per_cpu(inputs, |cpu, column| {
        for (component, row) in &rows {
            if let Some(ns) = row.get(column) {
                each(cpu, component, Value::Nanoseconds(*ns));
            }
        }
    });
}

fn cost<'a>(inputs: &'a Inputs<'_>) -> &'a Cost {
    inputs.totals.sum.cost()
}

/// The families.
pub const FAMILIES: &[Family<Text>] = &[
    Family {
        name: "netto_cpu_seconds_total",
        help: "CPU time spent on an event of the network stack (or another softirq, for context). \
               netto_component_info tells by which method each is measured.",
        metric_type: MetricType::COUNTER,
        labels: &["cpu", "event"],
        series: |inputs, out| {
            per_component(
                inputs,
                &[KindName::Timed, KindName::Estimated, KindName::Carved],
                |cpu, component, value| {
                    out.push(&[cpu, &component.slug], value);
                },
            );
        },
    },
    Family {
        name: "netto_calls_total",
        help: "How often an event was entered: socket calls where they are timed, and softirqs.",
        metric_type: MetricType::COUNTER,
        labels: &["cpu", "event"],
        series: |inputs, out| {
            per_cpu(inputs, |cpu, column| {
                for (component, row) in inputs.info.components.iter().zip(&cost(inputs).entries) {
                    if let Some(entries) = row.as_ref().and_then(|row| row.get(column)) {
                        out.push(&[cpu, &component.slug], Value::Count(*entries));
                    }
                }
            });
        },
    },
    Family {
        name: "netto_ksoftirqd_rx_seconds_total",
        help: "Part of the RX softirq's CPU time that ran in ksoftirqd, because there was too much of it.",
        metric_type: MetricType::COUNTER,
        labels: &["cpu"],
        series: |inputs, out| {
            per_cpu(inputs, |cpu, column| {
                if let Some(ns) = cost(inputs)
                    .ksoftirqd_rx_ns
                    .as_ref()
                    .and_then(|row| row.get(column))
                {
                    out.push(&[cpu], Value::Nanoseconds(*ns));
                }
            });
        },
    },
    Family {
        name: "netto_component_cpu_seconds_total",
        help: "CPU time spent in one component of an event: an estimate, the event's time split \
               by sampled stacks.",
        metric_type: MetricType::COUNTER,
        labels: &["cpu", "event", "component"],
        series: |inputs, out| {
            per_component(
                inputs,
                &[KindName::Sampled, KindName::Remainder],
                |cpu, component, value| {
                    let event = component.parent.as_deref().unwrap_or_default();
                    out.push(&[cpu, event, &component.slug], value);
                },
            );
        },
    },
    Family {
        name: "netto_network_cpu_seconds_total",
        help: "CPU time spent on networking: the sum of its events.",
        metric_type: MetricType::COUNTER,
        labels: &["cpu"],
        series: |inputs, out| {
            per_component(inputs, &[KindName::Sum], |cpu, component, value| {
                if component.slug == "network" {
                    out.push(&[cpu], value);
                }
            });
        },
    },
    Family {
        name: "netto_samples_total",
        help: "Kernel stacks sampled.",
        metric_type: MetricType::COUNTER,
        labels: &["cpu"],
        series: |inputs, out| {
            per_cpu(inputs, |cpu, column| {
                if let Some(taken) = cost(inputs).stacks_taken.get(column) {
                    out.push(&[cpu], Value::Count(*taken));
                }
            });
        },
    },
    Family {
        name: "netto_samples_lost_total",
        help: "Kernel stacks that were lost for lack of room in the buffer.",
        metric_type: MetricType::COUNTER,
        labels: &["cpu"],
        series: |inputs, out| {
            per_cpu(inputs, |cpu, column| {
                if let Some(lost) = cost(inputs).stacks_lost.get(column) {
                    out.push(&[cpu], Value::Count(*lost));
                }
            });
        },
    },
    Family {
        name: "netto_probe_missed_total",
        help: "How often a probe missed what it is there to see, and why; only where the kernel counts it.",
        metric_type: MetricType::COUNTER,
        labels: &["probe", "reason"],
        series: |inputs, out| {
            for (way, missed) in inputs.info.missable.iter().zip(&cost(inputs).probe_missed) {
                out.push(&[&way.probe, &way.reason], Value::Count(*missed));
            }
        },
    },
];
