//! A host of two CPUs for the tests of this crate.

use metrics_common::component::index_of;
use metrics_common::history::History;
use metrics_common::sections::{Cost, CpuModes, Modes, OwnCost, Power, Sections};
use metrics_common::{Availability, Info, Snapshot};

use crate::timeline::Frame;

/// Milliseconds in nanoseconds.
pub const MS: u64 = 1_000_000;

/// The first three seconds since the epoch.
pub const FRAME: Frame = Frame {
    from_ms: 0.0,
    step_ms: 1_000.0,
    steps: 3,
};

pub use metrics_common::fixture::info;

/// Half a second in which CPU 1 receives: 100 ms of RX softirq, 75 of them
/// local delivery and 25 driver poll; 20 ms of socket sends on CPU 0, all copying.
pub fn snapshot(sequence: u64) -> Snapshot {
    let info = info();
    let mut components = vec![Some(vec![0, 0]); info.components.len()];
    let mut set = |slug: &str, values: [u64; 2]| {
        components[index_of(slug).unwrap()] = Some(values.map(|ms| ms * MS).to_vec());
    };
    set("network", [20, 100]);
    set("tx_syscall", [20, 0]);
    set("send_copy", [20, 0]);
    set("rx_softirq", [0, 100]);
    set("driver_poll", [0, 25]);
    set("local_delivery_v4", [0, 75]);
    let mut samples = vec![None; components.len()];
    samples[index_of("rx_softirq").unwrap()] = Some(vec![0, 100]);
    let entries = vec![None; components.len()];
    let modes = |user: u64, system: u64, idle: u64, softirq: u64| CpuModes {
        user_ns: user * MS,
        system_ns: system * MS,
        idle_ns: idle * MS,
        softirq_ns: softirq * MS,
        ..CpuModes::default()
    };
    let total_ns = |row: &Option<Vec<u64>>| row.iter().flatten().sum::<u64>();
    let sample_ns_ms = components.iter().map(total_ns).collect();
    Snapshot {
        sequence,
        time_unix_ns: 0,
        interval_ns: 500 * MS,
        cpus: vec![0, 1],
        sections: Sections {
            cost: Some(Cost {
                components,
                // Of a thousand samples a second.
                sample_ns_ms: Some(sample_ns_ms),
                samples,
                entries,
                stacks_taken: vec![20, 100],
                stacks_lost: vec![0, 0],
                ..Cost::default()
            }),
            modes: Some(Modes {
                cpus: vec![modes(50, 50, 400, 0), modes(0, 50, 350, 100)],
                host: modes(50, 100, 750, 100),
            }),
            power: None,
            own: Some(OwnCost {
                user_ns: MS,
                system_ns: MS,
                resident_bytes: 18_250_000,
                analysis_ns: MS,
                ..OwnCost::default()
            }),
            ..Sections::default()
        },
    }
}

/// The section of networking's cost, for changes by tests.
pub fn cost(snapshot: &mut Snapshot) -> &mut Cost {
    snapshot.sections.cost.get_or_insert_default()
}

/// The section of modes, for changes by tests.
pub fn modes(snapshot: &mut Snapshot) -> &mut Modes {
    snapshot.sections.modes.get_or_insert_default()
}

/// Marks a component as not measurable, in both.
pub fn take_away(info: &mut Info, snapshot: &mut Snapshot, slug: &str, reason: &str) {
    let index = index_of(slug).unwrap();
    info.components[index].availability = Availability::missing(reason);
    cost(snapshot).components[index] = None;
}

/// Some watts.
pub fn power() -> Power {
    Power {
        host_watts: 20.0,
        network_watts: 3.25,
        network_energy_joules: 1.625,
        network_capacity_watts: 0.65,
        network_capacity_energy_joules: 0.325,
        zones: Vec::new(),
    }
}

/// A history of half seconds since the epoch; in half second number `n` (from 1), networking and RX
/// softirq take `n` CPUs.
pub fn history(numbers: &[u64]) -> History {
    let info = info();
    let mut history = History::new(&info);
    for &number in numbers {
        let mut snapshot = snapshot(number);
        snapshot.time_unix_ns = number * 500 * MS;
        for slug in ["network", "rx_softirq"] {
            let row = vec![number * 500 * MS, 0];
            cost(&mut snapshot).components[index_of(slug).unwrap()] = Some(row);
        }
        history.push(&snapshot);
    }
    history
}
