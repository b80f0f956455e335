//! What the metrics are called, and what they say, in the terms of Prometheus.
//!
//! One table of families; names carry the prefix `netto_` and base units. A
//! thing that is not measured has no series. This file only reads totals.

use std::sync::atomic::Ordering;

use metrics_common::{Availability, ComponentInfo, CpuModes, KindName};
use prometheus::proto::MetricType;

use super::prometheus_logger::CpuTotals;
use super::prometheus_registry::{Family, Inputs};
use crate::actors::metrics_collector::Sink;

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn per_cpu(inputs: &Inputs<'_>, mut each: impl FnMut(&str, &CpuTotals)) {
    for (cpu, totals) in &inputs.totals.cpus {
        each(&cpu.to_string(), totals);
    }
}

/// Calls `each` with CPU, row and seconds of every measured component of these kinds.
fn per_component(
    inputs: &Inputs<'_>,
    kinds: &[KindName],
    mut each: impl FnMut(&str, &ComponentInfo, f64),
) {
    per_cpu(inputs, |cpu, totals| {
        for (component, total) in inputs.info.components.iter().zip(&totals.components_ns) {
            if let (true, Some(ns)) = (kinds.contains(&component.kind), total) {
                each(cpu, component, seconds(*ns));
            }
        }
    });
}

