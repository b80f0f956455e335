//! Whose the CPU time is: that of the RX softirq among the flows that were received, that of sends among
//! those that were sent. Pure.
//!
//! What samples show to be a flow's (`owners`) is divided among what each CPU saw of it, by packets.
//! What they do not show of a CPU's RX softirq is divided among the packets that it received; of
//! sends it is nobody's, because nothing says how many packets leave by other interfaces.

use std::collections::HashMap;

use metrics_common::sections::{Evidence, FlowEnd};
use netto_analysis::tagged::FlowEnds;

use crate::flow::{Direction, Key};
use crate::kernel::collector::{Drained, Part};
use crate::sampling::Share;

/// What is known of one CPU besides its frames.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Received {
    pub cpu: u32,
    /// Time of its RX softirq, nanoseconds.
    pub rx_softirq_ns: u64,
    /// Packets that it took up the stack, whatever their interface.
    pub packets: u64,
}

/// Time of a flow, as samples show it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown {
    pub cpu: u32,
    /// `In`: of the RX softirq; `Out`: of sends.
    pub direction: Direction,
    pub flow: FlowEnds,
    pub ns: u64,
    /// For how long one independent sample stands there, milliseconds.
    pub sample_ms: f64,
}

/// What is known of the time of an interval.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times {
    /// `None` if the RX softirq has no time.
    pub received: Option<Vec<Received>>,
    /// What samples show; `None` if they show no flows.
    pub shown: Option<Vec<Shown>>,
    /// The wholes of that, and how exact they are: of the RX softirq and of sends.
    pub evidence: [Option<Evidence>; 2],
    /// Time of sends on all CPUs.
    pub sends_ns: Option<u64>,
}

/// Time of what one CPU saw of a flow, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Time {
    /// Of the RX softirq.
    pub received_ns: u64,
    /// What samples show of that.
    pub shown_ns: u64,
    /// Of sends, all of which samples show.
    pub sent_ns: u64,
    /// What samples show of both × the time for which one independent sample stands, nanoseconds ×
    /// milliseconds.
    pub ns_ms: [u64; 2],
}

/// The time of an interval, divided.
#[derive(Debug, Clone, Default)]
pub(crate) struct Charged {
    /// Of each part that was drained.
    pub parts: Vec<Time>,
    /// Time of the RX softirq that no part and no prefix has.
    pub rest_ns: u64,
}

/// Divides the time among all that was drained, whose counts get their own.
pub(crate) fn charge(drained: &mut Drained, times: &Times) -> Charged {
    let mut shares = Shares::new(drained, times);
    let sends_are_shown = times.shown.is_some() && times.sends_ns.is_some();
    let mut charge_part = |part: &mut Part| {
        let time = shares.of(part);
        part.counts.cpu_ns = if is_received(part) {
            times.received.as_ref().map(|_| time.received_ns)
        } else {
            sends_are_shown.then_some(time.sent_ns)
        };
        time
    };
    let parts = drained.parts.iter_mut().map(&mut charge_part).collect();
    for prefix in &mut drained.prefixes {
        charge_part(&mut prefix.part);
    }
    Charged {
        parts,
        rest_ns: shares.rest_ns(),
    }
}

/// See the head of this file.
struct Shares {
    /// By flow and direction, and for how long one of its samples stands on average, milliseconds.
    shown: HashMap<(FlowEnds, Direction), (Share, f64)>,
    /// By CPU, the rest of its RX softirq.
    rest: HashMap<u32, Share>,
}

/// Source and destination of a flow.
pub(crate) fn ends(key: &Key) -> [FlowEnd; 2] {
    let ports = key.ports().map_or([None; 2], |ports| ports.map(Some));
    let end = |address, port| FlowEnd { address, port };
    [
        end(key.source(), ports[0]),
        end(key.destination(), ports[1]),
    ]
}

impl Shares {
    /// For all of these parts.
    fn new(drained: &Drained, times: &Times) -> Shares {
        let mut sums: HashMap<(FlowEnds, Direction), (u64, f64)> = HashMap::new();
        let mut shown_ns: HashMap<u32, u64> = HashMap::new();
        for shown in times.shown.iter().flatten() {
            let (ns, ns_ms) = sums.entry((shown.flow, shown.direction)).or_default();
            *ns += shown.ns;
            *ns_ms += shown.ns as f64 * shown.sample_ms;
            if shown.direction == Direction::In {
                *shown_ns.entry(shown.cpu).or_default() += shown.ns;
            }
        }
        let empty = sums.into_iter().map(|(whose, (ns, ns_ms))| {
            let sample_ms = ns_ms / ns.max(1) as f64;
            (whose, (Share::new(ns, 0), sample_ms))
        });
        let mut shares = Shares {
            shown: empty.collect(),
            rest: HashMap::new(),
        };
        let mut received: HashMap<u32, u64> = HashMap::new();
        let prefixes = drained.prefixes.iter().map(|prefix| &prefix.part);
        for part in drained.parts.iter().chain(prefixes) {
            if let Some((share, _)) = shares.shown_of(part) {
                share.expect(part.counts.packets);
            }
            if is_received(part) {
                *received.entry(part.cpu).or_default() += part.counts.packets;
            }
        }
        let of_cpu = |time: &Received| {
            let totals = drained.totals.get(time.cpu as usize);
            let [seen, _] = totals.copied().unwrap_or_default();
            let frames = seen.packets + seen.malformed_packets + seen.other_packets;
            let weight = received.get(&time.cpu).copied().unwrap_or(0);
            // Where more came than was seen, the rest was of other interfaces.
            let weights = weight.max(frames).max(time.packets);
            let shown_ns = shown_ns.get(&time.cpu).copied().unwrap_or(0);
            let rest_ns = time.rx_softirq_ns.saturating_sub(shown_ns);
            (time.cpu, Share::new(rest_ns, weights))
        };
        shares.rest = times.received.iter().flatten().map(of_cpu).collect();
        shares
    }

