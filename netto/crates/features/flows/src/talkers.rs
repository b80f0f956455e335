//! The section of an interval: its largest conversations, and whose the time of the RX softirq was.
//! Pure.

use std::cmp::Reverse;
use std::collections::HashMap;

use metrics_common::Flows;
use metrics_common::sections::{
    Amount, Conversation, FlowEnd, FlowPrefix, MOST_CONVERSATIONS, SampledTime, SampledTimes,
    Subnet,
};

use netto_estimate::clusters::SampledShare;

use crate::flow::Key;
use crate::kernel::collector::{Drained, Part, Prefix, Totals};
use crate::shares::{Charged, Time, Times, ends};

/// Which conversation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Between {
    interface: u32,
    vlans: Vec<u16>,
    protocol: u8,
    /// In order.
    ends: [FlowEnd; 2],
}

/// What is added up of it.
#[derive(Debug, Default)]
struct Sum {
    first_ns: u64,
    is_swapped: bool,
    /// From the lesser end, and from the greater.
    amounts: [Amount; 2],
    sampled: u64,
    share: SampledShare,
    time: Time,
}

impl Between {
    /// The conversation of a flow, and whether the greater end sends.
    fn of(key: &Key) -> (Between, bool) {
        let mut ends = ends(key);
        let is_swapped = ends[0] > ends[1];
        ends.sort_unstable();
        let between = Between {
            interface: key.interface(),
            vlans: key.vlans().collect(),
            protocol: key.protocol(),
            ends,
        };
        (between, is_swapped)
    }
}

impl Sum {
    fn add(&mut self, part: &Part, is_swapped: bool, time: Time) {
        let counts = &part.counts;
        if self.sampled == 0 || counts.first_ns < self.first_ns {
            (self.first_ns, self.is_swapped) = (counts.first_ns, is_swapped);
        }
        self.amounts[usize::from(is_swapped)].add(Amount {
            packets: counts.packets,
            bytes: counts.bytes,
        });
        self.sampled += part.sampled;
        self.share += share_of(part);
        let sum = &mut self.time;
        sum.received_ns += time.received_ns;
        sum.shown_ns += time.shown_ns;
        sum.sent_ns += time.sent_ns;
        sum.ns_ms = [0, 1].map(|side| sum.ns_ms[side] + time.ns_ms[side]);
    }

    fn both(&self) -> Amount {
        let mut both = self.amounts[0];
        both.add(self.amounts[1]);
        both
    }
}

