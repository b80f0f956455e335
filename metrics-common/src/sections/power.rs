//! Power, measured by RAPL and attributed by share of CPU time.

use serde::{Deserialize, Serialize};

use super::columns::Columns;
use super::recorded::{Quantity, Recorded, Unit};
use super::section::Section;
use crate::info::Info;
use crate::packed::Damaged;
use crate::rounding::{Carry, seven_digits};

/// When which figure of networking's power is right, for people.
pub const WHICH_POWER: &str = "Attributed to what was busy: all of the host's power, that of idle \
    time included, divided among the work that was done; right for who should pay for the host. \
    Share of capacity: the same power for every second of every CPU, so that idle time keeps its \
    own; right where idle CPUs would be there anyway, and for comparisons with the thesis behind \
    netto. Neither is what would be saved without networking.";

/// Most zones; a hostile log must not exhaust the memory.
const MOST_ZONES: usize = 256;

/// Energy of one RAPL zone in the interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ZonePower {
    /// The zone's name with its path of parents, e.g. `package-0` or `package-0/dram`.
    /// Zones of different depth overlap: never add a zone to its parent.
    pub zone: String,
    /// Joules used in the interval.
    pub energy_joules: f64,
}

/// Power in the interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Power {
    /// Power of packages and their memory, watts.
    pub host_watts: f64,
    /// The part of networking, *attributed to what was busy*: `host_watts` × networking's share of
    /// all busy CPU time. An estimate.
    pub network_watts: f64,
    /// `network_watts` × the interval.
    pub network_energy_joules: f64,
    /// The part of networking, as a *share of capacity*: `host_watts` × networking's share of the
    /// time of all CPUs, idle included. An estimate.
    pub network_capacity_watts: f64,
    /// `network_capacity_watts` × the interval.
    pub network_capacity_energy_joules: f64,
    /// Every zone that was read.
    pub zones: Vec<ZonePower>,
}

impl Section for Power {
    type Wire = Power;

    fn to_wire(&self) -> Power {
        self.clone()
    }

    fn from_wire(wire: Power, _: usize) -> Result<Self, Damaged> {
        Ok(wire)
    }

    fn round(&mut self, _: &mut Carry) {
        let zones = self.zones.iter_mut().map(|zone| &mut zone.energy_joules);
        let host = [
            &mut self.host_watts,
            &mut self.network_watts,
            &mut self.network_energy_joules,
            &mut self.network_capacity_watts,
            &mut self.network_capacity_energy_joules,
        ];
        for value in host.into_iter().chain(zones) {
            *value = seven_digits(*value);
        }
    }

    fn add(&mut self, later: &Self, _: &Columns) {
        let Power {
            host_watts,
            network_watts,
            network_energy_joules,
            network_capacity_watts,
            network_capacity_energy_joules,
            zones,
        } = self;
        *host_watts = later.host_watts;
        *network_watts = later.network_watts;
        *network_energy_joules += later.network_energy_joules;
        *network_capacity_watts = later.network_capacity_watts;
        *network_capacity_energy_joules += later.network_capacity_energy_joules;
        for more in &later.zones {
            let has_room = zones.len() < MOST_ZONES;
            match zones.iter_mut().find(|zone| zone.zone == more.zone) {
                Some(zone) => zone.energy_joules += more.energy_joules,
                None if has_room => zones.push(more.clone()),
                None => {}
            }
        }
    }
}

/// One series: networking's power, attributed to what was busy.
impl Recorded for Power {
    fn series(_: &Info) -> Vec<Quantity> {
        vec![Quantity {
            name: "network".to_owned(),
            unit: Unit::Watts,
        }]
    }

    fn value(&self, _: usize, interval_ns: u64) -> Option<f64> {
        Some(self.network_energy_joules / interval_ns as f64 * 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_keeps_no_more_zones_than_a_host_can_have() {
        let mut sum = Power::default();
        for number in 0..2 * MOST_ZONES {
            let zones = vec![ZonePower {
                zone: format!("package-{number}"),
                energy_joules: 1.0,
            }];
            let later = Power {
                zones,
                ..Power::default()
            };
            sum.add(&later, &Columns::folded());
            sum.add(&later, &Columns::folded());
        }
        assert_eq!(sum.zones.len(), MOST_ZONES);
        assert!(sum.zones.iter().all(|zone| zone.energy_joules == 2.0));
    }
}
