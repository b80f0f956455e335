//! The metrics of the weighted sum: one table of their bounds and weights. Below the good bound a metric
//! has the grade 1, beyond the bad one 0, and between them in proportion.
//!
//! Bounds and weights are choices, not measurements; network latency and bandwidth weigh four times as
//! much as anything else.

use metrics_common::sections::Health;

use super::figures::{Side, device_times, hit_ratio};

/// What a metric is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// Reads and writes.
    Both,
    /// One of them.
    Only(Side),
}

/// A row of the table.
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    /// The unit of value and bounds.
    pub(crate) unit: &'static str,
    pub(crate) weight: f64,
    pub(crate) good: f64,
    pub(crate) bad: f64,
    pub(crate) of: Of,
    /// `None` if it is not known.
    pub(crate) value: fn(&Health) -> Option<f64>,
}

/// What network latency and bandwidth weigh.
const NETWORK: f64 = 4.0;

/// See the head of this file.
pub(crate) const METRICS: &[Metric] = &[
    Metric {
        name: "round_trip",
        unit: "seconds",
        weight: NETWORK,
        good: 0.000_1,
        bad: 0.02,
        of: Of::Both,
        value: |health| Some(health.tcp?.rtt_ns? as f64 / 1e9),
    },
    Metric {
        name: "free_bandwidth",
        unit: "bits_per_second",
        weight: NETWORK,
        good: 10e9,
        bad: 100e6,
        of: Of::Both,
        value: free_bandwidth,
    },
    Metric {
        name: "retransmits",
        unit: "ratio",
        weight: 1.0,
        good: 0.0,
        bad: 0.01,
        of: Of::Both,
        value: |health| {
            let tcp = health.tcp.filter(|tcp| tcp.sent_segments > 0)?;
            Some(tcp.retransmitted as f64 / tcp.sent_segments as f64)
        },
    },
    Metric {
        name: "accept_queue",
        unit: "ratio",
        weight: 1.0,
        good: 0.0,
        bad: 1.0,
        of: Of::Both,
        value: |health| {
            let (length, limit) = health.tcp?.accept_queue?;
            Some(length as f64 / limit.max(1) as f64)
        },
    },
    Metric {
        name: "qdisc_drops",
        unit: "per_second",
        weight: 1.0,
        good: 0.0,
        bad: 100.0,
        of: Of::Both,
        value: |health| per_second(health, health.links.iter().map(|link| link.qdisc_dropped)),
    },
    Metric {
        name: "nic_drops",
        unit: "per_second",
        weight: 1.0,
        good: 0.0,
        bad: 100.0,
        of: Of::Both,
        value: |health| per_second(health, health.links.iter().map(|link| link.dropped)),
    },
    Metric {
        name: "cpu_pressure",
        unit: "ratio",
        weight: 1.0,
        good: 0.0,
        bad: 0.5,
        of: Of::Both,
        value: |health| pressure(health, "cpu"),
    },
    Metric {
        name: "io_pressure",
        unit: "ratio",
        weight: 1.0,
        good: 0.0,
        bad: 0.5,
        of: Of::Both,
        value: |health| pressure(health, "io"),
    },
    Metric {
        name: "memory_pressure",
        unit: "ratio",
        weight: 1.0,
        good: 0.0,
        bad: 0.2,
        of: Of::Both,
        value: |health| pressure(health, "memory"),
    },
    Metric {
        name: "page_cache_misses",
        unit: "ratio",
        weight: 1.0,
        good: 0.0,
        bad: 0.5,
        of: Of::Only(Side::Reads),
        value: |health| Some(1.0 - hit_ratio(health)?),
    },
    Metric {
        name: "read_time",
        unit: "seconds",
        weight: 1.0,
        good: 0.000_1,
        bad: 0.02,
        of: Of::Only(Side::Reads),
        value: |health| Some(device_times(health, Side::Reads)?.device_seconds),
    },
    Metric {
        name: "write_time",
        unit: "seconds",
        weight: 1.0,
        good: 0.000_1,
        bad: 0.02,
        of: Of::Only(Side::Writes),
        value: |health| Some(device_times(health, Side::Writes)?.device_seconds),
    },
    Metric {
        name: "outstanding_requests",
        unit: "count",
        weight: 1.0,
        good: 0.0,
        bad: 32.0,
        of: Of::Both,
        value: |health| {
            let ns = health.devices.iter().map(|device| device.outstanding_ns);
            let most = ns.max()?;
            (health.measured_ns > 0).then(|| most as f64 / health.measured_ns as f64)
        },
    },
    Metric {
        name: "wear",
        unit: "ratio",
        weight: 1.0,
        good: 0.0,
        bad: 1.0,
        of: Of::Only(Side::Writes),
        value: |health| {
            Some(worst(health.drives.iter().map(|drive| drive.wear_percent))? as f64 / 100.0)
        },
    },
    Metric {
        name: "media_errors",
        unit: "count",
        weight: 1.0,
        good: 0.0,
        bad: 10.0,
        of: Of::Both,
        value: |health| Some(worst(health.drives.iter().map(|drive| drive.media_errors))? as f64),
    },
    Metric {
        name: "drive_temperature",
        unit: "celsius",
        weight: 1.0,
        good: 45.0,
        bad: 75.0,
        of: Of::Both,
        value: |health| Some(worst(health.drives.iter().map(|drive| drive.celsius))? as f64),
    },
];

impl Metric {
    /// Its grade at a value, 0 to 1.
    pub(crate) fn grade(&self, value: f64) -> f64 {
        ((self.bad - value) / (self.bad - self.good)).clamp(0.0, 1.0)
    }
}

/// What the links whose speed is known could send besides, together.
fn free_bandwidth(health: &Health) -> Option<f64> {
    let seconds = health.measured_ns as f64 / 1e9;
    let free = health.links.iter().filter_map(|link| {
        let sent = link.tx_bytes as f64 * 8.0 / seconds;
        Some((link.bits_per_second? as f64 - sent).max(0.0))
    });
    let free: Vec<f64> = free.collect();
    (!free.is_empty() && seconds > 0.0).then(|| free.iter().sum())
}

fn per_second(health: &Health, counts: impl Iterator<Item = u64>) -> Option<f64> {
    let is_known = health.measured_ns > 0 && !health.links.is_empty();
    is_known.then(|| counts.sum::<u64>() as f64 * 1e9 / health.measured_ns as f64)
}

fn pressure(health: &Health, resource: &str) -> Option<f64> {
    let found = health
        .pressure
        .iter()
        .find(|all| all.resource == resource)?;
    (health.measured_ns > 0).then(|| found.some_ns as f64 / health.measured_ns as f64)
}

fn worst<T: Ord>(all: impl Iterator<Item = Option<T>>) -> Option<T> {
    all.flatten().max()
}
