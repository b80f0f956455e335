//! Made-up hosts for the tests of all crates: for each rule one on which it holds, and the same host,
//! mended.

use metrics_common::component::{COMPONENTS, children, index_of};
use metrics_common::sections::{
    InterfaceSetup, Interruption, OwnerBasis, ProtocolCount, Samples, Sections, Setup,
    SocketMemory, SoftnetCount, Traffic, WorkCount,
};
use metrics_common::{
    Cost, CostliestCpu, CpuModes, Interface, InterfaceCounts, Interfaces, Modes, OwnCost, OwnPart,
    Owner, OwnerKind, Owners, Power, Snapshot, Work,
};

/// Time of each snapshot.
pub const INTERVAL_NS: u64 = 10_000_000_000;
const CPUS: usize = 4;

/// A host of four CPUs that does nothing, measured in full for ten seconds.
pub fn calm() -> Snapshot {
    let counts = |rows: usize| vec![Some(vec![0_u64; CPUS]); rows];
    let idle = CpuModes {
        idle_ns: INTERVAL_NS,
        ..CpuModes::default()
    };
    Snapshot {
        sequence: 1,
        time_unix_ns: 1_800_000_000_000_000_000,
        interval_ns: INTERVAL_NS,
        cpus: (0..CPUS as u32).collect(),
        sections: Sections {
            cost: Some(Cost {
                components: counts(COMPONENTS.len()),
                ksoftirqd_rx_ns: Some(vec![0; CPUS]),
                ..Cost::default()
            }),
            modes: Some(Modes {
                cpus: vec![idle; CPUS],
                host: idle,
            }),
            traffic: Some(Traffic {
                softnet: counts(SoftnetCount::ALL.len()),
                interfaces: Some(Interfaces {
                    named: vec![Interface {
                        name: "eth0".to_owned(),
                        is_hardware: true,
                        rx_queues: 1,
                        counts: InterfaceCounts {
                            rx_packets: 10,
                            rx_bytes: 1_000,
                            ..InterfaceCounts::default()
                        },
                        ..Interface::default()
                    }],
                    ..Interfaces::default()
                }),
                protocols: vec![Some(0); ProtocolCount::ALL.len()],
                work: Some(Work {
                    counted_ns: INTERVAL_NS,
                    counts: vec![Some(0); WorkCount::ALL.len()],
                    ..Work::default()
                }),
            }),
            power: Some(Power {
                network_energy_joules: 100.0,
                ..Power::default()
            }),
            owners: Some(Owners::default()),
            advice: Some(Setup {
                interfaces: vec![InterfaceSetup {
                    name: "eth0".to_owned(),
                    rx_queues: 1,
                    interrupts: vec![(64, vec![1])],
                    gro: Some(true),
                    tso: Some(true),
                    tx_checksums: Some(true),
                    ..InterfaceSetup::default()
                }],
                budget: Some(300),
                budget_usecs: Some(2_000),
                max_backlog: Some(1_000),
                tracked_connections: Some(5),
                has_nat: Some(true),
                congestion_control: Some("cubic".to_owned()),
                default_qdisc: Some("pfifo_fast".to_owned()),
                tcp_rmem: Some([4_096, 131_072, 6_291_456]),
                tcp_memory: Some(SocketMemory {
                    pages: 300,
                    limits: [1_000, 2_000, 4_000],
                }),
                udp_memory: Some(SocketMemory {
                    pages: 2,
                    limits: [1_000, 2_000, 4_000],
                }),
            }),
            own: Some(OwnCost {
                taken_ns: vec![Some(vec![1_000; CPUS]); OwnPart::ALL.len()],
                costliest: Some(CostliestCpu {
                    cpu: 0,
                    ratio: 0.005,
                }),
                ..OwnCost::default()
            }),
            ..Sections::default()
        },
    }
}

/// Gives a component, and those that it is in, so many CPUs' time on one of them.
pub fn busy(snapshot: &mut Snapshot, slug: &str, column: usize, cpus: f64) {
    let ns = (cpus * INTERVAL_NS as f64) as u64;
    let mut row = index_of(slug);
    while let Some(component) = row {
        let rows = &mut snapshot.sections.cost.get_or_insert_default().components;
        if let Some(Some(values)) = rows.get_mut(component) {
            values[column] += ns;
        }
        row = (0..COMPONENTS.len()).find(|above| children(*above).contains(&component));
    }
}

/// Counts in the receive path of one CPU, by second.
pub fn softnet(snapshot: &mut Snapshot, count: SoftnetCount, column: usize, rate: u64) {
    let traffic = snapshot.sections.traffic.get_or_insert_default();
    if let Some(Some(row)) = traffic.softnet.get_mut(count as usize) {
        row[column] = rate * INTERVAL_NS / 1_000_000_000;
    }
}

