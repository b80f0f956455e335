//! What comes out of records: every packet, every byte, in order of time.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::packet::flag;
use crate::record::{Addresses, FlowRecord};

const MTU: u16 = 1500;

fn flow(number: u32, start_ns: u64, duration_ns: u64, packets: u64) -> FlowRecord {
    FlowRecord {
        start_ns,
        end_ns: start_ns + duration_ns,
        addresses: Addresses::V4 {
            source: Ipv4Addr::from(0x0a00_0000 + number),
            destination: Ipv4Addr::new(192, 0, 2, 1),
        },
        source_port: 40_000,
        destination_port: 80,
        protocol: 6,
        tos: 0,
        tcp_flags: flag::SYN | flag::ACK | flag::FIN,
        packets,
        bytes: packets * 100,
        is_estimate: false,
        vlan: None,
    }
}

fn planned(record: FlowRecord) -> Flow {
    Flow::new(record, MTU, 1).expect("it can be made")
}

fn scheduled(records: &[FlowRecord]) -> Vec<Due> {
    let flows = records.iter().copied().map(planned);
    Schedule::new(InOrder::new(flows, 1000), Jitter::default()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn every_record_comes_out_whole_and_in_order_of_time(
        shapes in proptest::collection::vec((0..5000_u64, 0..5000_u64, 1..30_u64), 1..60),
        percent in 0..=100_u8,
    ) {
        let records: Vec<FlowRecord> = shapes
            .iter()
            .zip(0..)
            .map(|(&(start, duration, packets), number)| flow(number, start, duration, packets))
            .collect();
        let flows = records.iter().copied().map(planned);
        let jitter = Jitter { percent, seed: 3 };
        let all: Vec<Due> = Schedule::new(InOrder::new(flows, 1000), jitter).collect();
        prop_assert!(all.is_sorted_by_key(|due| due.at_ns));
        let mut seen: HashMap<Addresses, FlowRecord> = HashMap::new();
        for due in &all {
            let Some(record) = records.iter().find(|record| record.addresses == due.packet.addresses) else {
                return Err(TestCaseError::fail("a packet of no record"));
            };
            let sum = seen.entry(due.packet.addresses).or_insert(FlowRecord {
                start_ns: due.at_ns,
                packets: 0,
                bytes: 0,
                tcp_flags: 0,
                ..*record
            });
            sum.end_ns = due.at_ns;
            sum.packets += 1;
            sum.bytes += u64::from(due.packet.bytes);
            sum.tcp_flags |= due.packet.tcp_flags;
        }
        prop_assert_eq!(seen.len(), records.len());
        for record in records {
            // A single packet is sent at the start.
            let end_ns = if record.packets == 1 { record.start_ns } else { record.end_ns };
            prop_assert_eq!(seen[&record.addresses], FlowRecord { end_ns, ..record });
        }
    }

    #[test]
    fn flags_of_the_packets_are_those_of_the_record(flags in any::<u8>(), packets in 1..6_u64) {
        let record = FlowRecord { tcp_flags: flags, ..flow(1, 0, 10, packets) };
        let union = scheduled(&[record]).iter().fold(0, |union, due| union | due.packet.tcp_flags);
        prop_assert_eq!(union, flags);
    }
}

#[test]
fn sequence_numbers_add_up() {
    let all = scheduled(&[flow(1, 0, 100, 6)]);
    let flags: Vec<u8> = all.iter().map(|due| due.packet.tcp_flags).collect();
    let ack = flag::ACK;
    assert_eq!(flags, [flag::SYN, ack, ack, ack, ack, ack | flag::FIN]);
    let mut expected = all[0].packet.sequence;
    for due in &all {
        assert_eq!(due.packet.sequence, expected);
        let counted = u32::from(due.packet.tcp_flags & (flag::SYN | flag::FIN) != 0);
        expected = expected.wrapping_add(u32::from(due.packet.bytes) - 40 + counted);
    }
}

#[test]
fn the_two_directions_of_a_connection_acknowledge_each_other() {
    let forth = flow(1, 0, 100, 3);
    let Addresses::V4 {
        source,
        destination,
    } = forth.addresses
    else {
        panic!("the record is of IPv4");
    };
    let back = FlowRecord {
        addresses: Addresses::V4 {
            source: destination,
            destination: source,
        },
        source_port: forth.destination_port,
        destination_port: forth.source_port,
        ..forth
    };
    let (forth, back) = (scheduled(&[forth]), scheduled(&[back]));
    assert_eq!(
        back[0].packet.tcp_flags,
        flag::SYN | flag::ACK,
        "the lower port answers"
    );
    assert_eq!(back[0].packet.acknowledgement, forth[0].packet.sequence + 1);
    assert_eq!(forth[1].packet.acknowledgement, back[0].packet.sequence + 1);
}

#[test]
fn a_syn_without_answer_is_repeated_with_its_number() {
    let record = FlowRecord {
        tcp_flags: flag::SYN,
        bytes: 180,
        ..flow(1, 0, 100, 3)
    };
    let all = scheduled(&[record]);
    assert!(all.iter().all(|due| due.packet.tcp_flags == flag::SYN));
    assert!(
        all.iter()
            .all(|due| due.packet.sequence == all[0].packet.sequence)
    );
}

#[test]
fn memory_follows_the_flows_under_way() {
    // Each ends before the second after it begins.
    let flows = (0..10_000).map(|number| planned(flow(number, u64::from(number) * 1000, 1500, 3)));
    let mut schedule = Schedule::new(InOrder::new(flows, 10), Jitter::default());
    assert_eq!(schedule.by_ref().count(), 30_000);
    assert!(
        schedule.most_under_way() <= 3,
        "{}",
        schedule.most_under_way()
    );
}

#[test]
fn a_record_that_comes_too_late_is_moved_and_counted() {
    let records = [5000, 6000, 7000, 1000].map(|start| flow(start as u32, start, 100, 2));
    let order = |look_ahead| {
        let mut flows = InOrder::new(records.iter().copied().map(planned), look_ahead);
        let times: Vec<_> = flows
            .by_ref()
            .map(|flow| (flow.start_ns(), flow.end_ns()))
            .collect();
        (times, flows.moved())
    };
    let whole = vec![(1000, 1100), (5000, 5100), (6000, 6100), (7000, 7100)];
    assert_eq!(order(4), (whole, 0));
    let moved = vec![(5000, 5100), (6000, 6100), (6000, 6100), (7000, 7100)];
    assert_eq!(order(2), (moved, 1));
}

#[test]
fn what_cannot_be_made_is_refused_with_its_reason() {
    let refused = |record| {
        Flow::new(record, MTU, 1)
            .expect_err("it cannot be made")
            .to_string()
    };
    let good = flow(1, 0, 0, 2);
    assert!(refused(FlowRecord { packets: 0, ..good }).contains("no packets"));
    assert!(refused(FlowRecord { bytes: 79, ..good }).contains("headers of 40"));
    assert!(
        refused(FlowRecord {
            bytes: 3001,
            ..good
        })
        .contains("--mtu")
    );
    let v6 = Addresses::V6 {
        source: 1.into(),
        destination: 2.into(),
    };
    let hop = FlowRecord {
        addresses: v6,
        protocol: 0,
        ..good
    };
    assert!(refused(hop).contains("extension header"));
}

#[test]
fn packets_that_were_estimated_are_as_many_as_hold_the_bytes() {
    let mut record = FlowRecord {
        bytes: 10 * 1500 + 1,
        is_estimate: true,
        ..flow(1, 0, 1000, 10)
    };
    assert_eq!(scheduled(&[record]).len(), 11);
    record.bytes = 9 * 40 + 39;
    assert_eq!(scheduled(&[record]).len(), 9);
    record.is_estimate = false;
    assert!(
        Flow::new(record, MTU, 1).is_err(),
        "what was counted is exact"
    );
}
