//! Networking's power and the energy of each zone, as tables.

use metrics_common::table;
use metrics_common::view::Table;

/// A row for each interval, and one for each zone.
pub const TABLES: &[Table] = &[
    table! {
        Table name "power" of (_, snapshot): for power in snapshot.sections.power.iter() =>
        number "host_watts"             = power.host_watts;
        number "network_watts"          = power.network_watts;
        number "network_capacity_watts" = power.network_capacity_watts;
    },
    table! {
        Table name "power_zones" of (_, snapshot):
            for zone in snapshot.sections.power.iter().flat_map(|power| &power.zones) =>
        text   "zone"          = zone.zone;
        number "energy_joules" = zone.energy_joules;
    },
];