fn protocol(snapshot: &mut Snapshot, count: ProtocolCount, rate: u64) {
    let traffic = snapshot.sections.traffic.get_or_insert_default();
    traffic.protocols[count as usize] = Some(rate * 10);
}

fn work(snapshot: &mut Snapshot, count: WorkCount, rate: u64) {
    let traffic = snapshot.sections.traffic.get_or_insert_default();
    traffic.work.get_or_insert_default().counts[count as usize] = Some(rate * 10);
}

/// Messages sent and their bytes.
fn messages(snapshot: &mut Snapshot, rate: u64, bytes: u64) {
    work(snapshot, WorkCount::MessagesSent, rate);
    work(snapshot, WorkCount::BytesSent, rate * bytes);
}

/// Packets that eth0 receives, and bytes of each.
fn received(snapshot: &mut Snapshot, rate: u64, bytes: u64) {
    let traffic = snapshot.sections.traffic.get_or_insert_default();
    for interface in &mut traffic.interfaces.get_or_insert_default().named {
        interface.counts = InterfaceCounts {
            rx_packets: rate * 10,
            rx_bytes: rate * 10 * bytes,
            ..InterfaceCounts::default()
        };
    }
}

fn setup(snapshot: &mut Snapshot) -> &mut Setup {
    snapshot.sections.advice.get_or_insert_default()
}

fn eth0(snapshot: &mut Snapshot) -> &mut InterfaceSetup {
    &mut setup(snapshot).interfaces[0]
}

/// Lets one group take so many CPUs from another.
fn taken(snapshot: &mut Snapshot, cpus: f64) {
    let group = |path: &str| Owner {
        id: path.len() as u64,
        cgroup: path.to_owned(),
        ..Owner::single(OwnerKind::Cgroup)
    };
    let ns = (cpus * INTERVAL_NS as f64) as u64;
    snapshot.sections.owners = Some(Owners {
        owners: vec![group("/noisy"), group("/victim")],
        taken: vec![Interruption {
            cause: 0,
            payer: 1,
            ns,
        }],
        basis: vec![OwnerBasis {
            component: index_of("rx_softirq").unwrap_or_default() as u32,
            socket_ns: ns,
            cause_ns_ms: Some(1),
            payer_ns_ms: Some(1),
            ..OwnerBasis::default()
        }],
        samples: Some(Samples::default()),
        ..Owners::default()
    });
}

/// A host on which this rule holds.
///
/// # Panics
/// If no host was made up for the rule.
pub fn fires(rule: &str) -> Snapshot {
    host(rule, true)
}

/// The same host, on which what the rule looks at was mended.
///
/// # Panics
/// As above.
pub fn mended(rule: &str) -> Snapshot {
    host(rule, false)
}

/// The same for the next interval.
pub fn later(snapshot: &Snapshot) -> Snapshot {
    Snapshot {
        sequence: snapshot.sequence + 1,
        time_unix_ns: snapshot.time_unix_ns + snapshot.interval_ns,
        ..snapshot.clone()
    }
}

