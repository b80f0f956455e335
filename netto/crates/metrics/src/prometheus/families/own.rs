//! Families of the section `own`: what netto itself costs.

use metrics_common::OwnPart;
use prometheus::proto::MetricType;

use super::per_cpu;
use crate::prometheus::family::Family;
use crate::prometheus::text::{Text, Value};

/// The families.
pub const FAMILIES: &[Family<Text>] = &[
    Family {
        name: "netto_user_cpu_seconds_total",
        help: "CPU time that the netto daemon itself used, by mode. The probes' own time is not in it.",
        metric_type: MetricType::COUNTER,
        labels: &["mode"],
        series: |inputs, out| {
            if let Some(own) = &inputs.totals.sum.sections.own {
                out.push(&["user"], Value::Nanoseconds(own.user_ns));
                out.push(&["system"], Value::Nanoseconds(own.system_ns));
            }
        },
    },
    Family {
        name: "netto_resident_memory_bytes",
        help: "Resident memory of the netto daemon.",
        metric_type: MetricType::GAUGE,
        labels: &[],
        series: |inputs, out| {
            if let Some(own) = &inputs.totals.sum.sections.own {
                out.push(&[], Value::Count(own.resident_bytes));
            }
        },
    },
    Family {
        name: "netto_own_cpu_seconds_total",
        help: "CPU time that netto took from a CPU, by part: an estimate, of probes by their runs \
               and what one was found to cost.",
        metric_type: MetricType::COUNTER,
        labels: &["cpu", "part"],
        series: |inputs, out| {
            let Some(own) = &inputs.totals.sum.sections.own else {
                return;
            };
            let rows = OwnPart::ALL.map(|part| (part.slug(), own.part_ns(part)));
            per_cpu(inputs, |cpu, column| {
                for (slug, row) in rows {
                    if let Some(ns) = row.and_then(|row| row.get(column)) {
                        out.push(&[cpu, slug], Value::Nanoseconds(*ns));
                    }
                }
            });
        },
    },
    Family {
        name: "netto_overhead_ratio",
        help: "Share of the time of the CPU that netto costs most, over the last ten seconds: an estimate.",
        metric_type: MetricType::GAUGE,
        labels: &[],
        series: |inputs, out| {
            let own = inputs.totals.sum.sections.own.as_ref();
            if let Some(costliest) = own.and_then(|own| own.costliest) {
                out.push(&[], Value::Number(costliest.ratio));
            }
        },
    },
    Family {
        name: "netto_max_overhead_ratio",
        help: "Share of the time of any CPU that netto may cost; absent if that is not limited.",
        metric_type: MetricType::GAUGE,
        labels: &[],
        series: |inputs, out| {
            if let Some(ratio) = inputs.info.max_overhead_ratio {
                out.push(&[], Value::Number(ratio));
            }
        },
    },
    Family {
        name: "netto_sampling_hertz",
        help: "Stack samples per second that a CPU is asked for now; 0 while it is left alone.",
        metric_type: MetricType::GAUGE,
        labels: &["cpu"],
        series: |inputs, out| {
            let own = inputs.totals.sum.sections.own.as_ref();
            let Some(rates) = own.and_then(|own| own.sampling_hz.as_ref()) else {
                return;
            };
            per_cpu(inputs, |cpu, column| {
                if let Some(hertz) = rates.get(column) {
                    out.push(&[cpu], Value::Count(*hertz));
                }
            });
        },
    },
    Family {
        name: "netto_instrument_analysis_seconds_total",
        help: "Time that the daemon spent on the analysis of an instrument.",
        metric_type: MetricType::COUNTER,
        labels: &["instrument"],
        series: |inputs, out| {
            let own = inputs.totals.sum.sections.own.iter();
            for cost in own.flat_map(|own| &own.instruments) {
                out.push(&[&cost.name], Value::Nanoseconds(cost.analysis_ns));
            }
        },
    },
];
