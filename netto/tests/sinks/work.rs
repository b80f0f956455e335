//! The work of the made-up host: packets of an interface with an odd name, some dropped, and how
//! long others waited.

use metrics_common::component::index_of;
use metrics_common::latency::{Histogram, Point, bucket_of};
use metrics_common::sections::{
    About, Amount, Causes, Conversation, Estimated, Evidence, FlowEnd, FlowPrefix, GroupKind,
    GroupLatency, HostName, InterfaceSetup, Intruders, Intrusion, MissingPoint, Origin,
    PointLatency, Program, Programs, QuietCpu, QuietKind, Quietness, SampledTime, SampledTimes,
    Setup, SocketMemory, Subnet, Variance,
};
use metrics_common::{
    Availability, DropPlace, Drops, Flows, InstrumentInfo, Interface, InterfaceCounts, Interfaces,
    Latency, Owner, OwnerKind, ProtocolCount, SoftnetCount, Traffic, Work, WorkCount,
};

/// How long an interval is.
pub const INTERVAL_NS: u64 = 50_000_000;

/// What it does in each interval.
pub fn traffic() -> Traffic {
    let interface = Interface {
        name: "eth\"0\\".to_owned(),
        driver: "virtio_net".to_owned(),
        is_hardware: true,
        rx_queues: 2,
        tx_queues: 1,
        counts: InterfaceCounts::from_values([1_000, 1_000_000, 1, 2, 3, 500, 250_000, 4, 5]),
    };
    Traffic {
        softnet: vec![Some(vec![100, 20]); SoftnetCount::ALL.len()],
        interfaces: Some(Interfaces {
            named: vec![interface],
            others: 7,
            other: InterfaceCounts::from_values([9; 9]),
        }),
        protocols: (1..=ProtocolCount::ALL.len() as u64).map(Some).collect(),
        work: Some(Work {
            counted_ns: INTERVAL_NS,
            estimated: Some(ESTIMATED),
            counts: (1..=WorkCount::ALL.len() as u64)
                .map(|count| Some(10 * count))
                .collect(),
        }),
    }
}

/// Counts of a tenth of the time.
const ESTIMATED: Estimated = Estimated {
    ns: INTERVAL_NS,
    counted_ns: INTERVAL_NS / 10,
    events: 7,
    variance: Some(Variance {
        events2: 1,
        freedom: [1_000, 67],
        weight: 1_000,
    }),
};

/// What it drops in each interval.
pub fn drops() -> Drops {
    Drops {
        places: vec![DropPlace {
            reason: "NO_SOCKET".to_owned(),
            function: "__udp4_lib_rcv".to_owned(),
            packets: 6,
        }],
        other_packets: 1,
        cpus: vec![4, 3],
        estimated: Some(ESTIMATED),
    }
}

/// Who talks in each interval: half of the packets were sampled, and some had no room.
pub fn flows() -> Flows {
    let end = |last: u8, port| FlowEnd {
        address: [192, 0, 2, last].into(),
        port,
    };
    let conversation = |protocol, port: Option<u16>, packets| Conversation {
        interface: "eth\"0\\".to_owned(),
        vlans: vec![7],
        protocol,
        ends: [end(1, port), end(2, port.map(|_| 443))],
        sent: Amount {
            packets,
            bytes: 100 * packets,
        },
        received: Amount {
            packets: 1,
            bytes: 60,
        },
        sampled_packets: packets / 2,
        packets_variance: Some(packets),
        cpu_ns: Some(1_000 * packets),
        sampled: SampledTime {
            received_ns: Some(500 * packets),
            sent_ns: Some(70 * packets),
            ns_ms: [Some(1_000 * packets), Some(140 * packets)],
        },
    };
    Flows {
        conversations: vec![conversation(6, Some(40_000), 30), conversation(1, None, 4)],
        other: Amount {
            packets: 2,
            bytes: 120,
        },
        prefixes: vec![FlowPrefix {
            interface: "eth0".to_owned(),
            protocol: 6,
            source: Subnet {
                address: [203, 0, 113, 0].into(),
                bits: 24,
            },
            destination: Subnet {
                address: [192, 0, 2, 1].into(),
                bits: 32,
            },
            amount: Amount {
                packets: 5,
                bytes: 200,
            },
            least_flows: 4,
            cpu_ns: Some(500),
        }],
        prefix_packets: 5,
        prefix_bytes: 200,
        packets: 44,
        bytes: 3_900,
        lost_packets: 1,
        lost_bytes: 60,
        malformed_packets: 1,
        other_packets: 3,
        active: 3,
        ended: 1,
        one_in: 2,
        rx_softirq_ns: Some(40_000),
        other_cpu_ns: Some(6_000),
        sampled: SampledTimes {
            received: Some(Evidence {
                ns: 20_000,
                sample_ns_ms: Some(20_000),
            }),
            sent: None,
            sends_ns: Some(3_000),
        },
        names: vec![HostName {
            address: [192, 0, 2, 1].into(),
            name: "one.example".to_owned(),
        }],
    }
}

