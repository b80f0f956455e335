//! Conversations of the made-up host: parts of the packets of its interface and of the RX softirq.

use std::cmp::Reverse;
use std::net::IpAddr;

use metrics_common::component::index_of;
use metrics_common::sections::{
    Amount, Conversation, Evidence, FlowEnd, OwnerFlow, SampledTime, SampledTimes,
};
use metrics_common::{Flows, InterfaceCounts, OwnerKind, Owners};
use netto_feature::demo::Generator;

const INTERFACE: &str = "eth0";
/// The part of the time that samples show, per mille, and for how long one stands, milliseconds.
const SHOWN: u64 = 920;
const INDEPENDENT_MS: u64 = 1;
/// See [`TALKERS`].
type Talker = (u16, u8, u8, u16, [u64; 2]);

/// Port of the host, protocol, last part of the other's address, its port, and the part of the
/// received and of the sent packets, per mille.
const TALKERS: [Talker; 6] = [
    (873, 6, 20, 51_022, [420, 180]),
    (443, 6, 31, 40_210, [160, 410]),
    (443, 17, 47, 62_001, [120, 150]),
    (5_432, 6, 12, 38_890, [90, 60]),
    (53, 17, 2, 33_007, [30, 30]),
    (22, 6, 9, 52_144, [10, 20]),
];

/// Fills the section.
pub(crate) fn generator() -> Generator {
    Box::new(|_, sections| {
        let interfaces = sections.traffic.as_ref();
        let interfaces = interfaces.and_then(|traffic| traffic.interfaces.as_ref());
        let interface = interfaces.and_then(|all| {
            all.named
                .iter()
                .find(|interface| interface.name == INTERFACE)
        });
        let Some(interface) = interface else {
            return;
        };
        let cost = sections.cost.as_ref();
        let time = |slug| index_of(slug).and_then(|row| cost.and_then(|cost| cost.total_ns(row)));
        let times_ns = ["rx_softirq", "tx_syscall"].map(time);
        let flows = flows(&interface.counts, times_ns);
        if let Some(owners) = &mut sections.owners {
            add_flows(owners, &flows);
        }
        sections.flows = Some(flows);
    })
}

/// Gives each conversation to one of the largest owners.
fn add_flows(owners: &mut Owners, flows: &Flows) {
    let totals_ns = owners.totals_ns();
    let has_name = |at: &usize| owners.owners[*at].kind == OwnerKind::Cgroup;
    let mut places: Vec<usize> = (0..totals_ns.len()).filter(has_name).collect();
    places.sort_by_key(|at| Reverse(totals_ns[*at]));
    for (place, conversation) in places.into_iter().zip(&flows.conversations) {
        owners.add_flow(OwnerFlow {
            owner: place as u32,
            protocol: conversation.protocol,
            ends: conversation.ends,
            ns: conversation
                .all_cpu_ns()
                .unwrap_or(0)
                .min(totals_ns[place] / 2),
        });
    }
}

fn flows(counts: &InterfaceCounts, [rx_softirq_ns, sends_ns]: [Option<u64>; 2]) -> Flows {
    let part = |whole: u64, per_mille: u64| whole / 1_000 * per_mille;
    let amount = |packets: u64, bytes: u64, per_mille: u64| Amount {
        packets: part(packets, per_mille),
        bytes: part(bytes, per_mille),
    };
    // The first goes through a long chain of rules.
    let cost = |received: u64| match received {
        420 => 540,
        _ => received * 4 / 5,
    };
    let evidence = |ns: Option<u64>| {
        ns.map(|ns| Evidence {
            ns,
            sample_ns_ms: Some(ns * INDEPENDENT_MS),
        })
    };
    let conversation = |(port, protocol, host, far, [received, sent]): Talker| {
        let end = |last: u8, port| FlowEnd {
            address: IpAddr::from([192, 0, 2, last]),
            port: Some(port),
        };
        let from_there = amount(counts.rx_packets, counts.rx_bytes, received);
        let from_here = amount(counts.tx_packets, counts.tx_bytes, sent);
        let shown_ns = rx_softirq_ns.map(|ns| part(ns, cost(received) * SHOWN / 1_000));
        let sent_ns = sends_ns.map(|ns| part(ns, sent));
        Conversation {
            interface: INTERFACE.to_owned(),
            vlans: Vec::new(),
            protocol,
            ends: [end(host, far), end(10, port)],
            sent: from_there,
            received: from_here,
            sampled_packets: from_there.packets + from_here.packets,
            packets_variance: Some(0),
            cpu_ns: rx_softirq_ns.map(|ns| part(ns, cost(received))),
            sampled: SampledTime {
                received_ns: shown_ns,
                sent_ns,
                ns_ms: [shown_ns, sent_ns].map(|ns| Some(ns? * INDEPENDENT_MS)),
            },
        }
    };
    let mut flows = Flows {
        conversations: TALKERS.map(conversation).to_vec(),
        packets: counts.rx_packets + counts.tx_packets,
        bytes: counts.rx_bytes + counts.tx_bytes,
        other: Amount {
            packets: counts.rx_packets + counts.tx_packets,
            bytes: counts.rx_bytes + counts.tx_bytes,
        },
        active: 2 * TALKERS.len() as u64,
        one_in: 1,
        rx_softirq_ns,
        other_cpu_ns: rx_softirq_ns,
        sampled: SampledTimes {
            received: evidence(rx_softirq_ns),
            sent: evidence(sends_ns),
            sends_ns,
        },
        ..Flows::default()
    };
    for conversation in &flows.conversations {
        let amount = conversation.amount();
        flows.other.packets -= amount.packets;
        flows.other.bytes -= amount.bytes;
        flows.other_cpu_ns = flows
            .other_cpu_ns
            .zip(conversation.cpu_ns)
            .map(|(all, ns)| all - ns);
    }
    flows
}