fn host(rule: &str, is_wrong: bool) -> Snapshot {
    let mut host = calm();
    let snapshot = &mut host;
    match (rule, is_wrong) {
        ("rx-on-one-cpu", true) => busy(snapshot, "backlog", 1, 0.9),
        ("rx-on-one-cpu", false) => (0..CPUS).for_each(|cpu| busy(snapshot, "backlog", cpu, 0.225)),
        ("backlog-drops", _) => {
            busy(snapshot, "backlog", 1, 0.5);
            softnet(snapshot, SoftnetCount::Packets, 1, 100_000);
            softnet(
                snapshot,
                SoftnetCount::Dropped,
                1,
                if is_wrong { 5_000 } else { 5 },
            );
        }
        ("budget-exhausted", _) => {
            softnet(
                snapshot,
                SoftnetCount::Squeezed,
                2,
                if is_wrong { 200 } else { 2 },
            );
        }
        ("reader-starved", _) => {
            busy(snapshot, "backlog", 1, 0.6);
            softnet(snapshot, SoftnetCount::Packets, 1, 100_000);
            protocol(
                snapshot,
                ProtocolCount::UdpReceiveBufferErrors,
                if is_wrong { 9_000 } else { 0 },
            );
            snapshot
                .sections
                .cost
                .get_or_insert_default()
                .ksoftirqd_rx_ns = Some(vec![0, 5_000_000_000, 0, 0]);
        }
        ("receive-buffers-full", _) => {
            busy(snapshot, "local_delivery_v4", 1, 0.2);
            protocol(
                snapshot,
                ProtocolCount::TcpPruned,
                if is_wrong { 700 } else { 7 },
            );
            protocol(snapshot, ProtocolCount::TcpCollapsed, 20);
        }
        ("memory-pressure", _) => {
            setup(snapshot).tcp_memory = Some(SocketMemory {
                pages: 1_900,
                limits: [1_000, 2_000, 4_000].map(|limit| if is_wrong { limit } else { 2 * limit }),
            });
        }
        ("rps-without-need", _) => {
            busy(snapshot, "backlog", 1, 0.1);
            softnet(
                snapshot,
                SoftnetCount::ReceivedRps,
                1,
                if is_wrong { 9_000 } else { 0 },
            );
            eth0(snapshot).rps_cpus = if is_wrong { vec![0, 1] } else { Vec::new() };
        }
        ("conntrack-without-nat", _) => {
            busy(snapshot, "conntrack", 1, if is_wrong { 0.1 } else { 0.0 });
            setup(snapshot).has_nat = Some(false);
        }
        ("long-rule-sets", _) => {
            softnet(snapshot, SoftnetCount::Packets, 1, 100_000);
            busy(
                snapshot,
                "nf_prerouting_v4",
                1,
                if is_wrong { 0.15 } else { 0.01 },
            );
        }
        ("small-writes", _) => {
            busy(snapshot, "send_tcp", 0, 0.3);
            busy(snapshot, "send_copy", 0, 0.01);
            messages(
                snapshot,
                if is_wrong { 100_000 } else { 100 },
                if is_wrong { 64 } else { 64_000 },
            );
        }
        ("copy-bound", _) => {
            busy(snapshot, "send_copy", 0, if is_wrong { 0.4 } else { 0.04 });
            busy(snapshot, "send_tcp", 0, 0.2);
            messages(snapshot, 1_000, 64_000);
        }
        ("gro-off", _) => {
            busy(snapshot, "backlog", 1, 0.3);
            received(snapshot, 50_000, 1_400);
            eth0(snapshot).gro = Some(!is_wrong);
            // It then merges.
            work(snapshot, WorkCount::NapiPackets, 50_000);
            protocol(
                snapshot,
                ProtocolCount::TcpSegmentsIn,
                if is_wrong { 50_000 } else { 2_000 },
            );
            softnet(
                snapshot,
                SoftnetCount::Packets,
                1,
                if is_wrong { 50_000 } else { 2_000 },
            );
        }
        ("gro-merges-nothing", _) => {
            busy(snapshot, "backlog", 1, 0.3);
            received(snapshot, 50_000, 1_400);
            work(snapshot, WorkCount::NapiPackets, 50_000);
            softnet(
                snapshot,
                SoftnetCount::Packets,
                1,
                if is_wrong { 48_000 } else { 2_000 },
            );
            protocol(
                snapshot,
                ProtocolCount::TcpSegmentsIn,
                if is_wrong { 48_000 } else { 2_000 },
            );
        }
        ("software-offloads", _) => {
            busy(snapshot, "send_gso", 1, if is_wrong { 0.1 } else { 0.001 });
            eth0(snapshot).tso = Some(!is_wrong);
        }
        ("pacing-timers", _) => {
            busy(
                snapshot,
                "net_hrtimer",
                0,
                if is_wrong { 0.1 } else { 0.001 },
            );
            busy(snapshot, "send_copy", 0, 0.01);
            busy(snapshot, "send_tcp", 0, 0.2);
            let control = if is_wrong { "bbr" } else { "cubic" };
            setup(snapshot).congestion_control = Some(control.to_owned());
        }
        ("spinning", _) => {
            busy(
                snapshot,
                "busy_poll_spin",
                1,
                if is_wrong { 0.7 } else { 0.01 },
            );
            busy(snapshot, "busy_poll_work", 1, 0.2);
        }
        ("owner-pays", _) => {
            busy(snapshot, "backlog", 1, 0.25);
            taken(snapshot, if is_wrong { 0.2 } else { 0.002 });
        }
        ("own-cost", _) => {
            let cost = snapshot.sections.own.get_or_insert_default();
            cost.costliest = Some(CostliestCpu {
                cpu: 2,
                ratio: if is_wrong { 0.03 } else { 0.009 },
            });
        }
        ("for-hardware", _) => busy(
            snapshot,
            "forwarding_v4",
            1,
            if is_wrong { 0.5 } else { 0.01 },
        ),
        _ => panic!("no host is made up for the rule {rule}"),
    }
    host
}
