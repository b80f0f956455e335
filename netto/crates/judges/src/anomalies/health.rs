//! Values of the host's health that are watched: of disks, page cache, queueing disciplines and pressure.
//! No number where they are not measured. Pure.

use crate::advice::figures::Figures;
use metrics_common::sections::{BlockDevice, Health, Requests};
use metrics_common::snapshot::Snapshot;

/// Fewer requests a second say nothing of a device.
const LEAST_REQUESTS: f64 = 10.0;
/// Fewer lookups a second say nothing of the page cache.
const LEAST_LOOKUPS: f64 = 50.0;
/// Probes that were attached all the time have timed this part of requests at least: those under way at
/// either end of an interval may be counted in one and timed in the other.
const LEAST_TIMED: f64 = 0.8;

/// The mean time of a request in its device: by probes, else with the wait before it.
fn mean_ns(requests: Requests) -> f64 {
    match requests.timed {
        Some(timed) if timed.count > 0 => timed.service_ns as f64 / timed.count as f64,
        _ => requests.whole_ns as f64 / requests.count as f64,
    }
}

/// Whether probes have met the requests of all devices that they know.
fn are_all_timed(health: &Health) -> bool {
    let reads = health.devices.iter().map(|device| device.reads);
    let known = reads.filter_map(|requests| Some([requests.count, requests.timed?.count]));
    let [all, timed] = known.fold([0.0; 2], |sum, counts| {
        [0, 1].map(|at| sum[at] + counts[at] as f64)
    });
    timed >= LEAST_TIMED * all
}

/// The device that takes longest, of those with enough requests in this time.
fn slowest_device(
    health: &Health,
    of: fn(&BlockDevice) -> Requests,
) -> Option<(&BlockDevice, f64)> {
    let seconds = health.measured_ns as f64 / 1e9;
    let all = health.devices.iter().filter_map(|device| {
        let requests = of(device);
        let is_busy = requests.count as f64 >= LEAST_REQUESTS * seconds;
        (is_busy && requests.count > 0).then(|| (device, mean_ns(requests)))
    });
    all.max_by(|(_, ns), (_, other)| ns.total_cmp(other))
}

/// The device that takes longest, in words.
pub(super) fn slowest(of: &Snapshot, requests: fn(&BlockDevice) -> Requests) -> Option<String> {
    let (device, ns) = slowest_device(of.sections.health.as_ref()?, requests)?;
    let BlockDevice { name, class, .. } = device;
    Some(format!("{:.1} ms at {name} ({class})", ns / 1e6))
}

