//! A host for the tests of all crates: the values that tests do not care about.

use crate::component::index_of;
use crate::info::{Availability, ComponentInfo, Info, ProbeInfo};
#[cfg(not(target_arch = "wasm32"))]
use crate::sections::{
    BlockDevice, DriveHealth, GroupReads, Health, LinkHealth, MissingFigure, Pressure, Requests,
    TcpHealth, Timed,
};
use crate::{COMPONENTS, Cost, CpuModes, Modes, OwnCost, Sections, Snapshot};

/// A daemon on two CPUs that measures everything except power.
pub fn info() -> Info {
    Info {
        version: "0.1.0".to_owned(),
        kernel: "6.18.0".to_owned(),
        hostname: "host".to_owned(),
        boot_id: String::new(),
        started_unix_ns: 0,
        user_period_ms: 500,
        frequency_hz: 1000,
        sampler: Some("perf".to_owned()),
        max_overhead_ratio: Some(0.01),
        possible_cpus: 2,
        numa_nodes: Vec::new(),
        components: ComponentInfo::table(|_| Availability::by("test")),
        probes: Vec::new(),
        missable: Vec::new(),
        power: Availability::missing("no RAPL"),
        instruments: Vec::new(),
        notes: Vec::new(),
    }
}

/// The health of a host with a disk, a link and a drive, over a second.
#[cfg(not(target_arch = "wasm32"))]
pub fn health() -> Health {
    let timed = |count, queue_ns, service_ns| Timed {
        count,
        queue_ns,
        service_ns,
        errors: 0,
    };
    Health {
        measured_ns: 1_000_000_000,
        reference_ns: Some(1_000_000),
        devices: vec![BlockDevice {
            name: "sda".to_owned(),
            class: "ssd".to_owned(),
            reads: Requests {
                count: 100,
                bytes: 409_600,
                whole_ns: 220_000_000,
                timed: Some(timed(100, 20_000_000, 200_000_000)),
            },
            writes: Requests {
                count: 10,
                bytes: 40_960,
                whole_ns: 42_000_000,
                timed: Some(timed(10, 2_000_000, 40_000_000)),
            },
            outstanding_ns: 500_000_000,
        }],
        cache_lookups: Some(1_000),
        groups: vec![
            GroupReads {
                path: Some("/store".to_owned()),
                lookups: 900,
                requests: 90,
            },
            GroupReads {
                path: None,
                lookups: 100,
                requests: 10,
            },
        ],
        pressure: ["cpu", "io", "memory"]
            .map(|resource| Pressure {
                resource: resource.to_owned(),
                some_ns: 100_000_000,
                full_ns: Some(0),
            })
            .into(),
        tcp: Some(TcpHealth {
            connections: 8,
            rtt_ns: Some(100_000),
            sent_segments: 10_000,
            retransmitted: 1,
            accept_queue: Some((1, 128)),
        }),
        links: vec![LinkHealth {
            name: "eth0".to_owned(),
            bits_per_second: Some(10_000_000_000),
            tx_bytes: 1_000_000,
            dropped: 0,
            backlog_bytes: Some(12_500),
            qdisc_dropped: 0,
        }],
        drives: vec![DriveHealth {
            name: "nvme0".to_owned(),
            wear_percent: Some(3),
            media_errors: Some(0),
            celsius: Some(41),
            warning_celsius: Some(80),
        }],
        cpu_ratio: Some(0.25),
        memory_ratio: Some(0.5),
        missing: vec![MissingFigure {
            figure: "smart".to_owned(),
            reason: "sda: ATA drives are not asked".to_owned(),
        }],
    }
}

/// A probe for sends, with the reason for not being attached, if any.
pub fn probe(name: &str, method: &str, failure: Option<&str>) -> ProbeInfo {
    ProbeInfo {
        name: name.to_owned(),
        method: method.into(),
        purpose: "tx_syscall".to_owned(),
        failure: failure.map(str::to_owned),
    }
}

/// A daemon on two CPUs that cannot see XDP.
pub fn without_xdp() -> Info {
    let hidden = index_of("xdp_generic").unwrap_or(COMPONENTS.len());
    Info {
        version: "9.9.9".to_owned(),
        hostname: "testhost".to_owned(),
        components: ComponentInfo::table(|index| {
            if index == hidden {
                Availability::missing("this kernel has no such function")
            } else {
                Availability::by(crate::Method::TpBtf)
            }
        }),
        probes: vec![
            probe("softirq_entry", "tp_btf", None),
            probe("inet_sendmsg", "fentry", Some("not permitted")),
        ],
        ..info()
    }
}

/// A snapshot whose values depend on its sequence number, row and column.
pub fn measured(sequence: u64) -> Snapshot {
    let hidden = index_of("xdp_generic").unwrap_or(COMPONENTS.len());
    Snapshot {
        sequence,
        time_unix_ns: 1_700_000_000_000_000_000 + sequence * 500_000_000,
        interval_ns: 500_000_000,
        cpus: vec![0, 1],
        sections: Sections {
            cost: Some(Cost {
                components: (0..COMPONENTS.len() as u64)
                    .map(|row| {
                        (row != hidden as u64)
                            .then(|| vec![row * 1_000 + sequence, row * 2_000 + sequence])
                    })
                    .collect(),
                samples: (0..COMPONENTS.len())
                    .map(|row| (row % 2 == 0).then(|| vec![row as u32, 1]))
                    .collect(),
                sample_ns_ms: Some(vec![1; COMPONENTS.len()]),
                stacks_taken: vec![500, 400],
                stacks_lost: vec![0, 3],
                ..Cost::default()
            }),
            modes: Some(Modes {
                cpus: vec![CpuModes::from_values([1, 2, 3, 4, 5, 6, 7, 8]); 2],
                host: CpuModes::from_values([2, 4, 6, 8, 10, 12, 14, 16]),
            }),
            power: None,
            own: Some(OwnCost {
                user_ns: 1_000_000,
                system_ns: 2_000_000,
                resident_bytes: 20 << 20,
                analysis_ns: 3_000_000,
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
