//! The work of the made-up host: packets in proportion to the time of its RX softirqs, and bytes to
//! packets. Pure.

use metrics_common::component::index_of;
use metrics_common::sections::LOOPBACK;
use metrics_common::{
    Interface, InterfaceCounts, Interfaces, ProtocolCount, SoftnetCount, Traffic, WorkCount,
};
use netto_feature::demo::{Generator, Work};

/// Time of a packet in the RX softirq, nanoseconds, and its variation over time, from the bridge's
/// load.
const PACKET_NS: f64 = 1_900.0;
const SWING: f64 = 0.25;
const SWING_SECONDS: f64 = 310.0;
/// Bytes of a packet merged by GRO, and of how many it was made.
const PACKET_BYTES: u64 = 4_300;
const MERGED: u64 = 3;
/// Packets per poll.
const POLLED: u64 = 11;
/// Bytes of a sent message, and of a received one.
const SENT_BYTES: u64 = 1_900;
const RECEIVED_BYTES: u64 = 2_700;
/// Received packets for each sent one.
const IN_FOR_OUT: u64 = 2;

fn row<'a>(work: &'a Work, slug: &str) -> &'a [u64] {
    let row = index_of(slug).and_then(|index| work.components.get(index)?.as_deref());
    row.unwrap_or_default()
}

fn interface(name: &str, driver: &str, queues: u32, packets_in: u64, part: u64) -> Interface {
    let packets = packets_in / part;
    let out = packets / IN_FOR_OUT;
    Interface {
        name: name.to_owned(),
        driver: driver.to_owned(),
        is_hardware: driver == "mlx5_core",
        rx_queues: queues,
        tx_queues: queues,
        counts: InterfaceCounts {
            rx_packets: packets,
            rx_bytes: packets * PACKET_BYTES,
            tx_packets: out,
            tx_bytes: out * PACKET_BYTES / 3,
            rx_missed: if queues > 1 { packets / 40_000 } else { 0 },
            ..InterfaceCounts::default()
        },
    }
}

/// The number of packets follows from the time of the RX softirqs.
pub fn generator() -> Generator {
    Box::new(|interval, sections| {
        let work = traffic(interval.work, interval.length_ns, interval.seconds);
        sections.traffic = Some(work);
    })
}

/// The section for the interval that ends at `seconds`.
fn traffic(work: &Work, interval_ns: u64, seconds: f64) -> Traffic {
    let swing = 1.0 + SWING * (seconds * std::f64::consts::TAU / SWING_SECONDS).sin();
    let packets: Vec<u64> = row(work, "rx_softirq")
        .iter()
        .map(|ns| (*ns as f64 / (PACKET_NS * swing)) as u64)
        .collect();
    let all: u64 = packets.iter().sum();
    let most = packets.iter().copied().max().unwrap_or(0);
    // The overloaded core.
    let of_hottest = |divisor: u64| {
        let busiest_only = |count: &u64| if *count == most { count / divisor } else { 0 };
        packets.iter().map(busiest_only).collect::<Vec<u64>>()
    };
    let softnet = SoftnetCount::ALL.iter().map(|count| {
        Some(match count {
            SoftnetCount::Packets => packets.clone(),
            SoftnetCount::Dropped => of_hottest(20_000),
            SoftnetCount::Squeezed => of_hottest(9_000),
            SoftnetCount::ReceivedRps | SoftnetCount::FlowLimited => vec![0; packets.len()],
        })
    });
    let queues = packets.len().min(16) as u32;
    let protocols = ProtocolCount::ALL.iter().map(|count| {
        Some(match count {
            ProtocolCount::TcpSegmentsIn => all / 5 * 4,
            ProtocolCount::TcpSegmentsOut => all / 5 * 2,
            ProtocolCount::TcpRetransmits => all / 3_000,
            ProtocolCount::TcpOutOfOrder => all / 2_000,
            ProtocolCount::TcpListenOverflows | ProtocolCount::TcpListenDrops => 0,
            ProtocolCount::UdpDatagramsIn => all / 5,
            ProtocolCount::UdpDatagramsOut => all / 10,
            ProtocolCount::UdpReceiveBufferErrors => all / 30_000,
            ProtocolCount::TcpPruned
            | ProtocolCount::TcpCollapsed
            | ProtocolCount::TcpPruneDrops
            | ProtocolCount::TcpMemoryPressures
            | ProtocolCount::UdpMemoryErrors => 0,
        })
    });
    let calls = |slug: &str| -> u64 {
        let row = index_of(slug).and_then(|index| work.entries.get(index)?.as_ref());
        row.map_or(0, |row| row.iter().sum())
    };
    let (sent, received) = (calls("tx_syscall"), calls("rx_syscall"));
    let counts = WorkCount::ALL.iter().map(|count| {
        Some(match count {
            WorkCount::MessagesSent => sent,
            WorkCount::BytesSent => sent * SENT_BYTES,
            WorkCount::MessagesReceived => received,
            WorkCount::BytesReceived => received * RECEIVED_BYTES,
            WorkCount::NapiPolls => all * MERGED / POLLED,
            WorkCount::NapiPackets => all * MERGED,
        })
    });
    Traffic {
        softnet: softnet.collect(),
        interfaces: Some(Interfaces {
            named: vec![
                interface("lo", LOOPBACK, 1, all, 50),
                interface("eth0", "mlx5_core", queues, all, 1),
                interface("docker0", "bridge", 1, all, 4),
                interface("veth3f1c9a2", "veth", 1, all, 6),
                interface("veth90b7e41", "veth", 1, all, 12),
            ],
            others: 3,
            other: interface("", "veth", 1, all, 200).counts,
        }),
        protocols: protocols.collect(),
        work: Some(metrics_common::Work {
            counted_ns: interval_ns,
            estimated: None,
            counts: counts.collect(),
        }),
    }
}
