//! Dropped packets of the demonstration host: most where one core is overloaded. Pure.

use metrics_common::{DropPlace, Drops, ProtocolCount, SoftnetCount, Traffic};
use netto_feature::demo::Generator;

/// Drops are a part of the received packets.
pub fn generator() -> Generator {
    Box::new(|interval, sections| {
        let traffic = sections.traffic.as_ref();
        sections.drops = traffic.map(|traffic| drops(traffic, interval.seconds));
    })
}

/// The section that matches that of traffic.
fn drops(traffic: &Traffic, seconds: f64) -> Drops {
    let packets = traffic
        .softnet_of(SoftnetCount::Packets)
        .unwrap_or_default();
    let backlog = traffic
        .softnet_of(SoftnetCount::Dropped)
        .unwrap_or_default();
    let all: u64 = packets.iter().sum();
    let scan = if seconds.rem_euclid(180.0) < 25.0 {
        all / 400
    } else {
        0
    };
    let errors = traffic
        .protocol(ProtocolCount::UdpReceiveBufferErrors)
        .unwrap_or(0);
    let mut places = vec![
        ("NETFILTER_DROP", "nf_hook_slow", all / 1_500),
        ("CPU_BACKLOG", "enqueue_to_backlog", backlog.iter().sum()),
        ("SOCKET_RCVBUFF", "__udp_queue_rcv_skb", errors),
        ("NO_SOCKET", "__udp4_lib_rcv", all / 12_000),
        ("NO_SOCKET", "tcp_v4_rcv", scan),
    ];
    places.retain(|(_, _, count)| *count > 0);
    places.sort_by_key(|(_, _, count)| u64::MAX - count);
    let total: u64 = places.iter().map(|(_, _, count)| count).sum();
    // Drops are divided as packets are; the remainder goes to the first CPU.
    let part =
        |count: &u64| (u128::from(total) * u128::from(*count) / u128::from(all.max(1))) as u64;
    let mut cpus: Vec<u64> = packets.iter().map(part).collect();
    let left = total.saturating_sub(cpus.iter().sum());
    if let Some(first) = cpus.first_mut() {
        *first += left;
    }
    let place = |(reason, function, packets): (&str, &str, u64)| DropPlace {
        reason: reason.to_owned(),
        function: function.to_owned(),
        packets,
    };
    Drops {
        places: places.into_iter().map(place).collect(),
        other_packets: 0,
        cpus,
        estimated: None,
    }
}
