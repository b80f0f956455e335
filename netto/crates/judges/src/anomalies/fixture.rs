//! A made-up host for the tests of all crates: ordinary minutes, and trouble of one kind when it is
//! asked for.

use super::Detector;
use crate::advice::fixture;
use metrics_common::random::SplitMix64;
use metrics_common::sections::{ProtocolCount, SoftnetCount, WorkCount};
use metrics_common::snapshot::Snapshot;

/// Length of its intervals, nanoseconds.
pub const INTERVAL_NS: u64 = 500_000_000;

/// A host whose load changes.
pub struct Host {
    random: SplitMix64,
    /// The last interval.
    now: Snapshot,
    /// Its load, 0 to 1.
    pub load: f64,
    /// TCP segments sent again, as a part of those that are sent.
    pub retransmits: f64,
    /// Connections by second that find the accept queue full.
    pub overflows: u64,
}

impl Host {
    /// A host without trouble; the seed makes its noise.
    pub fn new(seed: u64) -> Self {
        let now = Snapshot {
            sequence: 0,
            interval_ns: INTERVAL_NS,
            ..fixture::calm()
        };
        Host {
            random: SplitMix64(seed),
            now,
            load: 0.5,
            retransmits: 0.0005,
            overflows: 0,
        }
    }

    /// The next interval.
    pub fn next_interval(&mut self) -> Snapshot {
        let mut around = |value: f64| value * (0.7 + 0.6 * self.random.ratio());
        let packets = around(100_000.0 * self.load);
        let retransmits = around(packets * self.retransmits);
        let cpus = around(packets * 2e-6).min(1.0);
        let half = |by_second: f64| (by_second / 2.0) as u64;
        let now = &mut self.now;
        now.sequence += 1;
        now.time_unix_ns += INTERVAL_NS;
        let sections = &mut now.sections;
        if let Some(traffic) = &mut sections.traffic {
            for (count, by_second) in [
                (ProtocolCount::TcpSegmentsIn, packets),
                (ProtocolCount::TcpSegmentsOut, packets),
                (ProtocolCount::TcpRetransmits, retransmits),
                (ProtocolCount::TcpListenOverflows, self.overflows as f64),
                (ProtocolCount::TcpListenDrops, self.overflows as f64),
            ] {
                traffic.protocols[count as usize] = Some(half(by_second));
            }
            if let Some(row) = &mut traffic.softnet[SoftnetCount::Packets as usize] {
                row[0] = half(packets);
            }
            if let Some(work) = &mut traffic.work {
                work.counts[WorkCount::MessagesReceived as usize] = Some(half(packets));
            }
        }
        let rows = sections
            .cost
            .iter_mut()
            .flat_map(|cost| &mut cost.components);
        rows.flatten().for_each(|row| row.fill(0));
        let mut made = now.clone();
        // `busy` is told of ten seconds.
        let ten = fixture::INTERVAL_NS as f64 / INTERVAL_NS as f64;
        fixture::busy(&mut made, "rx_softirq", 0, cpus / ten);
        made
    }

    /// Lets so many intervals pass; returns how many anomalies have begun in them.
    pub fn pass(&mut self, detector: &mut Detector, intervals: usize) -> u64 {
        let begun = |detector: &Detector| detector.begun().iter().sum::<u64>();
        let before = begun(detector);
        for _ in 0..intervals {
            detector.push(&self.next_interval());
        }
        begun(detector) - before
    }
}
