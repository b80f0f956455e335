//! The power of the made-up host: a constant for each CPU, and more for busy time. Pure.

use metrics_common::component::index_of;
use metrics_common::{Power, ZonePower};
use netto_feature::demo::Generator;

/// Watts of an idle CPU, and the additional watts of a busy one.
const IDLE_WATTS: f64 = 0.9;
const BUSY_WATTS: f64 = 2.6;

/// Networking's part follows from its CPU time.
pub fn generator() -> Generator {
    Box::new(|interval, sections| {
        let row = index_of("network").zip(sections.cost.as_ref());
        let network_ns = row.and_then(|(row, cost)| cost.total_ns(row)).unwrap_or(0);
        let busy_ns = sections
            .modes
            .as_ref()
            .map_or(0, |modes| modes.host.busy_ns());
        let busy_ns = busy_ns.max(network_ns).max(1) as f64;
        let length_ns = interval.length_ns as f64;
        let idle_watts = interval.work.modes.len() as f64 * IDLE_WATTS;
        let host_watts = idle_watts + busy_ns / length_ns * BUSY_WATTS;
        let network_watts = host_watts * network_ns as f64 / busy_ns;
        let capacity_ns = interval.work.modes.len().max(1) as f64 * length_ns;
        let network_capacity_watts = host_watts * network_ns as f64 / capacity_ns;
        sections.power = Some(Power {
            host_watts,
            network_watts,
            network_energy_joules: network_watts * length_ns / 1e9,
            network_capacity_watts,
            network_capacity_energy_joules: network_capacity_watts * length_ns / 1e9,
            zones: vec![ZonePower {
                zone: "package-0".to_owned(),
                energy_joules: host_watts * length_ns / 1e9,
            }],
        });
    })
}