impl<'a> Figures<'a> {
    fn health(&self) -> Option<&'a Health> {
        self.sum().sections.health.as_ref()
    }

    /// Time of a request in the device that takes longest, nanoseconds.
    pub(super) fn device_time(&self, of: fn(&BlockDevice) -> Requests) -> f64 {
        let slowest = self.health().and_then(|health| slowest_device(health, of));
        slowest.map_or(f64::NAN, |(_, ns)| ns)
    }

    /// Requests that failed, by second, where probes see them.
    pub(super) fn disk_errors(&self) -> f64 {
        let timed = self.health().map(|health| {
            let all = health.devices.iter();
            let timed = all.flat_map(|device| [device.reads.timed, device.writes.timed]);
            timed.flatten().map(|timed| timed.errors)
        });
        let errors = timed.and_then(|all| all.reduce(u64::saturating_add));
        self.rate(errors)
    }

    /// Reads of devices for a lookup in the page cache; no number while probes, which count lookups and
    /// time requests, are attached for a part of the time: reads are counted exactly, and a window from
    /// before a load changed says nothing of it.
    pub(super) fn page_cache_misses(&self) -> f64 {
        let Some(health) = self.health().filter(|health| are_all_timed(health)) else {
            return f64::NAN;
        };
        let lookups = self.rate(health.cache_lookups);
        let reads = health.devices.iter().map(|device| device.reads.count);
        let reads = self.rate(reads.reduce(u64::saturating_add));
        if lookups >= LEAST_LOOKUPS {
            (reads / lookups).min(1.0)
        } else {
            f64::NAN
        }
    }

    /// Packets that queueing disciplines dropped, by second.
    pub(super) fn qdisc_drops(&self) -> f64 {
        let dropped = self.health().map(|health| {
            let all = health.links.iter().map(|link| link.qdisc_dropped);
            all.fold(0_u64, u64::saturating_add)
        });
        self.rate(dropped)
    }

    /// Share of the time in which some task waited for this resource.
    pub(super) fn stall(&self, resource: &str) -> f64 {
        let known = self.health().and_then(|health| {
            let mut all = health.pressure.iter();
            let pressure = all.find(|pressure| pressure.resource == resource)?;
            Some(pressure.some_ns as f64 / health.measured_ns as f64)
        });
        known.map_or(f64::NAN, |share| share.min(1.0))
    }

    /// The median round-trip time of TCP connections, nanoseconds.
    pub(super) fn round_trip(&self) -> f64 {
        let tcp = self.health().and_then(|health| health.tcp);
        let known = tcp.and_then(|tcp| tcp.rtt_ns);
        known.map_or(f64::NAN, |ns| ns as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::fixture::calm;
    use metrics_common::sections::{LinkHealth, Pressure, Timed};

    fn device(name: &str, count: u64, service_ns: u64) -> BlockDevice {
        let timed = Timed {
            count,
            service_ns: count * service_ns,
            errors: count / 10,
            ..Timed::default()
        };
        BlockDevice {
            name: name.to_owned(),
            class: "ssd".to_owned(),
            reads: Requests {
                count,
                timed: Some(timed),
                ..Requests::default()
            },
            ..BlockDevice::default()
        }
    }

    fn measured(health: Health) -> Snapshot {
        let mut snapshot = calm();
        snapshot.interval_ns = 1_000_000_000;
        snapshot.sections.health = Some(Health {
            measured_ns: snapshot.interval_ns,
            ..health
        });
        snapshot
    }

    #[test]
    fn a_disk_is_judged_by_the_slowest_device_that_is_busy_and_without_one_there_is_no_number() {
        let snapshot = measured(Health {
            devices: vec![
                device("sda", 100, 1_000_000),
                device("sdb", 20, 40_000_000),
                device("sdc", 3, 900_000_000),
            ],
            ..Health::default()
        });
        let figures = Figures::of(&snapshot);
        assert_eq!(figures.device_time(|device| device.reads), 40e6);
        assert!(figures.device_time(|device| device.writes).is_nan());
        assert_eq!(figures.disk_errors(), 12.0);
        let words = slowest(&snapshot, |device| device.reads);
        assert_eq!(words.as_deref(), Some("40.0 ms at sdb (ssd)"));
        let none = calm();
        assert!(Figures::of(&none).disk_errors().is_nan());
        assert!(Figures::of(&none).qdisc_drops().is_nan());
    }

    #[test]
    fn misses_are_reads_of_devices_for_a_lookup_and_few_lookups_say_nothing() {
        let with = |lookups| {
            let snapshot = measured(Health {
                devices: vec![device("sda", 100, 1)],
                cache_lookups: Some(lookups),
                ..Health::default()
            });
            Figures::of(&snapshot).page_cache_misses()
        };
        assert_eq!((with(400), with(60)), (0.25, 1.0));
        assert!(with(10).is_nan());
        let mut part = device("sda", 100, 1);
        part.reads.timed = Some(Timed {
            count: 20,
            ..Timed::default()
        });
        let snapshot = measured(Health {
            devices: vec![part],
            cache_lookups: Some(400),
            ..Health::default()
        });
        assert!(Figures::of(&snapshot).page_cache_misses().is_nan());
    }

    #[test]
    fn drops_of_all_queues_are_by_second_and_stalls_are_shares() {
        let dropped = |qdisc_dropped| LinkHealth {
            qdisc_dropped,
            ..LinkHealth::default()
        };
        let snapshot = measured(Health {
            links: vec![dropped(3), dropped(4)],
            pressure: vec![Pressure {
                resource: "memory".to_owned(),
                some_ns: 250_000_000,
                full_ns: None,
            }],
            ..Health::default()
        });
        let figures = Figures::of(&snapshot);
        assert_eq!(
            (figures.qdisc_drops(), figures.stall("memory")),
            (7.0, 0.25)
        );
        assert!(figures.stall("io").is_nan() && figures.round_trip().is_nan());
    }
}
