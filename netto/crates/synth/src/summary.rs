//! What came of it: for people, and as JSON for programs.

use std::fmt;

use metrics_common::text::count;
use serde::Serialize;

use crate::lateness::Lateness;

/// A packet that is later is counted as late.
pub const LATE_NS: u64 = 100_000;

/// The report.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Whether all packets of all records were made.
    pub is_whole: bool,
    /// Passes over the records that were begun and ended.
    pub passes: u64,
    /// Records that were understood.
    pub records: u64,
    /// Records that were not understood.
    pub not_understood: u64,
    /// Records that were understood, of which no packets can be made.
    pub refused: u64,
    /// Packets that netto's log counts and lists in no conversation.
    pub not_listed_packets: u64,
    /// Records that came too late in the file, and were moved to a later start.
    pub moved: u64,
    /// The most flows that were under way at once.
    pub most_flows_at_once: usize,
    /// Packets sent or written.
    pub packets: u64,
    /// Their bytes, IP headers included, as in the records.
    pub bytes: u64,
    /// Their bytes with Ethernet's headers.
    pub frame_bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// How packets were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_by: Option<&'static str>,
    /// How late they were; absent if nothing was waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness: Option<LatenessSummary>,
}

/// How late packets left, each from when it was due to when the kernel had taken it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LatenessSummary {
    /// Packets more than 100 µs late.
    pub late_packets: u64,
    /// Half of the packets were not later.
    pub p50_ns: u64,
    /// 99 of 100 packets were not later.
    pub p99_ns: u64,
    /// No packet was later.
    pub max_ns: u64,
}

impl LatenessSummary {
    /// Of these packets; none if there are none.
    pub fn of(lateness: &Lateness) -> Option<Self> {
        Some(LatenessSummary {
            late_packets: lateness.late(),
            p50_ns: lateness.quantile_ns(500)?,
            p99_ns: lateness.quantile_ns(990)?,
            max_ns: lateness.max_ns(),
        })
    }
}

impl Summary {
    /// Packets in each second.
    pub fn packets_per_second(&self) -> f64 {
        self.packets as f64 / self.seconds.max(1e-9)
    }
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, value: String| writeln!(f, "{name:<14} {value}");
        line("records", count(self.records))?;
        for (name, records) in [
            ("not understood", self.not_understood),
            ("refused", self.refused),
            ("not listed", self.not_listed_packets),
            ("moved", self.moved),
        ] {
            if records > 0 {
                line(name, count(records))?;
            }
        }
        line(
            "flows at once",
            format!("{} at most", count(self.most_flows_at_once as u64)),
        )?;
        line("packets", count(self.packets))?;
        let [bytes, frame_bytes] = [self.bytes, self.frame_bytes].map(count);
        let frames = format!("{bytes} ({frame_bytes} with Ethernet)");
        line("bytes", frames)?;
        let rate = count(self.packets_per_second().round() as u64);
        let bits = self.frame_bytes as f64 * 8.0 / self.seconds.max(1e-9) / 1e6;
        let by = self
            .sent_by
            .map_or(String::new(), |way| format!(", by {way}"));
        let seconds = self.seconds;
        line(
            "time",
            format!("{seconds:.3} s, {rate} packets/s, {bits:.1} Mbit/s{by}"),
        )?;
        if let Some(lateness) = &self.lateness {
            let LatenessSummary {
                late_packets,
                p50_ns,
                p99_ns,
                max_ns,
            } = *lateness;
            let text = format!(
                "{} packets by more than {:.0} µs; half up to {:.1} µs, 99 % up to {:.1} µs, all up to {:.1} µs",
                count(late_packets),
                us(LATE_NS),
                us(p50_ns),
                us(p99_ns),
                us(max_ns)
            );
            line("late", text)?;
        }
        if !self.is_whole {
            line("ended", "before the last packet".to_owned())?;
        }
        Ok(())
    }
}
