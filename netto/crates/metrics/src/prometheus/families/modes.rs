//! Families of the section `modes`: what the CPUs did.

use metrics_common::CpuModes;
use prometheus::proto::MetricType;

use super::per_cpu;
use crate::prometheus::family::Family;
use crate::prometheus::text::{Text, Value};

/// The families.
pub const FAMILIES: &[Family<Text>] = &[Family {
    name: "netto_cpu_mode_seconds_total",
    help: "CPU time by mode, as /proc/stat has it.",
    metric_type: MetricType::COUNTER,
    labels: &["cpu", "mode"],
    series: |inputs, out| {
        per_cpu(inputs, |cpu, column| {
            let modes = inputs.totals.sum.sections.modes.as_ref();
            let Some(modes) = modes.and_then(|modes| modes.cpus.get(column)) else {
                return;
            };
            for (mode, ns) in CpuModes::NAMES.iter().zip(modes.values()) {
                out.push(&[cpu, mode], Value::Nanoseconds(ns));
            }
        });
    },
}];
