//! Keeps the cost of the programs within the budget: how many packets are sampled for the table, and
//! what those stand for. Pure.
//!
//! Every packet is counted in the totals. A packet is sampled by chance, so that of the packets of an
//! interval each has the same: what is sampled of a flow, times all packets by all that were sampled,
//! is its number of packets on average, and the sum is that of the totals.

use crate::kernel::collector::{Drained, Totals};

/// What a frame takes that is in the totals only, and what an entry in the table takes more,
/// nanoseconds. `cargo xtask bench --only flows` measures 20 and 45 on one flow; where there are more
/// than the CPU's caches hold, an entry takes longer.
pub(crate) const SEEN_NS: f64 = 25.0;
pub(crate) const ENTRY_NS: f64 = 80.0;
/// What the first packet of a flow takes more than that.
pub(crate) const NEW_NS: f64 = 330.0;
/// Part of netto's budget of a CPU that they may take.
const PART: f64 = 0.5;
/// Fewer are never sampled.
pub(crate) const MOST_ONE_IN: u64 = 1_000;

/// The frames of one CPU in an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// All frames.
    pub frames: u64,
    /// IP packets.
    pub packets: u64,
    /// Those of them that were sampled.
    pub sampled: u64,
    /// Flows that began an entry in the table.
    pub new: u64,
}

impl Load {
    /// Of each CPU, both directions.
    pub(crate) fn of(drained: &Drained) -> Vec<Load> {
        let of_cpu = |totals: &[Totals; 2]| {
            let mut load = Load::default();
            for counts in totals {
                load.frames += counts.packets + counts.malformed_packets + counts.other_packets;
                load.packets += counts.packets;
                load.sampled += counts.packets - counts.passed_packets.min(counts.packets);
            }
            load
        };
        let mut loads: Vec<Load> = drained.totals.iter().map(of_cpu).collect();
        for part in &drained.parts {
            if let Some(load) = loads.get_mut(part.cpu as usize) {
                load.new += 1;
            }
        }
        loads
    }

    /// What it took, as a number of sampled packets.
    pub(crate) fn events(&self) -> u64 {
        let ns = self.frames as f64 * SEEN_NS
            + self.sampled as f64 * ENTRY_NS
            + self.new as f64 * NEW_NS;
        (ns / (SEEN_NS + ENTRY_NS)).round() as u64
    }
}

/// One in how many packets is to be sampled after an interval with these loads.
pub(crate) fn one_in(now: u64, loads: &[Load], interval_ns: u64, max_overhead_ratio: f64) -> u64 {
    let allowed_ns = PART * max_overhead_ratio * interval_ns as f64;
    let of_cpu = |load: &Load| {
        let left_ns = allowed_ns - load.frames as f64 * SEEN_NS;
        // Where fewer are sampled, fewer flows begin: at most in proportion.
        let new = load.new as f64 * now as f64;
        let entries_ns = load.packets as f64 * ENTRY_NS + new * NEW_NS;
        if entries_ns <= left_ns {
            1
        } else if left_ns <= 0.0 {
            MOST_ONE_IN
        } else {
            ((entries_ns / left_ns).ceil() as u64).min(MOST_ONE_IN)
        }
    };
    let wanted = loads.iter().map(of_cpu).max().unwrap_or(1);
    // A short pause of the traffic does not bring all packets back at once.
    if wanted < now {
        wanted.max(now / 2)
    } else {
        wanted
    }
}

/// Makes of what was sampled what it stands for: the sum of parts and of lost packets is that of the
/// totals. Returns the totals, with all lost packets.
pub(crate) fn scale(drained: &mut Drained) -> Totals {
    let mut totals = drained.sum();
    if totals.passed_packets == 0 {
        return totals;
    }
    let sampled_packets = totals.packets.saturating_sub(totals.passed_packets);
    let sampled_bytes = totals.bytes.saturating_sub(totals.passed_bytes);
    let mut packets = Share::new(totals.packets, sampled_packets);
    let mut bytes = Share::new(totals.bytes, sampled_bytes);
    let prefixes = drained.prefixes.iter_mut().map(|prefix| &mut prefix.part);
    for part in drained.parts.iter_mut().chain(prefixes) {
        part.counts.packets = packets.of(part.counts.packets);
        part.counts.bytes = bytes.of(part.counts.bytes);
    }
    totals.lost_packets = packets.of(totals.lost_packets);
    totals.lost_bytes = bytes.of(totals.lost_bytes);
    totals
}

/// Divides a whole in proportion to weights, which come one by one; the parts of all weights sum to
/// the whole, and those of fewer never to more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    whole: u64,
    weights: u64,
    weight: u64,
    given: u64,
}

impl Share {
    /// A whole, and the sum of all weights.
    pub(crate) fn new(whole: u64, weights: u64) -> Share {
        Share {
            whole,
            weights,
            weight: 0,
            given: 0,
        }
    }

    /// Adds to the sum of all weights, before the first part is taken.
    pub(crate) fn expect(&mut self, weight: u64) {
        self.weights = self.weights.saturating_add(weight);
    }

    /// The part of the next weight.
    pub(crate) fn of(&mut self, weight: u64) -> u64 {
        self.weight = self.weight.saturating_add(weight).min(self.weights);
        let weights = u128::from(self.weights.max(1));
        let until = u128::from(self.whole) * u128::from(self.weight) / weights;
        let part = until as u64 - self.given;
        self.given += part;
        part
    }

