//! Families of the section `own`: what the daemon itself costs.

use prometheus::proto::MetricType;

use super::seconds;
use crate::sinks::prometheus::registry::Family;

/// The families.
pub const FAMILIES: &[Family] = &[
    Family {
        name: "netto_user_cpu_seconds_total",
        help: "CPU time that the netto daemon itself used, by mode. The probes' own time is not in it.",
        metric_type: MetricType::COUNTER,
        labels: &["mode"],
        series: |inputs, out| {
            if let Some(own) = &inputs.totals.sum.sections.own {
                out.push(&["user"], seconds(own.user_ns));
                out.push(&["system"], seconds(own.system_ns));
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
                out.push(&[], own.resident_bytes as f64);
            }
        },
    },
];
