//! Device times and the hit ratio, which both the expected time and the metrics are made of.

use metrics_common::sections::{BlockDevice, Health, Requests};

/// Reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Reads,
    Writes,
}

/// Device times of all devices, each as often as it completed a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DeviceTimes {
    pub(crate) device_seconds: f64,
    /// The same times one and the requests under way.
    pub(crate) waited_seconds: f64,
    pub(crate) requests: u64,
    /// Whether probes have timed the device alone, or the kernel's statistics the way to it, too.
    pub(crate) is_timed: bool,
}

/// How long devices took; `None` if they did nothing of the kind.
pub(crate) fn device_times(health: &Health, side: Side) -> Option<DeviceTimes> {
    let length_ns = health.measured_ns as f64;
    let mut times = DeviceTimes {
        device_seconds: 0.0,
        waited_seconds: 0.0,
        requests: 0,
        is_timed: true,
    };
    for device in &health.devices {
        let requests = requests(device, side);
        if requests.count == 0 {
            continue;
        }
        let timed = requests.timed.filter(|timed| timed.count > 0);
        let mean_ns = match timed {
            Some(timed) => timed.service_ns as f64 / timed.count as f64,
            None => requests.whole_ns as f64 / requests.count as f64,
        };
        times.is_timed &= timed.is_some();
        let outstanding = device.outstanding_ns as f64 / length_ns.max(1.0);
        let seconds = requests.count as f64 * mean_ns / 1e9;
        times.device_seconds += seconds;
        times.waited_seconds += seconds * (1.0 + outstanding);
        times.requests = times.requests.saturating_add(requests.count);
    }
    let count = times.requests as f64;
    (times.requests > 0).then_some(DeviceTimes {
        device_seconds: times.device_seconds / count,
        waited_seconds: times.waited_seconds / count,
        ..times
    })
}

fn requests(device: &BlockDevice, side: Side) -> Requests {
    match side {
        Side::Reads => device.reads,
        Side::Writes => device.writes,
    }
}

/// The part of reads that devices had nothing to do with: those that looked into the page cache, less
/// the requests that devices completed. `None` if lookups are not counted, or nobody reads.
pub(crate) fn hit_ratio(health: &Health) -> Option<f64> {
    let lookups = health.cache_lookups?;
    let reads = health.devices.iter().map(|device| device.reads.count);
    let reads = reads.fold(0, u64::saturating_add);
    let all = lookups.max(reads);
    (all > 0).then(|| 1.0 - reads as f64 / all as f64)
}
