//! Families of the section `drops`: packets that were dropped, and why.

use prometheus::proto::MetricType;

use super::per_cpu;
use crate::prometheus::family::Family;
use crate::prometheus::text::{Text, Value};

/// Stands for the functions that there was no room for.
const OTHERS: &str = "other functions";

/// The families.
pub const FAMILIES: &[Family<Text>] = &[
    Family {
        name: "netto_dropped_packets_total",
        help: "Packets that the kernel dropped, in any network namespace, by its reason and the \
               function that dropped them.",
        metric_type: MetricType::COUNTER,
        labels: &["reason", "function"],
        series: |inputs, out| {
            let Some(drops) = &inputs.totals.sum.sections.drops else {
                return;
            };
            for place in &drops.places {
                let labels = [place.reason.as_str(), place.function.as_str()];
                out.push(&labels, Value::Count(place.packets));
            }
            if drops.other_packets > 0 {
                out.push(&["", OTHERS], Value::Count(drops.other_packets));
            }
        },
    },
    Family {
        name: "netto_cpu_dropped_packets_total",
        help: "Packets that a CPU dropped.",
        metric_type: MetricType::COUNTER,
        labels: &["cpu"],
        series: |inputs, out| {
            let drops = inputs.totals.sum.sections.drops.as_ref();
            let row = drops.map_or(&[][..], |drops| &drops.cpus);
            per_cpu(inputs, |cpu, column| {
                if let Some(count) = row.get(column) {
                    out.push(&[cpu], Value::Count(*count));
                }
            });
        },
    },
];