/// Every family.
pub const FAMILIES: &[Family] = &[
    Family {
        name: "netto_build_info",
        help: "A constant 1, labelled with the version of netto.",
        metric_type: MetricType::GAUGE,
        labels: &["version"],
        series: |inputs, out| out.push(&[&inputs.info.version], 1.0),
    },
    Family {
        name: "netto_host_info",
        help: "A constant 1, labelled with the kernel release and the host name.",
        metric_type: MetricType::GAUGE,
        labels: &["kernel", "hostname"],
        series: |inputs, out| out.push(&[&inputs.info.kernel, &inputs.info.hostname], 1.0),
    },
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
            per_cpu(inputs, |cpu, totals| {
                for (component, entries) in inputs.info.components.iter().zip(&totals.entries) {
                    if let Some(entries) = entries {
                        out.push(&[cpu, &component.slug], *entries as f64);
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
            per_cpu(inputs, |cpu, totals| {
                if let Some(ns) = totals.ksoftirqd_rx_ns {
                    out.push(&[cpu], seconds(ns));
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
        name: "netto_cpu_mode_seconds_total",
        help: "CPU time by mode, as /proc/stat has it.",
        metric_type: MetricType::COUNTER,
        labels: &["cpu", "mode"],
        series: |inputs, out| {
            per_cpu(inputs, |cpu, totals| {
                for (mode, ns) in CpuModes::NAMES.iter().zip(totals.modes_ns) {
                    out.push(&[cpu, mode], seconds(ns));
                }
            });
        },
    },
    Family {
        name: "netto_component_info",
        help: "A constant 1 for every component that is measured here, with the method.",
        metric_type: MetricType::GAUGE,
        labels: &["component", "parent", "kind", "method"],
        series: |inputs, out| {
            for component in &inputs.info.components {
                if let Availability::Available { method } = &component.availability {
                    let parent = component.parent.as_deref().unwrap_or_default();
                    let kind = component.kind.as_str();
                    out.push(&[&component.slug, parent, kind, method.as_str()], 1.0);
                }
            }
        },
    },
    Family {
        name: "netto_network_energy_joules_total",
        help: "Energy that fell to networking: an estimate, the energy of packages and memory \
               times networking's share of busy CPU time.",
        metric_type: MetricType::COUNTER,
        labels: &[],
        series: |inputs, out| {
            if let Some(joules) = inputs.totals.network_energy_joules {
                out.push(&[], joules);
            }
        },
    },
    Family {
        name: "netto_energy_joules_total",
        help: "Energy used by a RAPL zone. Zones contain each other: never sum over all of them.",
        metric_type: MetricType::COUNTER,
        labels: &["zone"],
        series: |inputs, out| {
            for (zone, joules) in &inputs.totals.zones_joules {
                out.push(&[zone], *joules);
            }
        },
    },
    Family {
        name: "netto_samples_total",
        help: "Kernel stacks sampled.",
        metric_type: MetricType::COUNTER,
        labels: &["cpu"],
        series: |inputs, out| {
            per_cpu(inputs, |cpu, totals| {
                out.push(&[cpu], totals.stacks_taken as f64);
            });
        },
    },
    Family {
        name: "netto_samples_lost_total",
        help: "Kernel stacks that were lost for lack of room in the buffer.",
        metric_type: MetricType::COUNTER,
        labels: &["cpu"],
        series: |inputs, out| {
            per_cpu(inputs, |cpu, totals| {
                out.push(&[cpu], totals.stacks_lost as f64);
            });
        },
    },
    Family {
        name: "netto_probe_attached",
        help: "Whether a probe is attached (1) or could not be (0).",
        metric_type: MetricType::GAUGE,
        labels: &["probe", "method"],
        series: |inputs, out| {
            // A probe may serve several purposes; the series must stay one.
            let mut seen = Vec::new();
            for probe in &inputs.info.probes {
                let key = (&probe.name, &probe.method);
                if seen.contains(&key) {
                    continue;
                }
                seen.push(key);
                let attached = inputs
                    .info
                    .probes
                    .iter()
                    .filter(|other| (&other.name, &other.method) == key)
                    .all(|other| other.failure.is_none());
                out.push(
                    &[&probe.name, probe.method.as_str()],
                    f64::from(u8::from(attached)),
                );
            }
        },
    },
    Family {
        name: "netto_probe_missed_total",
        help: "How often a probe missed what it is there to see, and why; only where the kernel counts it.",
        metric_type: MetricType::COUNTER,
        labels: &["probe", "reason"],
        series: |inputs, out| {
            for (way, missed) in inputs.info.missable.iter().zip(&inputs.totals.probe_missed) {
                out.push(&[&way.probe, &way.reason], *missed as f64);
            }
        },
    },
    Family {
        name: "netto_user_cpu_seconds_total",
        help: "CPU time that the netto daemon itself used, by mode. The probes' own time is not in it.",
        metric_type: MetricType::COUNTER,
        labels: &["mode"],
        series: |inputs, out| {
            out.push(&["user"], seconds(inputs.totals.own_ns.0));
            out.push(&["system"], seconds(inputs.totals.own_ns.1));
        },
    },
    Family {
        name: "netto_resident_memory_bytes",
        help: "Resident memory of the netto daemon.",
        metric_type: MetricType::GAUGE,
        labels: &[],
        series: |inputs, out| {
            if inputs.totals.snapshots > 0 {
                out.push(&[], inputs.totals.resident_bytes as f64);
            }
        },
    },
    Family {
        name: "netto_snapshots_total",
        help: "Intervals measured.",
        metric_type: MetricType::COUNTER,
        labels: &[],
        series: |inputs, out| out.push(&[], inputs.totals.snapshots as f64),
    },
    Family {
        name: "netto_last_snapshot_timestamp_seconds",
        help: "End of the last interval, seconds since the Unix epoch.",
        metric_type: MetricType::GAUGE,
        labels: &[],
        series: |inputs, out| {
            if inputs.totals.snapshots > 0 {
                out.push(&[], seconds(inputs.totals.last_time_unix_ns));
            }
        },
    },
    Family {
        name: "netto_sink_dropped_snapshots_total",
        help: "Snapshots that a sink missed because it was too slow.",
        metric_type: MetricType::COUNTER,
        labels: &["sink"],
        series: |inputs, out| {
            for sink in Sink::ALL {
                out.push(&[sink.slug()], inputs.drops.get(sink) as f64);
            }
        },
    },
    Family {
        name: "netto_http_malformed_requests_total",
        help: "Requests that were no HTTP, or no TLS where that is spoken.",
        metric_type: MetricType::COUNTER,
        labels: &[],
        series: |inputs, out| out.push(&[], inputs.clients.malformed.total() as f64),
    },
    Family {
        name: "netto_http_connections_given_away_total",
        help: "Connections that were closed or refused because others needed the place.",
        metric_type: MetricType::COUNTER,
        labels: &[],
        series: |inputs, out| {
            out.push(
                &[],
                inputs.clients.given_away.load(Ordering::Relaxed) as f64,
            );
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_carry_the_prefix_and_counters_their_suffix() {
        for family in FAMILIES {
            assert!(family.name.starts_with("netto_"), "{}", family.name);
            assert_eq!(
                family.metric_type == MetricType::COUNTER,
                family.name.ends_with("_total"),
                "{}",
                family.name
            );
            assert!(family.help.ends_with('.'), "{}", family.name);
        }
    }
}
