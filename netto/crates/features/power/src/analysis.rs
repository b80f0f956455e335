//! Computes joules and watts in one interval from RAPL energy counters.
//!
//! RAPL measures energy per package and per memory channel, for the whole host. There are two ways
//! to give networking a part of it, and both are estimates, because not every nanosecond costs the
//! same. *Attributed to what was busy*: by its share of all busy CPU time, so that the energy of
//! idle time is divided among the work. *Share of capacity*: by its share of the time of all CPUs,
//! idle included, as in the thesis behind netto.

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

/// CPU time in an interval, nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuTime {
    /// Of networking.
    pub network_ns: u64,
    /// Of all work.
    pub busy_ns: u64,
    /// Of all CPUs, idle included: their number times the interval.
    pub capacity_ns: u64,
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
    /// `used` is the CPU time in the interval of `interval_ns`.
    pub fn advance(&mut self, zones: &[Zone], interval_ns: u64, used: CpuTime) -> Option<Power> {
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
        let network_of = |whole_ns: u64| match whole_ns {
            0 => 0.0,
            _ => host_joules * (used.network_ns as f64 / whole_ns as f64).min(1.0),
        };
        let (attributed, of_capacity) = (network_of(used.busy_ns), network_of(used.capacity_ns));
        let seconds = interval_ns as f64 / 1e9;
        Some(Power {
            host_watts: host_joules / seconds,
            network_watts: attributed / seconds,
            network_energy_joules: attributed,
            network_capacity_watts: of_capacity / seconds,
            network_capacity_energy_joules: of_capacity,
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

    fn used(network_ns: u64, busy_ns: u64, capacity_ns: u64) -> CpuTime {
        CpuTime {
            network_ns,
            busy_ns,
            capacity_ns,
        }
    }

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
            energy.advance(&at(0), SECOND, used(1, 1, 1)),
            None,
            "a first reading has nothing to compare with"
        );
        let power = energy
            .advance(&at(20_000_000), SECOND / 2, used(100, 400, 2_000))
            .unwrap();
        assert_eq!(power.host_watts, 100.0);
        assert_eq!(
            (power.network_watts, power.network_energy_joules),
            (25.0, 12.5)
        );
        let of_capacity = (
            power.network_capacity_watts,
            power.network_capacity_energy_joules,
        );
        assert_eq!(
            of_capacity,
            (5.0, 2.5),
            "a fifth: 20 % of the CPUs were busy"
        );
        assert_eq!(power.zones.len(), 5);
    }

    #[test]
    fn a_counter_that_wraps_goes_on_counting() {
        let mut energy = Energy::default();
        energy.advance(&[zone("package-0", 999_000_000)], SECOND, used(0, 1, 1));
        let power = energy
            .advance(&[zone("package-0", 4_000_000)], SECOND / 2, used(1, 1, 1))
            .unwrap();
        assert_eq!(power.host_watts, 10.0);
        assert_eq!(power.network_energy_joules, 5.0);
    }

    #[test]
    fn without_a_package_there_is_no_power_rather_than_none_used() {
        let mut energy = Energy::default();
        energy.advance(&[zone("psys", 1)], SECOND, used(1, 1, 1));
        let without_package = energy.advance(&[zone("psys", 2)], SECOND, used(1, 1, 1));
        assert_eq!(without_package, None);
        assert_eq!(energy.advance(&[], SECOND, used(1, 1, 1)), None);
    }

    #[test]
    fn an_idle_host_gives_networking_nothing() {
        let mut energy = Energy::default();
        energy.advance(&[zone("package-0", 0)], SECOND, used(0, 0, SECOND));
        let power = energy
            .advance(&[zone("package-0", 7)], SECOND, used(0, 0, SECOND))
            .unwrap();
        assert_eq!(
            (power.network_watts, power.network_capacity_watts),
            (0.0, 0.0)
        );
    }

    proptest! {
        #[test]
        fn networking_never_uses_more_than_the_host(
            readings in proptest::collection::vec(0_u64..1_000_000_000, 2..20),
            network_ns in any::<u64>(),
            busy_ns in any::<u64>(),
            capacity_ns in any::<u64>(),
        ) {
            let mut energy = Energy::default();
            for uj in readings {
                let used = used(network_ns, busy_ns, capacity_ns);
                if let Some(power) = energy.advance(&[zone("package-0", uj)], SECOND, used) {
                    for part in [power.network_watts, power.network_capacity_watts] {
                        prop_assert!(part >= 0.0 && part <= power.host_watts);
                    }
                }
            }
        }
    }
}