/// The section of what was drained, scaled and charged; the caller adds the flows under way.
pub(crate) fn section(
    drained: &Drained,
    totals: &Totals,
    times: &Times,
    charged: &Charged,
    name_of: impl Fn(u32) -> String,
) -> Flows {
    // Senders choose the ends: a hash that they cannot foresee.
    let mut sums: HashMap<Between, Sum> = HashMap::new();
    for (part, time) in drained.parts.iter().zip(&charged.parts) {
        let (between, is_swapped) = Between::of(&part.key);
        let sum = sums.entry(between).or_default();
        sum.add(part, is_swapped, *time);
    }
    let sampling = Sampling::of(drained, totals);
    let prefixes = prefixes(drained, times, &name_of);
    let mut sums: Vec<(Between, Sum)> = sums.into_iter().collect();
    let size = |(between, sum): &(Between, Sum)| (Reverse(sum.both().bytes), between.ends);
    let listed = MOST_CONVERSATIONS.min(sums.len());
    if listed < sums.len() {
        sums.select_nth_unstable_by_key(listed, size);
    }
    let others = sums.split_off(listed);
    sums.sort_unstable_by_key(size);
    let not_listed_ns = others.iter().map(|(_, sum)| sum.time.received_ns);
    let by_prefix_ns = prefixes.iter().filter_map(|prefix| prefix.cpu_ns);
    let not_listed_ns: u64 = not_listed_ns.chain(by_prefix_ns).sum();
    let conversations: Vec<Conversation> = sums
        .into_iter()
        .map(|(between, sum)| conversation(between, sum, times, sampling, &name_of))
        .collect();
    // Of sampled packets none may have been met: then all of them are of others.
    let mut by_prefix = Amount::default();
    prefixes
        .iter()
        .for_each(|prefix| by_prefix.add(prefix.amount));
    let none = |listed: u64, lost: u64, all: u64| all.saturating_sub(lost).saturating_sub(listed);
    let mut other = Amount {
        packets: none(by_prefix.packets, totals.lost_packets, totals.packets),
        bytes: none(by_prefix.bytes, totals.lost_bytes, totals.bytes),
    };
    for amount in conversations.iter().map(Conversation::amount) {
        other.packets = other.packets.saturating_sub(amount.packets);
        other.bytes = other.bytes.saturating_sub(amount.bytes);
    }
    let received = times.received.as_deref();
    let rx_softirq_ns = received.map(|all| all.iter().map(|cpu| cpu.rx_softirq_ns).sum());
    let [of_received, of_sent] = times.evidence;
    let mut flows = Flows {
        conversations,
        other,
        prefixes,
        prefix_packets: by_prefix.packets,
        prefix_bytes: by_prefix.bytes,
        packets: totals.packets,
        bytes: totals.bytes,
        lost_packets: totals.lost_packets,
        lost_bytes: totals.lost_bytes,
        malformed_packets: totals.malformed_packets,
        other_packets: totals.other_packets,
        rx_softirq_ns,
        other_cpu_ns: received.map(|_| charged.rest_ns + not_listed_ns),
        sampled: SampledTimes {
            received: of_received,
            sent: of_sent,
            sends_ns: times.sends_ns,
        },
        ..Flows::default()
    };
    flows.keep_prefixes();
    flows
}

/// All that was sampled, and what it stands for.
#[derive(Debug, Clone, Copy)]
struct Sampling {
    all: SampledShare,
    packets: f64,
}

impl Sampling {
    fn of(drained: &Drained, totals: &Totals) -> Sampling {
        let prefixes = drained.prefixes.iter().map(|prefix| &prefix.part);
        let parts = drained.parts.iter().chain(prefixes).map(share_of);
        let mut all: SampledShare = parts.sum();
        // Those for which there was no room came as the others did.
        let sampled = totals.packets.saturating_sub(totals.passed_packets) as f64;
        all.squares *= sampled / all.segments.max(1.0);
        all.segments = sampled;
        Sampling {
            all,
            packets: totals.packets as f64,
        }
    }

    /// The variance of a conversation's packets.
    fn variance(self, share: SampledShare) -> u64 {
        share.figure(&self.all, self.packets).variance.ceil() as u64
    }
}

fn share_of(part: &Part) -> SampledShare {
    SampledShare {
        segments: part.sampled as f64,
        squares: part.squares as f64,
    }
}

/// The prefixes, each once.
fn prefixes(drained: &Drained, times: &Times, name_of: &impl Fn(u32) -> String) -> Vec<FlowPrefix> {
    let mut sums: HashMap<(u32, u8, [Subnet; 2]), FlowPrefix> = HashMap::new();
    for Prefix { part, flows } in &drained.prefixes {
        let Some(ends) = subnets(&part.key) else {
            continue;
        };
        let key = &part.key;
        let prefix = FlowPrefix {
            interface: String::new(),
            protocol: key.protocol(),
            source: ends[0],
            destination: ends[1],
            amount: Amount {
                packets: part.counts.packets,
                bytes: part.counts.bytes,
            },
            least_flows: *flows,
            cpu_ns: times.received.as_ref().and(part.counts.cpu_ns),
        };
        sums.entry((key.interface(), key.protocol(), ends))
            .and_modify(|sum| sum.add(&prefix))
            .or_insert(prefix);
    }
    let all = sums
        .into_iter()
        .map(|((interface, ..), prefix)| FlowPrefix {
            interface: name_of(interface),
            ..prefix
        });
    all.collect()
}

