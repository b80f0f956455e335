//! The slowest softirqs over the intervals of a log, and as a table on a terminal. Pure, and bounded
//! as a sum is.

use metrics_common::latency::words::time;
use metrics_common::sections::{SLOWEST, SlowSoftirq, Slowest};
use netto_feature::summary::{SectionSummarizer, Summarizer, Summary};
use netto_questions::figures::plain;
use netto_questions::table;

/// Lines of a report that has other things to say, too.
const FIRST: usize = 3;

/// Its member of a report, for the schema.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[allow(dead_code, reason = "only its fields' names and types are of use")]
pub(crate) struct ReportMember {
    /// The slowest softirqs; null if the log does not have them.
    slowest: Option<Slowest>,
}

/// Adds up intervals.
pub(crate) fn summarizer() -> Box<dyn Summarizer> {
    SectionSummarizer::start(
        |sections| sections.slowest.as_ref(),
        false,
        |sum, component| {
            match (component, &sum.section) {
                // It is of whole softirqs.
                (None, slowest) if slowest.measured_ns > 0 => {
                    Summary::of(text(slowest, FIRST), slowest)
                }
                _ => None,
            }
        },
    )
}

/// So many of the slowest softirqs, with an empty line before.
pub(crate) fn text(slowest: &Slowest, most: usize) -> String {
    if slowest.softirqs.is_empty() {
        return format!("\n{}\n", slowest.none());
    }
    let mut first = slowest.clone();
    first.softirqs.truncate(most);
    let table = table::text(&SLOWEST, &first, slowest.measured_ns);
    format!("\nslowest softirqs {}\n{table}", slowest.basis())
}

/// One in words, without its vector and CPU.
pub(crate) fn words(slow: &SlowSoftirq) -> String {
    let [part, payer, cause] = [
        slow.part_label().to_owned(),
        slow.payer.label(),
        slow.cause.label(),
    ]
    .map(|label| plain(&label));
    let took = time(slow.length_ns);
    format!("{took}, {part}, paid by {payer}, caused by {cause}")
}

#[cfg(test)]
pub(crate) mod tests {
    use metrics_common::{Owner, OwnerKind, Snapshot};

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
        assert!(text(&none, FIRST).starts_with("\nno softirq took more than 100 µs, of 40"));
        assert!(summarizer().finish(None).is_none());
    }
}
