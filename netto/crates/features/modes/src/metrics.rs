//! The metrics of CPU time by mode.

use metrics_common::CpuModes;
use netto_metrics::catalogue::{Catalogue, Value};
use netto_metrics::metrics;

/// The exported metrics.
pub const METRICS: Catalogue = Catalogue::of(metrics! {
    Counter "netto_cpu_mode_seconds_total" Seconds ["cpu", "mode"];
        "CPU time by mode, as /proc/stat has it.";
        |inputs, out| {
            inputs.per_cpu(|cpu, column| {
                let modes = inputs.sum().sections.modes.as_ref();
                let Some(modes) = modes.and_then(|modes| modes.cpus.get(column)) else { return };
                for (mode, ns) in CpuModes::NAMES.iter().zip(modes.values()) {
                    out.push(&[cpu, mode], Value::Nanoseconds(ns));
                }
            });
        };
});
