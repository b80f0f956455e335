//! Computes joules and watts in one interval from RAPL energy counters.
//!
//! RAPL measures energy per package and per memory channel, for the whole host. Networking's part
//! is its share of all busy CPU time, as in the thesis behind netto: an estimate, because not every
//! busy nanosecond costs the same.

use std::collections::HashMap;

use metrics_common::{Power, ZonePower};

/// One energy counter, as the kernel's powercap framework shows it
/// (`Documentation/power/powercap`); AMD's packages appear there too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// Name with its parent's: `package-0`, `package-0/dram`, `psys`.
    pub name: String,
    /// The counter, microjoules.
    pub energy_uj: u64,
    /// The counter starts again at 0 after this value.
    pub max_energy_uj: u64,
}

impl Zone {
    /// Whether the zone adds to the host's power: packages and memory do;
    /// `core` and `uncore` are inside a package, `psys` is around everything.
    fn counts(&self) -> bool {
        match self.name.rsplit_once('/') {
            Some((_, part)) => part.starts_with("dram"),
            None => self.name.starts_with("package"),
        }
    }
}

/// Follows the counters from one interval to the next.
#[derive(Debug, Clone, Default)]
pub struct Energy {
    previous: HashMap<String, u64>,
}

impl Energy {
    /// Advances to these readings: power since the previous ones; `None` on the first, and without a
    /// package zone.
    ///
    /// `network_ns` and `busy_ns` are CPU time of networking and of all work
    /// in the interval of `interval_ns`.
    pub fn advance(
        &mut self,
        zones: &[Zone],
        interval_ns: u64,
        network_ns: u64,
        busy_ns: u64,
    ) -> Option<Power> {
        let mut host_joules = 0.0;
        let mut shown = Vec::new();
        for zone in zones {
            let Some(before) = self.previous.insert(zone.name.clone(), zone.energy_uj) else {
                continue;
            };
            let used_uj = if zone.energy_uj >= before {
                zone.energy_uj - before
            } else {
                zone.max_energy_uj.saturating_sub(before) + zone.energy_uj
            };
            let energy_joules = used_uj as f64 / 1e6;
            if zone.counts() {
                host_joules += energy_joules;
            }
            shown.push(ZonePower {
                zone: zone.name.clone(),
                energy_joules,
            });
        }
        if interval_ns == 0 || !shown.iter().any(|z| z.zone.starts_with("package")) {
            return None;
        }
        let share = if busy_ns == 0 {
            0.0
        } else {
            (network_ns as f64 / busy_ns as f64).min(1.0)
        };
        let seconds = interval_ns as f64 / 1e9;
        Some(Power {
            host_watts: host_joules / seconds,
            network_watts: host_joules * share / seconds,
            network_energy_joules: host_joules * share,
            zones: shown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn zone(name: &str, energy_uj: u64) -> Zone {
        Zone {
            name: name.to_owned(),
            energy_uj,
            max_energy_uj: 1_000_000_000,
        }
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn networking_gets_its_share_of_packages_and_memory_of_all_sockets() {
        let mut energy = Energy::default();
        let at = |uj| {
            vec![
                zone("package-0", uj),
                zone("package-0/core", uj),
                zone("package-0/dram", uj / 2),
                zone("package-1", uj),
                zone("psys", uj * 3),
            ]
        };
        assert_eq!(
            energy.advance(&at(0), SECOND, 1, 1),
            None,
            "a first reading has nothing to compare with"
        );
        let power = energy.advance(&at(20_000_000), SECOND, 100, 400).unwrap();
        assert_eq!(power.host_watts, 50.0);
        assert_eq!(power.network_watts, 12.5);
        assert_eq!(power.zones.len(), 5);
    }

    #[test]
    fn a_counter_that_wraps_goes_on_counting() {
        let mut energy = Energy::default();
        energy.advance(&[zone("package-0", 999_000_000)], SECOND, 0, 1);
        let power = energy
            .advance(&[zone("package-0", 4_000_000)], SECOND / 2, 1, 1)
            .unwrap();
        assert_eq!(power.host_watts, 10.0);
        assert_eq!(power.network_energy_joules, 5.0);
    }

    #[test]
    fn without_a_package_there_is_no_power_rather_than_none_used() {
        let mut energy = Energy::default();
        energy.advance(&[zone("psys", 1)], SECOND, 1, 1);
        assert_eq!(energy.advance(&[zone("psys", 2)], SECOND, 1, 1), None);
        assert_eq!(energy.advance(&[], SECOND, 1, 1), None);
    }

    #[test]
    fn an_idle_host_gives_networking_nothing() {
        let mut energy = Energy::default();
        energy.advance(&[zone("package-0", 0)], SECOND, 0, 0);
        assert_eq!(
            energy
                .advance(&[zone("package-0", 7)], SECOND, 0, 0)
                .unwrap()
                .network_watts,
            0.0
        );
    }

    proptest! {
        #[test]
        fn networking_never_uses_more_than_the_host(
            readings in proptest::collection::vec(0_u64..1_000_000_000, 2..20),
            network_ns in any::<u64>(),
            busy_ns in any::<u64>(),
        ) {
            let mut energy = Energy::default();
            for uj in readings {
                if let Some(power) = energy.advance(&[zone("package-0", uj)], SECOND, network_ns, busy_ns) {
                    prop_assert!(power.network_watts >= 0.0 && power.network_watts <= power.host_watts);
                }
            }
        }
    }
}