/// A program of whose places and packets nothing is known, in each interval.
pub fn programs() -> Programs {
    let about = About {
        id: 7,
        name: "filter".to_owned(),
        kind: "socket_filter".to_owned(),
        unattached: "at a socket".to_owned(),
        uncounted: "not known".to_owned(),
        samples: 3,
        ..About::default()
    };
    let mut causes = Causes::default();
    causes.add(&Owner::single(OwnerKind::Nobody), 1, Some(1));
    causes.add(&Owner::single(OwnerKind::Unknown), 2, None);
    Programs {
        programs: vec![Program {
            about,
            cpu_ns: vec![2_000_000, 1_000_000],
            variance_ns_ms: Some(3_000_000),
            causes: Some(causes),
        }],
        other_cpu_ns: vec![0, 500_000],
        other_samples: 1,
    }
}

/// A group's softirqs on a CPU of another's cpuset, in each interval.
pub fn intruders() -> Intruders {
    let group = |path: &str| Owner {
        cgroup: path.to_owned(),
        ..Owner::single(OwnerKind::Cgroup)
    };
    Intruders {
        cpus: vec![QuietCpu {
            cpu: 1,
            why: vec![Quietness {
                kind: QuietKind::Cpuset,
                cpuset: "/quiet".to_owned(),
            }],
            ways: vec!["RPS of eth0 rx-0".to_owned()],
        }],
        intrusions: vec![Intrusion {
            cpu: 1,
            event: index_of("rx_softirq").expect("a row") as u32,
            cause: group("/noisy"),
            victim: group("/quiet"),
            ns: 40_000,
        }],
        origins: vec![Origin {
            owner: group("/noisy"),
            cpu: 0,
            ns: 9_000,
        }],
    }
}

/// How long segments took to TCP, in each interval: on the first CPU nine of ten a little, and on
/// the second one of ten much longer.
pub const SHORT_NS: u64 = 5_000;
pub const LONG_NS: u64 = 3_000_000;

/// What is said of the instruments: enough for a history of latency.
pub fn instruments() -> Vec<InstrumentInfo> {
    vec![InstrumentInfo {
        name: "latency".to_owned(),
        availability: Availability::by("running"),
    }]
}

/// What it says of that.
pub fn latency() -> Latency {
    let mut point = PointLatency::new(Point::TcpStart, "fentry", 2);
    let mut put = |ns: u64, counts: [u64; 2]| {
        point.buckets[bucket_of(ns).expect("a bucket")] = Some(counts.to_vec());
    };
    put(SHORT_NS, [90, 0]);
    put(LONG_NS, [0, 10]);
    point.sum_ns = vec![90 * SHORT_NS, 10 * LONG_NS];
    point.negative = vec![2, 1];
    point.lost = vec![4, 3];
    let mut histogram = Histogram::default();
    histogram.record(SHORT_NS);
    let group = |name: Option<&str>| GroupLatency {
        kind: GroupKind::Interface,
        name: name.map(str::to_owned),
        point: Point::TcpStart,
        histogram: histogram.clone(),
    };
    Latency {
        one_in: 1,
        points: vec![point],
        groups: vec![group(Some("eth\"0\\")), group(None)],
        missing: vec![MissingPoint {
            point: Point::Qdisc,
            reason: "no such tracepoint".to_owned(),
        }],
        estimated: Some(ESTIMATED),
    }
}

/// How the host is set up.
pub fn setup() -> Setup {
    Setup {
        interfaces: vec![InterfaceSetup {
            name: "eth0".to_owned(),
            rx_queues: 2,
            rps_cpus: vec![0],
            interrupts: vec![(64, vec![0, 1])],
            gro: Some(true),
            tso: Some(false),
            tx_checksums: Some(true),
        }],
        budget: Some(300),
        budget_usecs: Some(2_000),
        max_backlog: Some(1_000),
        tracked_connections: Some(7),
        has_nat: Some(false),
        congestion_control: Some("bbr".to_owned()),
        default_qdisc: Some("fq_codel".to_owned()),
        tcp_rmem: Some([4_096, 131_072, 6_291_456]),
        tcp_memory: Some(SocketMemory {
            pages: 7,
            limits: [1, 2, 3],
        }),
        udp_memory: Some(SocketMemory {
            pages: 0,
            limits: [1, 2, 3],
        }),
    }
}
