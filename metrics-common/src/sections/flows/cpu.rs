//! The CPU time of conversations that samples show, and how exact it is. Pure.

use serde::{Deserialize, Serialize};

use super::{Conversation, Flows, sum_of_known};
use crate::confidence::figure;

/// CPU time of a conversation that samples show, nanoseconds; null where none can.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledTime {
    /// Of the time of the RX softirq; the rest of that is by packets.
    pub received_ns: Option<u64>,
    /// Of the time of tasks' sends.
    pub sent_ns: Option<u64>,
    /// The sums of both × the time for which one independent sample stands on the CPU, nanoseconds ×
    /// milliseconds: CPUs are sampled at different rates.
    #[serde(default)]
    pub ns_ms: [Option<u64>; 2],
}

/// An event's time, of which samples show whose it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// Nanoseconds.
    pub ns: u64,
    /// The sum over intervals of that time times the time for which one independent sample stands,
    /// in nanoseconds times milliseconds, as for owners. Null in what an older netto has written,
    /// and in a sum that contains it.
    #[serde(default)]
    pub sample_ns_ms: Option<u64>,
}

/// What samples show of all conversations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledTimes {
    /// Of the RX softirq.
    pub received: Option<Evidence>,
    /// Of tasks' sends.
    pub sent: Option<Evidence>,
    /// Time of tasks' sends on all CPUs, nanoseconds, in intervals in which samples show flows.
    pub sends_ns: Option<u64>,
}

impl SampledTime {
    pub(super) fn add(&mut self, more: SampledTime) {
        self.received_ns = sum_of_known(self.received_ns, more.received_ns);
        self.sent_ns = sum_of_known(self.sent_ns, more.sent_ns);
        for (sum, more) in self.ns_ms.iter_mut().zip(more.ns_ms) {
            *sum = sum_of_known(*sum, more);
        }
    }
}

impl Evidence {
    fn sum(one: Option<Evidence>, other: Option<Evidence>) -> Option<Evidence> {
        match (one, other) {
            (Some(one), Some(other)) => Some(Evidence {
                ns: one.ns.saturating_add(other.ns),
                sample_ns_ms: (one.sample_ns_ms.zip(other.sample_ns_ms))
                    .map(|(one, other)| one.saturating_add(other)),
            }),
            (one, other) => one.or(other),
        }
    }

    /// How far the further bound of the 95 % interval of a part of it is: of few samples, the upper one.
    fn margin_ns(self, own_ns: u64, own_ns_ms: Option<u64>) -> Option<u64> {
        let whole = figure(self.ns as f64, self.sample_ns_ms?);
        let part = figure(own_ns as f64, own_ns_ms?);
        let (low, high) = part.part_of(&whole);
        Some((high - part.value).max(part.value - low).ceil() as u64)
    }
}

impl SampledTimes {
    pub(super) fn add(&mut self, more: SampledTimes) {
        self.received = Evidence::sum(self.received, more.received);
        self.sent = Evidence::sum(self.sent, more.sent);
        self.sends_ns = sum_of_known(self.sends_ns, more.sends_ns);
    }
}

impl Flows {
    /// The margin (95 %) of what samples show of a conversation's [`Conversation::cpu_ns`].
    pub fn cpu_margin_ns(&self, conversation: &Conversation) -> Option<u64> {
        let sampled = conversation.sampled;
        (self.sampled.received?).margin_ns(sampled.received_ns?, sampled.ns_ms[0])
    }

    /// The same of the time of its sends.
    pub fn sent_margin_ns(&self, conversation: &Conversation) -> Option<u64> {
        let sampled = conversation.sampled;
        (self.sampled.sent?).margin_ns(sampled.sent_ns?, sampled.ns_ms[1])
    }

    /// Time of sends that is of conversations which are not listed, or of no known one.
    pub fn other_sent_ns(&self) -> Option<u64> {
        let listed = self.conversations.iter();
        let listed = listed.filter_map(|conversation| conversation.sampled.sent_ns);
        Some(listed.fold(self.sampled.sends_ns?, u64::saturating_sub))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_margin_is_that_of_a_share_of_so_many_independent_samples() {
        // 100 samples, of which each stands for 1 ms.
        let evidence = Evidence {
            ns: 100_000_000,
            sample_ns_ms: Some(100_000_000),
        };
        let margin_ns = |evidence: Evidence, ns: u64| evidence.margin_ns(ns, Some(ns));
        let margin = |ms: u64| margin_ns(evidence, ms * 1_000_000).unwrap() as f64 / 1e6;
        assert!((margin(50) - 10.0).abs() < 0.5, "{}", margin(50));
        assert!(margin(5) < margin(50) && margin(5) > 3.0, "{}", margin(5));
        // Four times as many: half as wide.
        let more = [evidence; 4].map(Some).into_iter();
        let more = more.reduce(Evidence::sum).flatten().unwrap();
        let ratio = margin_ns(more, 2 * evidence.ns).unwrap() as f64
            / margin_ns(evidence, evidence.ns / 2).unwrap() as f64;
        assert!((ratio - 2.0).abs() < 0.1, "{ratio}");
        assert_eq!(margin_ns(Evidence::default(), 0), None);
        assert_eq!(evidence.margin_ns(1, None), None);
    }
}