    /// What samples show of this part's flow in its direction.
    fn shown_of(&mut self, part: &Part) -> Option<&mut (Share, f64)> {
        if self.shown.is_empty() {
            return None;
        }
        let direction = part.key.direction()?;
        let flow = FlowEnds::new(part.key.protocol(), ends(&part.key));
        self.shown.get_mut(&(flow, direction))
    }

    /// The time of the next part: each is asked for once.
    fn of(&mut self, part: &Part) -> Time {
        let packets = part.counts.packets;
        let shown = self.shown_of(part).map(|(share, sample_ms)| {
            let ns = share.of(packets);
            (ns, (ns as f64 * *sample_ms).ceil() as u64)
        });
        let (shown_ns, ns_ms) = shown.unwrap_or_default();
        if !is_received(part) {
            return Time {
                sent_ns: shown_ns,
                ns_ms: [0, ns_ms],
                ..Time::default()
            };
        }
        let rest = self.rest.get_mut(&part.cpu);
        Time {
            received_ns: shown_ns + rest.map_or(0, |share| share.of(packets)),
            shown_ns,
            ns_ms: [ns_ms, 0],
            ..Time::default()
        }
    }

    /// Time of the RX softirq that nobody has got.
    fn rest_ns(&self) -> u64 {
        let received = |(whose, _): &(&(FlowEnds, Direction), _)| whose.1 == Direction::In;
        let shown = self
            .shown
            .iter()
            .filter(received)
            .map(|(_, (share, _))| share);
        shown.chain(self.rest.values()).map(Share::rest).sum()
    }
}

fn is_received(part: &Part) -> bool {
    part.key.direction() == Some(Direction::In)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::testing::part;

    const IN: Direction = Direction::In;
    const OUT: Direction = Direction::Out;

    fn seen(port: u16, cpu: u32, direction: Direction, packets: u64) -> Part {
        let mut part = part(port, cpu, packets, 100 * packets);
        part.key = part.key.seen(direction);
        part
    }

    fn shown(of: &Part, cpu: u32, ns: u64) -> Shown {
        Shown {
            cpu,
            direction: of.key.direction().unwrap(),
            flow: FlowEnds::new(of.key.protocol(), ends(&of.key)),
            ns,
            sample_ms: 10.0,
        }
    }

    fn times(parts: &[Part], rx_softirq_ns: u64, shown: Vec<Shown>) -> (Vec<Time>, u64) {
        let drained = Drained {
            parts: parts.to_vec(),
            ..Drained::default()
        };
        let received = Received {
            rx_softirq_ns,
            ..Received::default()
        };
        let times = Times {
            received: Some(vec![received]),
            shown: Some(shown),
            ..Times::default()
        };
        let mut shares = Shares::new(&drained, &times);
        let of_parts = parts.iter().map(|part| shares.of(part)).collect();
        (of_parts, shares.rest_ns())
    }

    #[test]
    fn few_packets_that_cost_much_have_what_samples_show() {
        let (cheap, dear) = (seen(1, 0, IN, 990), seen(2, 0, IN, 10));
        let evidence = vec![shown(&cheap, 0, 400), shown(&dear, 0, 500)];
        let (charged, rest_ns) = times(&[cheap, dear], 1_000, evidence);
        // What samples do not show is by packets.
        assert_eq!((charged[0].received_ns, charged[0].shown_ns), (499, 400));
        assert_eq!((charged[1].received_ns, charged[1].shown_ns), (501, 500));
        assert_eq!(rest_ns, 0);
        let (charged, _) = times(&[cheap, dear], 1_000, Vec::new());
        assert_eq!((charged[0].received_ns, charged[1].received_ns), (990, 10));
    }

    #[test]
    fn a_flow_has_its_time_on_another_cpu_too_and_one_that_was_not_seen_is_nobodys() {
        let (here, there) = (seen(1, 0, IN, 30), seen(1, 1, IN, 10));
        let unseen = seen(2, 0, IN, 1);
        let evidence = vec![shown(&here, 0, 400), shown(&unseen, 0, 600)];
        let (charged, rest_ns) = times(&[here, there], 1_000, evidence);
        assert_eq!((charged[0].received_ns, charged[1].received_ns), (300, 100));
        assert_eq!(rest_ns, 600);
    }

    #[test]
    fn sends_are_by_samples_alone() {
        let (one, other) = (seen(1, 0, OUT, 5), seen(2, 0, OUT, 5));
        let (charged, rest_ns) = times(&[one, other], 100, vec![shown(&one, 0, 30)]);
        assert_eq!((charged[0].sent_ns, charged[1].sent_ns), (30, 0));
        assert_eq!((charged[0].received_ns, rest_ns), (0, 100));
    }
}
