//! The work of the made-up host: packets of an interface with an odd name, and some dropped.

use metrics_common::{
    DropPlace, Drops, Interface, InterfaceCounts, Interfaces, ProtocolCount, SoftnetCount, Traffic,
    Work, WorkCount,
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
            counts: (1..=WorkCount::ALL.len() as u64)
                .map(|count| Some(10 * count))
                .collect(),
        }),
    }
}

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
    }
}
