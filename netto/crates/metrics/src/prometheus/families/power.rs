//! Families of the section `power`: energy by RAPL.

use prometheus::proto::MetricType;

use crate::prometheus::family::Family;
use crate::prometheus::text::{Text, Value};

/// The families.
pub const FAMILIES: &[Family<Text>] = &[
    Family {
        name: "netto_network_energy_joules_total",
        help: "Energy that fell to networking: an estimate, the energy of packages and memory \
               times networking's share of busy CPU time.",
        metric_type: MetricType::COUNTER,
        labels: &[],
        series: |inputs, out| {
            if let Some(power) = &inputs.totals.sum.sections.power {
                out.push(&[], Value::Number(power.network_energy_joules));
            }
        },
    },
    Family {
        name: "netto_energy_joules_total",
        help: "Energy used by a RAPL zone. Zones contain each other: never sum over all of them.",
        metric_type: MetricType::COUNTER,
        labels: &["zone"],
        series: |inputs, out| {
            let power = inputs.totals.sum.sections.power.iter();
            for zone in power.flat_map(|power| &power.zones) {
                out.push(&[&zone.zone], Value::Number(zone.energy_joules));
            }
        },
    },
];
