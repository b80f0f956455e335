//! Conversations: the flows of both directions between two ends. Pure.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;

use crate::flow::{Counts, Direction, Key};

/// By what conversations are sorted, the largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sort {
    /// By bytes
    Bytes,
    /// By packets
    Packets,
}

/// An address, and the port where the protocol has ports.
pub(crate) type EndPoint = (IpAddr, Option<u16>);

/// Packets and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub packets: u64,
    pub bytes: u64,
}

/// The flows between two ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conversation {
    pub interface: u32,
    pub vlans: Vec<u16>,
    pub protocol: u8,
    /// The first is the source of the first packet that was seen.
    pub ends: [EndPoint; 2],
    /// From the first end to the second, and back.
    pub amounts: [Amount; 2],
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Between {
    interface: u32,
    vlans: Vec<u16>,
    protocol: u8,
    ends: [EndPoint; 2],
}

/// What is added up of a conversation: of each sender by the direction at the interface.
#[derive(Debug)]
struct Sum {
    first_ns: u64,
    is_swapped: bool,
    seen: [[Amount; 2]; 2],
}

impl Amount {
    fn add(&mut self, counts: &Counts) {
        self.packets += counts.packets;
        self.bytes += counts.bytes;
    }
}

impl Conversation {
    /// Both directions.
    pub(crate) fn amount(&self, sort: Sort) -> u64 {
        let size = |amount: &Amount| match sort {
            Sort::Bytes => amount.bytes,
            Sort::Packets => amount.packets,
        };
        self.amounts.iter().map(size).sum()
    }
}

/// The conversations of these flows, the largest first.
pub(crate) fn of(flows: impl Iterator<Item = (Key, Counts)>, sort: Sort) -> Vec<Conversation> {
    let mut sums: HashMap<Between, Sum> = HashMap::new();
    for (key, counts) in flows {
        let ports = key.ports().map_or([None; 2], |ports| ports.map(Some));
        let mut ends = [(key.source(), ports[0]), (key.destination(), ports[1])];
        let is_swapped = ends[0] > ends[1];
        ends.sort();
        let between = Between {
            interface: key.interface(),
            vlans: key.vlans().collect(),
            protocol: key.protocol(),
            ends,
        };
        let sum = sums.entry(between).or_insert(Sum {
            first_ns: u64::MAX,
            is_swapped,
            seen: Default::default(),
        });
        if counts.first_ns < sum.first_ns {
            (sum.first_ns, sum.is_swapped) = (counts.first_ns, is_swapped);
        }
        let direction = usize::from(key.direction() == Some(Direction::Out));
        sum.seen[usize::from(is_swapped)][direction].add(&counts);
    }
    let mut all: Vec<Conversation> = sums.into_iter().map(conversation).collect();
    all.sort_by_key(|conversation| (Reverse(conversation.amount(sort)), conversation.ends));
    all
}

fn conversation((between, sum): (Between, Sum)) -> Conversation {
    // On loopback, and where packets leave by the interface by which they came, each is seen twice.
    let larger = |[a, b]: [Amount; 2]| if a.packets >= b.packets { a } else { b };
    let (mut ends, mut amounts) = (between.ends, sum.seen.map(larger));
    if sum.is_swapped {
        ends.reverse();
        amounts.reverse();
    }
    Conversation {
        interface: between.interface,
        vlans: between.vlans,
        protocol: between.protocol,
        ends,
        amounts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Frame;
    use crate::frames::{V4, ethernet, ipv4, with_ports};
    use crate::kernel::parser::{Headers, parse};

    /// A datagram from port 5 to 53, or its answer.
    fn datagram(is_answer: bool, payload: usize, at_ns: u64) -> (Key, Counts) {
        let ports = if is_answer { [53, 5] } else { [5, 53] };
        let payload = vec![0; payload];
        let mut frame = ethernet(
            &[],
            0x0800,
            &ipv4(0, 0, 17, &with_ports(ports, 8, &payload)),
        );
        if is_answer {
            let [from, to] = V4.map(|address| address.octets());
            frame[26..30].copy_from_slice(&to);
            frame[30..34].copy_from_slice(&from);
        }
        match parse(&frame, frame.len() as u32, Headers::Outer) {
            Frame::Packet(packet) => (packet.key(), packet.counts(at_ns)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn both_directions_are_one_and_who_began_is_first() {
        let ask = (IpAddr::from(V4[0]), Some(5));
        let answer = (IpAddr::from(V4[1]), Some(53));
        for (answered_ns, ends) in [(9, [ask, answer]), (1, [answer, ask])] {
            let flows = [datagram(false, 2, 3), datagram(true, 72, answered_ns)];
            let all = of(flows.into_iter(), Sort::Bytes);
            assert_eq!(all.len(), 1);
            assert_eq!(all[0].ends, ends);
            let bytes = all[0].amounts.map(|amount| amount.bytes);
            assert_eq!(
                bytes,
                if answered_ns == 9 {
                    [30, 100]
                } else {
                    [100, 30]
                }
            );
            assert_eq!(all[0].amount(Sort::Packets), 2);
        }
    }
}
