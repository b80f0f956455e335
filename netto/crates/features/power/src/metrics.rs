//! The metrics of RAPL energy.

use metrics_common::Power;
use netto_metrics::catalogue::{Catalogue, Inputs, Samples, Value};
use netto_metrics::metrics;

fn push(inputs: &Inputs<'_>, out: &mut dyn Samples, joules: fn(&Power) -> f64) {
    let joules = inputs.sum().sections.power.as_ref().map(joules);
    out.push_known(&[], joules.map(Value::Number));
}

/// The exported metrics.
pub const METRICS: Catalogue = Catalogue::of(metrics! {
    Counter "netto_network_energy_joules_total" Joules [];
        "Energy attributed to networking as a part of what was busy: an estimate, the energy of \
         packages and memory times networking's share of busy CPU time.";
        |inputs, out| push(inputs, out, |power| power.network_energy_joules);
    Counter "netto_network_capacity_energy_joules_total" Joules [];
        "Energy of networking's share of capacity: an estimate, the energy of packages and memory \
         times networking's share of the time of all CPUs, idle included.";
        |inputs, out| push(inputs, out, |power| power.network_capacity_energy_joules);
    Counter "netto_energy_joules_total" Joules ["zone"];
        "Energy used by a RAPL zone. Zones contain each other: never sum over all of them.";
        |inputs, out| {
            let power = inputs.sum().sections.power.iter();
            for zone in power.flat_map(|power| &power.zones) {
                out.push(&[&zone.zone], Value::Number(zone.energy_joules));
            }
        };
});

#[cfg(test)]
mod tests {
    use metrics_common::fixture::{info, measured};
    use metrics_common::{Power, ZonePower};
    use netto_metrics::testing::page_of;

    use super::*;

    #[test]
    fn energy_appears_where_it_is_measured() {
        let mut snapshot = measured(1);
        assert!(!page_of(METRICS, &info(), &[&snapshot]).contains("joules"));
        snapshot.sections.power = Some(Power {
            host_watts: 40.0,
            network_watts: 10.0,
            network_energy_joules: 5.5,
            network_capacity_watts: 2.0,
            network_capacity_energy_joules: 1.5,
            zones: vec![ZonePower {
                zone: "package-0/dram".to_owned(),
                energy_joules: 2.25,
            }],
        });
        let page = page_of(METRICS, &info(), &[&snapshot, &snapshot]);
        for line in [
            "netto_network_energy_joules_total 11\n",
            "netto_network_capacity_energy_joules_total 3\n",
            "netto_energy_joules_total{zone=\"package-0/dram\"} 4.5\n",
        ] {
            assert!(page.contains(line), "{page}");
        }
    }
}