    /// What nobody has got.
    pub(crate) fn rest(&self) -> u64 {
        self.whole - self.given
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use crate::flow::{Counts, Frame};
    use crate::frames::{ethernet, ipv4, with_ports};
    use crate::kernel::collector::Part;
    use crate::kernel::parser::{Headers, parse};

    /// So many packets of a flow from this port to 53.
    pub(crate) fn part(port: u16, cpu: u32, packets: u64, bytes: u64) -> Part {
        let frame = ethernet(
            &[],
            0x0800,
            &ipv4(0, 0, 17, &with_ports([port, 53], 8, &[])),
        );
        let Frame::Packet(packet) = parse(&frame, frame.len() as u32, Headers::Outer) else {
            panic!("it is a packet");
        };
        let counts = Counts {
            packets,
            bytes,
            ..packet.counts(1)
        };
        Part {
            key: packet.key(),
            cpu,
            counts,
            sampled: packets,
            squares: packets,
        }
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::random::SplitMix64;
    use proptest::prelude::*;

    use super::testing::part;
    use super::*;
    use crate::kernel::collector::{Part, Prefix};

    const SECOND_NS: u64 = 1_000_000_000;

    fn load(packets: u64) -> Load {
        Load {
            frames: packets,
            packets,
            sampled: packets,
            new: 0,
        }
    }

    #[test]
    fn so_many_are_sampled_as_fit_into_the_part_of_the_budget_on_the_busiest_cpu() {
        let wanted = |now, packets| one_in(now, &[load(10), load(packets)], SECOND_NS, 0.01);
        assert_eq!(wanted(1, 0), 1);
        assert_eq!(wanted(1, 40_000), 1);
        let chosen = wanted(1, 80_000);
        let took_ns = 80_000.0 * SEEN_NS + 80_000.0 / chosen as f64 * ENTRY_NS;
        assert!(
            chosen > 1 && took_ns <= 0.005 * SECOND_NS as f64,
            "{chosen}"
        );
        assert_eq!(wanted(1, 10_000_000), MOST_ONE_IN);
        assert_eq!(wanted(64, 0), 32, "it comes back step by step");
        assert_eq!(one_in(1, &[], SECOND_NS, 0.01), 1);
        let mut flood = load(30_000);
        assert_eq!(one_in(1, &[flood], SECOND_NS, 0.01), 1);
        flood.new = 30_000;
        assert!(
            one_in(1, &[flood], SECOND_NS, 0.01) > 2,
            "each begins a flow"
        );
    }

    #[test]
    fn what_a_packet_takes_that_is_not_sampled_is_counted_in_part() {
        let mut cpu_load = load(1_000);
        assert_eq!(cpu_load.events(), 1_000);
        cpu_load.sampled = 0;
        let part = SEEN_NS / (SEEN_NS + ENTRY_NS);
        assert_eq!(cpu_load.events(), (1_000.0 * part).round() as u64);
    }

    /// 900 packets of one flow and 100 of another, one in ten, many times.
    #[test]
    fn flows_have_their_packets_on_average_however_few_are_sampled() {
        let mut random = SplitMix64(7);
        let mut sum = [0.0; 2];
        let rounds = 4_000;
        for _ in 0..rounds {
            let mut sampled = [0_u64; 2];
            for (flow, packets) in [900, 100].into_iter().enumerate() {
                sampled[flow] = (0..packets).filter(|_| random.ratio() < 0.1).count() as u64;
            }
            let all = sampled[0] + sampled[1];
            let mut share = Share::new(1_000, all);
            for (sum, sampled) in sum.iter_mut().zip(sampled) {
                *sum += share.of(sampled) as f64 / f64::from(rounds);
            }
        }
        // The standard error of the mean is 0.44.
        assert!((sum[0] - 900.0).abs() < 2.5, "{sum:?}");
        assert!((sum[1] - 100.0).abs() < 2.5, "{sum:?}");
    }

    proptest! {
        #[test]
        fn parts_and_lost_packets_sum_to_the_totals(
            parts in prop::collection::vec((1..9_u16, 0..2_u32, 1..1_000_u64, 40..1_500_u64), 0..20),
            lost in 0..50_u64,
            passed in 0..1_000_000_u64,
        ) {
            let mut parts: Vec<Part> = parts
                .into_iter()
                .map(|(port, cpu, packets, each)| part(port, cpu, packets, packets * each))
                .collect();
            let sampled: u64 = parts.iter().map(|part| part.counts.packets).sum::<u64>() + lost;
            let bytes: u64 = parts.iter().map(|part| part.counts.bytes).sum::<u64>() + 60 * lost;
            let totals = Totals {
                packets: sampled + passed,
                bytes: bytes + 100 * passed,
                lost_packets: lost,
                lost_bytes: 60 * lost,
                passed_packets: passed,
                passed_bytes: 100 * passed,
                ..Totals::default()
            };
            let prefixes = parts.split_off(parts.len() / 2).into_iter();
            let prefixes = prefixes.map(|part| Prefix { part, flows: 1 }).collect();
            let totals = vec![[totals, Totals::default()]];
            let mut drained = Drained { parts, prefixes, totals };
            let scaled = scale(&mut drained);
            prop_assume!(sampled > 0);
            let prefixes = drained.prefixes.iter().map(|prefix| &prefix.part);
            let all: Vec<&Part> = drained.parts.iter().chain(prefixes).collect();
            let packets: u64 = all.iter().map(|part| part.counts.packets).sum();
            let bytes: u64 = all.iter().map(|part| part.counts.bytes).sum();
            prop_assert_eq!(packets + scaled.lost_packets, scaled.packets);
            prop_assert_eq!(bytes + scaled.lost_bytes, scaled.bytes);
            prop_assert!(all.iter().all(|part| part.counts.packets >= part.sampled));
        }
    }
}
