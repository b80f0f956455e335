//! Conversations over the intervals of a log, for `netto report`. Pure, and bounded as a sum of
//! conversations is.

use std::fmt::Write as _;

use metrics_common::sections::{Columns, Conversation, FlowSort, Section};
use metrics_common::{Flows, Snapshot};
use netto_feature::summary::{Summarizer, Summary};
use netto_questions::figures::{count, cpus};

use crate::api;
use crate::report::{end_text, protocol_text};

/// Conversations that have a line.
const LINES: usize = 5;
/// Columns for each end.
const ENDS: usize = 23;

/// Adds up the conversations of intervals.
pub(crate) fn summarizer() -> Box<dyn Summarizer> {
    Box::new(Sum::default())
}

#[derive(Debug, Default)]
struct Sum {
    /// Length of the intervals that have flows, nanoseconds.
    measured_ns: u64,
    flows: Flows,
}

impl Summarizer for Sum {
    fn add(&mut self, snapshot: &Snapshot) {
        if let Some(flows) = &snapshot.sections.flows {
            self.flows.add(flows, &Columns::folded());
            self.measured_ns = self.measured_ns.saturating_add(snapshot.interval_ns);
        }
    }

    fn finish(mut self: Box<Self>, component: Option<&str>) -> Option<Summary> {
        // It is of all of networking.
        if self.measured_ns == 0 || component.is_some() {
            return None;
        }
        let sort = match self.flows.rx_softirq_ns {
            Some(_) => FlowSort::Cpu,
            None => FlowSort::Bytes,
        };
        self.flows.keep(usize::MAX, sort);
        Some(Summary {
            text: table(&self.flows, self.measured_ns),
            json: api::summary(&self.flows, self.measured_ns)?,
        })
    }
}

/// The first conversations, with an empty line before.
fn table(flows: &Flows, measured_ns: u64) -> String {
    if flows.packets == 0 {
        return "\nno packet at the interfaces of --flows\n".to_owned();
    }
    let seconds = measured_ns.max(1) as f64 / 1e9;
    let nothing = || "–".to_owned();
    let time = |ns: Option<u64>| ns.map_or_else(nothing, |ns| cpus(ns as f64 / 1e9 / seconds));
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "\n{:<ENDS$} {:<ENDS$} {:<10} {:>9} {:>9} {:>8} {:>6} {:>9} {:>6}",
        "conversation of",
        "and",
        "service",
        "Mbit/s",
        "packets/s",
        "rx CPUs",
        "±",
        "send CPUs",
        "±"
    );
    for conversation in flows.conversations.iter().take(LINES) {
        let [one, other] = conversation
            .ends
            .map(|end| end_text((end.address, end.port)));
        let amount = conversation.amount();
        let margins = [
            flows.cpu_margin_ns(conversation),
            flows.sent_margin_ns(conversation),
        ];
        let _ = writeln!(
            text,
            "{one:<ENDS$} {other:<ENDS$} {:<10} {:>9.1} {:>9} {:>8} {:>6} {:>9} {:>6}",
            service(conversation),
            amount.bytes as f64 * 8.0 / 1e6 / seconds,
            count((amount.packets as f64 / seconds).round() as u64),
            time(conversation.cpu_ns),
            time(margins[0]),
            time(conversation.sampled.sent_ns),
            time(margins[1]),
        );
    }
    let more = flows.conversations.len().saturating_sub(LINES);
    if more > 0 {
        let _ = writeln!(
            text,
            "and {} more; --format json has them",
            count(more as u64)
        );
    }
    text
}

fn service(conversation: &Conversation) -> String {
    let service = conversation.service().map(str::to_owned);
    service.unwrap_or_else(|| protocol_text(conversation.protocol))
}

#[cfg(test)]
mod tests {
    use metrics_common::sections::{Amount, FlowEnd, SampledTime};

    use super::*;

    fn conversation(port: u16, cpu_ns: u64) -> Conversation {
        let end = |host, port| FlowEnd {
            address: [192, 0, 2, host].into(),
            port: Some(port),
        };
        Conversation {
            interface: "eth0".to_owned(),
            vlans: Vec::new(),
            protocol: 6,
            ends: [end(1, port), end(2, 443)],
            sent: Amount {
                packets: 1_000,
                bytes: 2_000_000,
            },
            received: Amount::default(),
            sampled_packets: 1_000,
            packets_variance: Some(0),
            cpu_ns: Some(cpu_ns),
            sampled: SampledTime::default(),
        }
    }

    #[test]
    fn the_dearest_conversations_of_a_log_stand_first_with_their_cpus() {
        let mut snapshot = Snapshot {
            interval_ns: 1_000_000_000,
            ..Snapshot::default()
        };
        let all: Vec<Conversation> = (1..=14)
            .map(|port| conversation(port, u64::from(port) * 50_000_000))
            .collect();
        snapshot.sections.flows = Some(Flows {
            conversations: all,
            packets: 14_000,
            rx_softirq_ns: Some(6_000_000_000),
            ..Flows::default()
        });
        let mut sum = summarizer();
        sum.add(&snapshot);
        sum.add(&snapshot);
        let summary = sum.finish(None).unwrap();
        let lines: Vec<&str> = summary.text.lines().collect();
        // The thin space between thousands is white space, too.
        let words = lines[2].split(' ').filter(|word| !word.is_empty());
        let first: Vec<&str> = words.collect();
        let expected = [
            "192.0.2.1:14",
            "192.0.2.2:443",
            "https",
            "16.0",
            "1\u{202f}000",
            "0.700",
            "–",
            "–",
            "–",
        ];
        assert_eq!(first, expected);
        assert_eq!(lines.last(), Some(&"and 9 more; --format json has them"));
        assert!(summary.json.contains("\"rx_softirq_ns\": 12000000000"));
    }

    #[test]
    fn without_the_section_and_of_one_component_there_is_nothing() {
        let mut sum = summarizer();
        sum.add(&Snapshot::default());
        assert!(sum.finish(None).is_none());
        assert!(table(&Flows::default(), 1).contains("no packet"));
    }
}
