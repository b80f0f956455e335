//! Families of the section `owners`: what control groups cause of networking's time, and pay.

use metrics_common::COMPONENTS;
use prometheus::proto::MetricType;

use crate::prometheus::family::Family;
use crate::prometheus::owner_totals::LIMIT;
use crate::prometheus::text::{Text, Value};

/// The families.
pub const FAMILIES: &[Family<Text>] = &[
    Family {
        name: "netto_cgroup_network_cpu_seconds_total",
        help: "CPU time of networking that a control group caused, by event, whoever was interrupted \
               for it. Of what is no group, owner says what it is: interface, nobody, other, process.",
        metric_type: MetricType::COUNTER,
        labels: &["owner", "cgroup", "container", "pod", "namespace", "event"],
        series: |inputs, out| {
            for (name, total) in inputs.totals.owners.iter() {
                for (&event, &ns) in &total.caused_ns {
                    let event = COMPONENTS.get(event).map_or("", |row| row.slug);
                    let labels = [
                        name.kind,
                        &name.cgroup,
                        &name.container,
                        &name.pod,
                        &name.namespace,
                        event,
                    ];
                    out.push(&labels, Value::Nanoseconds(ns));
                }
            }
        },
    },
    Family {
        name: "netto_cgroup_softirq_paid_seconds_total",
        help: "CPU time of network softirqs that others caused and for which a control group was \
               interrupted; idle CPUs and threads of the kernel (owner) lost nothing by it.",
        metric_type: MetricType::COUNTER,
        labels: &["owner", "cgroup", "container", "pod", "namespace"],
        series: |inputs, out| {
            for (name, total) in inputs.totals.owners.iter() {
                if let Some(ns) = total.paid_ns {
                    let labels = [
                        name.kind,
                        &name.cgroup,
                        &name.container,
                        &name.pod,
                        &name.namespace,
                    ];
                    out.push(&labels, Value::Nanoseconds(ns));
                }
            }
        },
    },
    Family {
        name: "netto_owners_limit",
        help: "Control groups and interfaces that have series of their own, at the most.",
        metric_type: MetricType::GAUGE,
        labels: &[],
        series: |inputs, out| {
            if inputs.totals.owners.given_up().is_some() {
                out.push(&[], Value::Count(LIMIT as u64));
            }
        },
    },
    Family {
        name: "netto_owners_given_up_total",
        help: "Control groups and interfaces whose series ended because others needed the place.",
        metric_type: MetricType::COUNTER,
        labels: &[],
        series: |inputs, out| {
            if let Some(given_up) = inputs.totals.owners.given_up() {
                out.push(&[], Value::Count(given_up));
            }
        },
    },
];