/// Source and destination of a prefix.
pub(crate) fn subnets(key: &Key) -> Option<[Subnet; 2]> {
    let [source, destination] = key.prefix_bits()?;
    let subnet = |address, bits| Subnet { address, bits };
    Some([
        subnet(key.source(), source),
        subnet(key.destination(), destination),
    ])
}

fn conversation(
    between: Between,
    sum: Sum,
    times: &Times,
    sampling: Sampling,
    name_of: &impl Fn(u32) -> String,
) -> Conversation {
    let (mut ends, [mut sent, mut received]) = (between.ends, sum.amounts);
    if sum.is_swapped {
        ends.reverse();
        std::mem::swap(&mut sent, &mut received);
    }
    Conversation {
        interface: name_of(between.interface),
        vlans: between.vlans,
        protocol: between.protocol,
        ends,
        sent,
        received,
        sampled_packets: sum.sampled,
        packets_variance: Some(sampling.variance(sum.share)),
        cpu_ns: times.received.as_ref().map(|_| sum.time.received_ns),
        sampled: SampledTime {
            received_ns: times.shown.as_ref().map(|_| sum.time.shown_ns),
            sent_ns: times.sends_ns.map(|_| sum.time.sent_ns),
            ns_ms: sum.time.ns_ms.map(Some),
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::flow::Direction;
    use crate::sampling::testing::part;
    use crate::shares::{Received, charge};

    /// Parts of one CPU's packets each, by port, direction and number; all are in the totals.
    fn drained(parts: &[(u16, u32, Direction, u64)]) -> Drained {
        let mut totals = vec![[Totals::default(); 2]; 2];
        let parts = parts.iter().map(|(port, cpu, direction, packets)| {
            let mut part = part(*port, *cpu, *packets, 100 * packets);
            part.key = part.key.seen(*direction);
            let sum = &mut totals[*cpu as usize][usize::from(*direction == Direction::Out)];
            sum.packets += packets;
            sum.bytes += 100 * packets;
            part
        });
        let parts = parts.collect();
        Drained {
            parts,
            totals,
            ..Drained::default()
        }
    }

    fn received(times: [(u64, u64); 2]) -> Vec<Received> {
        let of_cpu = |(cpu, (rx_softirq_ns, packets))| Received {
            cpu,
            rx_softirq_ns,
            packets,
        };
        (0..).zip(times).map(of_cpu).collect()
    }

    fn of(drained: &Drained, times: [(u64, u64); 2]) -> Flows {
        let times = Times {
            received: Some(received(times)),
            ..Times::default()
        };
        let mut drained = drained.clone();
        let charged = charge(&mut drained, &times);
        section(&drained, &drained.sum(), &times, &charged, |_| {
            "eth0".to_owned()
        })
    }

    fn sums_hold(flows: &Flows) {
        let (mut sum, mut cpu_ns) = (flows.other, flows.other_cpu_ns.unwrap());
        sum.packets += flows.prefix_packets;
        sum.bytes += flows.prefix_bytes;
        for conversation in &flows.conversations {
            sum.add(conversation.amount());
            cpu_ns += conversation.cpu_ns.unwrap();
        }
        assert_eq!(sum.packets + flows.lost_packets, flows.packets);
        assert_eq!(sum.bytes + flows.lost_bytes, flows.bytes);
        assert_eq!(Some(cpu_ns), flows.rx_softirq_ns);
    }

    #[test]
    fn each_cpu_shares_its_time_among_the_packets_that_it_received() {
        use Direction::{In, Out};
        let drained = drained(&[
            (1, 0, In, 30),
            (2, 0, In, 10),
            (2, 1, In, 5),
            (1, 1, Out, 9),
        ]);
        let flows = of(&drained, [(4_000, 0), (700, 0)]);
        sums_hold(&flows);
        let cpu_ns: Vec<_> = flows
            .conversations
            .iter()
            .map(|conversation| conversation.cpu_ns)
            .collect();
        assert_eq!(cpu_ns, [Some(3_000), Some(1_700)]);
        assert_eq!(flows.other_cpu_ns, Some(0));
        assert_eq!(flows.conversations[0].sent.packets, 39);
    }

    #[test]
    fn time_of_packets_of_other_interfaces_is_nobodys_here() {
        let drained = drained(&[(1, 0, Direction::In, 30)]);
        let flows = of(&drained, [(4_000, 40), (700, 9)]);
        sums_hold(&flows);
        assert_eq!(flows.conversations[0].cpu_ns, Some(3_000));
        assert_eq!(flows.other_cpu_ns, Some(1_700));
        let mut drained = drained;
        let times = Times::default();
        let charged = charge(&mut drained, &times);
        let unknown = section(&drained, &drained.sum(), &times, &charged, |_| {
            String::new()
        });
        assert_eq!(unknown.conversations[0].cpu_ns, None);
        assert_eq!((unknown.rx_softirq_ns, unknown.other_cpu_ns), (None, None));
    }

    #[test]
    fn of_many_conversations_the_largest_are_listed() {
        let parts: Vec<_> = (1..200)
            .map(|port| (port, 0, Direction::In, u64::from(port)))
            .collect();
        let flows = of(&drained(&parts), [(1_000_003, 0), (5, 0)]);
        sums_hold(&flows);
        assert_eq!(flows.conversations.len(), MOST_CONVERSATIONS);
        assert_eq!(flows.conversations[0].ends[0].port, Some(199));
        assert!(flows.other.packets > 0);
    }

    #[test]
    fn flows_without_room_are_prefixes_with_their_amounts_and_time() {
        let mut drained = drained(&[(1, 0, Direction::In, 30), (2, 0, Direction::In, 10)]);
        for (bits, cpu) in [([24, 32], 0), ([24, 32], 1), ([0, 32], 1)] {
            let mut part = part(3, cpu, 20, 1_000);
            part.key = part.key.seen(Direction::In).aggregated(bits);
            drained.prefixes.push(Prefix { part, flows: 9 });
            let totals = &mut drained.totals[cpu as usize][0];
            totals.packets += 20;
            totals.bytes += 1_000;
        }
        let flows = of(&drained, [(6_000, 0), (800, 0)]);
        sums_hold(&flows);
        assert_eq!((flows.prefix_packets, flows.prefix_bytes), (60, 3_000));
        let found: Vec<String> = flows
            .prefixes
            .iter()
            .map(|prefix| {
                format!(
                    "{} {} {}",
                    prefix.source, prefix.destination, prefix.amount.packets
                )
            })
            .collect();
        assert_eq!(
            found,
            ["192.0.2.0/24 192.0.2.2 40", "0.0.0.0/0 192.0.2.2 20"]
        );
        let first = &flows.prefixes[0];
        assert_eq!((first.least_flows, first.cpu_ns), (9, Some(2_400)));
        assert_eq!(flows.other.packets, 0);
    }

    proptest! {
        #[test]
        fn sums_hold_whatever_comes(
            parts in prop::collection::vec(
                (1..99_u16, 0..2_u32, any::<bool>(), 1..1_000_u64), 0..120),
            times in any::<[(u32, u16); 2]>(),
        ) {
            let direction = |is_out| if is_out { Direction::Out } else { Direction::In };
            let parts: Vec<_> = parts
                .into_iter()
                .map(|(port, cpu, is_out, packets)| (port, cpu, direction(is_out), packets))
                .collect();
            sums_hold(&of(&drained(&parts), times.map(|(ns, other)| (ns.into(), other.into()))));
        }
    }
}
