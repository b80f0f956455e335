//! Sums of traffic, and its part over the wire.

use super::interfaces::MOST_NAMES;
use super::*;

fn interface(name: &str, driver: &str, packets: u64) -> Interface {
    Interface {
        name: name.to_owned(),
        driver: driver.to_owned(),
        is_hardware: driver == "virtio_net",
        rx_queues: 2,
        tx_queues: 1,
        counts: InterfaceCounts {
            rx_packets: packets,
            tx_bytes: 100 * packets,
            ..InterfaceCounts::default()
        },
    }
}

fn of(named: Vec<Interface>) -> Traffic {
    Traffic {
        interfaces: Some(Interfaces {
            named,
            ..Interfaces::default()
        }),
        ..Traffic::default()
    }
}

#[test]
fn what_containers_show_once_more_did_not_go_over_the_wire() {
    let all = vec![
        interface("eth0", "virtio_net", 5),
        interface("docker0", "bridge", 4),
        interface("lo", LOOPBACK, 9),
    ];
    let wire = |named: &[Interface]| of(named.to_vec()).interfaces.unwrap().wire().rx_packets;
    assert_eq!(wire(&all), 5);
    assert_eq!(wire(&all[1..]), 4, "a container has no hardware");
    assert_eq!(wire(&[]), 0);
}

#[test]
fn an_interface_that_comes_back_adds_to_its_name() {
    let mut sum = of(vec![interface("a", "veth", 1)]);
    let columns = Columns::join(&mut vec![0], &[0]);
    sum.add(&of(Vec::new()), &columns);
    sum.add(&Traffic::default(), &columns);
    sum.add(
        &of(vec![interface("a", "tun", 2), interface("b", "veth", 7)]),
        &columns,
    );
    let named = sum.interfaces.unwrap().named;
    let shown: Vec<_> = named
        .iter()
        .map(|interface| {
            (
                interface.name.as_str(),
                interface.driver.as_str(),
                interface.counts.rx_packets,
            )
        })
        .collect();
    assert_eq!(shown, [("a", "tun", 3), ("b", "veth", 7)]);
}

#[test]
fn a_sum_of_ever_other_interfaces_does_not_grow_for_ever_and_loses_no_packet() {
    let mut sum = Traffic::default();
    for number in 0..2_000 {
        let name = format!("veth{number}");
        sum.add(&of(vec![interface(&name, "veth", 3)]), &Columns::folded());
    }
    let interfaces = sum.interfaces.unwrap();
    assert_eq!(interfaces.named.len(), MOST_NAMES);
    assert_eq!(interfaces.wire().rx_packets, 6_000);
}

#[test]
fn counts_that_go_back_are_other_counts() {
    let (two, five) = (interface("a", "", 2).counts, interface("a", "", 5).counts);
    assert_eq!(five.since(&two).map(|grown| grown.rx_packets), Some(3));
    assert_eq!(two.since(&five), None);
}

#[test]
fn what_is_not_known_is_neither_added_nor_shown() {
    let count = |value| Traffic {
        protocols: vec![value],
        softnet: vec![value.map(|value| vec![value, 1])],
        ..Traffic::default()
    };
    let mut sum = count(None);
    let columns = Columns::join(&mut vec![0, 1], &[0, 1]);
    assert_eq!(
        serde_json::to_value(&sum).unwrap(),
        serde_json::json!({"softnet": {}, "protocols": {}})
    );
    for value in [Some(4), None, Some(5)] {
        sum.add(&count(value), &columns);
    }
    assert_eq!(sum.protocol(ProtocolCount::TcpSegmentsIn), Some(9));
    assert_eq!(sum.softnet_total(SoftnetCount::Packets), Some(11));
    assert_eq!(sum.protocol(ProtocolCount::TcpSegmentsOut), None);
}

/// Half a second with this count.
fn worked(count: Option<u64>) -> Traffic {
    Traffic {
        work: Some(Work {
            counted_ns: 500_000_000,
            estimated: None,
            counts: vec![count; 3],
        }),
        ..Traffic::default()
    }
}

#[test]
fn a_sum_says_for_how_long_work_was_counted() {
    let mut sum = Traffic::default();
    for more in [worked(Some(4)), Traffic::default(), worked(Some(5))] {
        sum.add(&more, &Columns::folded());
    }
    let work = sum.work.as_ref().unwrap();
    assert_eq!(work.counted_ns, 1_000_000_000);
    assert_eq!(work.of(WorkCount::MessagesReceived), Some(9));
    assert_eq!(work.of(WorkCount::NapiPackets), None);
    let shown = serde_json::to_value(worked(Some(7))).unwrap();
    assert_eq!(
        shown["work"],
        serde_json::json!({
            "counted_ns": 500_000_000,
            "messages_sent": 7,
            "bytes_sent": 7,
            "messages_received": 7
        })
    );
}

#[test]
fn a_message_without_work_is_read() {
    let wire = serde_json::to_value(worked(Some(4)).to_wire()).unwrap();
    let mut without = wire.clone();
    without.as_object_mut().unwrap().remove("work").unwrap();
    let read = |wire| Traffic::from_wire(serde_json::from_value(wire).unwrap(), 0).unwrap();
    assert_eq!(read(wire), worked(Some(4)));
    assert_eq!(read(without), Traffic::default());
}

#[test]
fn names_are_each_of_one_row() {
    let slugs = SoftnetCount::ALL.iter().map(|count| count.slug());
    let slugs: std::collections::BTreeSet<&str> = slugs
        .chain(ProtocolCount::ALL.iter().map(|count| count.slug()))
        .chain(WorkCount::ALL.iter().map(|count| count.slug()))
        .collect();
    assert_eq!(
        slugs.len(),
        SoftnetCount::ALL.len() + ProtocolCount::ALL.len() + WorkCount::ALL.len()
    );
    for (row, count) in WorkCount::ALL.iter().enumerate() {
        assert_eq!(*count as usize, row);
        assert!(count.help().ends_with('.') && !count.label().is_empty());
    }
    for (row, count) in ProtocolCount::ALL.iter().enumerate() {
        assert_eq!(*count as usize, row);
        assert!(count.help().ends_with('.') && !count.label().is_empty());
    }
    for (row, count) in SoftnetCount::ALL.iter().enumerate() {
        assert_eq!(*count as usize, row);
        assert!(count.help().ends_with('.') && !count.label().is_empty());
    }
}
