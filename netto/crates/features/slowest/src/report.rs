//! The slowest softirqs over the intervals of a log, and as a table on a terminal. Pure, and bounded
//! as a sum is.

use std::fmt::Write as _;

use metrics_common::Snapshot;
use metrics_common::latency::words::time;
use metrics_common::sections::{Columns, Section, SlowSoftirq, Slowest};
use netto_feature::summary::{Summarizer, Summary};
use netto_questions::figures::plain;
use netto_questions::utc::rfc3339;

/// Lines of a report that has other things to say, too.
const FIRST: usize = 3;

/// Adds up intervals.
pub(crate) fn summarizer() -> Box<dyn Summarizer> {
    Box::new(Sum::default())
}

#[derive(Debug, Default)]
struct Sum(Slowest);

impl Summarizer for Sum {
    fn add(&mut self, snapshot: &Snapshot) {
        if let Some(slowest) = &snapshot.sections.slowest {
            self.0.add(slowest, &Columns::folded());
        }
    }

    fn finish(self: Box<Self>, component: Option<&str>) -> Option<Summary> {
        // It is of whole softirqs.
        if self.0.measured_ns == 0 || component.is_some() {
            return None;
        }
        Some(Summary {
            text: table(&self.0, FIRST),
            json: serde_json::to_string_pretty(&self.0).ok()?,
        })
    }
}

/// So many of the slowest softirqs, with an empty line before.
pub(crate) fn table(slowest: &Slowest, most: usize) -> String {
    if slowest.softirqs.is_empty() {
        return format!("\n{}\n", slowest.none());
    }
    let mut text = format!("\nslowest softirqs {}\n", slowest.basis());
    let mut line = |cells: [&str; 7]| {
        let [began, cpu, softirq, took, part, payer, cause] = cells;
        let row =
            format!("{began:<20} {cpu:>4} {softirq:<8} {took:>7}  {part:<26} {payer:<24} {cause}");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", row.trim_end());
    };
    line([
        "began",
        "CPU",
        "softirq",
        "took",
        "part",
        "paid by",
        "caused by",
    ]);
    for own in slowest.softirqs.iter().take(most) {
        line([
            &rfc3339(own.began_unix_ns),
            &own.cpu.to_string(),
            &plain(&own.softirq),
            &time(own.length_ns),
            &plain(own.part_label()),
            &plain(&own.payer.label()),
            &plain(&own.cause.label()),
        ]);
    }
    text
}

/// One in words, without its vector and CPU.
pub(crate) fn words(own: &SlowSoftirq) -> String {
    let [part, payer, cause] = [
        own.part_label().to_owned(),
        own.payer.label(),
        own.cause.label(),
    ]
    .map(|own| plain(&own));
    let took = time(own.length_ns);
    format!("{took}, {part}, paid by {payer}, caused by {cause}")
}

#[cfg(test)]
pub(crate) mod tests {
    use metrics_common::{Owner, OwnerKind};

    use super::*;

    /// One of 40.
    pub(crate) fn slowest() -> Slowest {
        Slowest {
            softirqs: vec![SlowSoftirq {
                began_unix_ns: 1_800_000_000_500_000_000,
                length_ns: 1_234_567,
                cpu: 3,
                softirq: "NET_RX".to_owned(),
                part: Some("gro".to_owned()),
                samples: 1,
                cause: Owner {
                    cgroup: "/bad\x1b".to_owned(),
                    ..Owner::single(OwnerKind::Cgroup)
                },
                payer: Owner::single(OwnerKind::Idle),
            }],
            timed: 40,
            timed_ns: 500_000_000,
            measured_ns: 500_000_000,
        }
    }

    #[test]
    fn a_report_has_the_slowest_and_of_how_many_they_are() {
        let mut sum = summarizer();
        let mut snapshot = Snapshot::default();
        sum.add(&snapshot);
        snapshot.sections.slowest = Some(slowest());
        sum.add(&snapshot);
        snapshot.sections.slowest = Some(Slowest {
            softirqs: Vec::new(),
            timed_ns: 0,
            ..slowest()
        });
        sum.add(&snapshot);
        let summary = sum.finish(None).unwrap();
        let lines: Vec<&str> = summary.text.lines().collect();
        assert_eq!(
            lines[1],
            "slowest softirqs of 80 that were timed in 0.5 s of 1.0 s; in the rest they were sampled"
        );
        let words: Vec<&str> = lines[3].split_whitespace().collect();
        assert_eq!(
            words[..5],
            ["2027-01-15T08:00:00Z", "3", "NET_RX", "1.2", "ms"]
        );
        assert_eq!(words[5..], ["GRO", "idle", "CPUs", "/bad\u{fffd}"]);
        assert!(summary.json.contains("\"length_ns\": 1234567"));
    }

    #[test]
    fn without_a_slow_one_there_is_a_sentence_and_without_the_section_nothing() {
        let none = Slowest {
            softirqs: Vec::new(),
            ..slowest()
        };
        assert!(table(&none, FIRST).starts_with("\nno softirq took more than 100 µs, of 40"));
        assert!(summarizer().finish(None).is_none());
    }
}
