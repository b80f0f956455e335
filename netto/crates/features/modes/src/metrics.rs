//! The metrics of CPU time by mode.

use metrics_common::CpuModes;
use netto_metrics::catalogue::{Catalogue, Family, Unit, Value};

/// The exported metrics.
pub const METRICS: Catalogue = Catalogue::of(&[Family::counter(
    "netto_cpu_mode_seconds_total",
    Unit::Seconds,
    "CPU time by mode, as /proc/stat has it.",
    &["cpu", "mode"],
    |inputs, out| {
        inputs.per_cpu(|cpu, column| {
            let modes = inputs.sum().sections.modes.as_ref();
            let Some(modes) = modes.and_then(|modes| modes.cpus.get(column)) else {
                return;
            };
            for (mode, ns) in CpuModes::NAMES.iter().zip(modes.values()) {
                out.push(&[cpu, mode], Value::Nanoseconds(ns));
            }
        });
    },
)]);
