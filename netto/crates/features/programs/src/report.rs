//! Programs over the intervals of a log, and as a table on a terminal. Pure, and bounded as a sum of
//! programs is.

use metrics_common::sections::{PROGRAMS, Programs};
use netto_feature::summary::{SectionSummarizer, Summarizer, Summary};
use netto_questions::table;

/// Its member of a report, for the schema.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[allow(dead_code, reason = "only its fields' names and types are of use")]
pub(crate) struct ReportMember {
    /// CPU time of BPF programs; null if the log does not have it.
    programs: Option<netto_feature::summary::SectionSum<Programs>>,
}

/// Adds up the programs of intervals.
pub(crate) fn summarizer() -> Box<dyn Summarizer> {
    SectionSummarizer::start(
        |sections| sections.programs.as_ref(),
        false,
        |sum, component| {
            match (component, sum.measured_ns) {
                // It is of all of networking.
                (None, 1..) => Summary::of(text(&sum.section, sum.measured_ns), sum),
                _ => None,
            }
        },
    )
}

/// The programs with the most time in so many nanoseconds, with an empty line before.
pub(crate) fn text(programs: &Programs, measured_ns: u64) -> String {
    match programs.total_ns() {
        0 => "\nno BPF program on the way of packets\n".to_owned(),
        _ => format!("\n{}", table::text(&PROGRAMS, programs, measured_ns)),
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::sections::{About, Attachment, Causes, Packets, Program};
    use metrics_common::{Owner, OwnerKind, Snapshot};

    use super::*;

    fn snapshot() -> Snapshot {
        let attached = Attachment {
            hook: "xdp".to_owned(),
            target: "eth0\x1b".to_owned(),
        };
        let mut causes = Causes::default();
        causes.add(&Owner::single(OwnerKind::Nobody), 3, Some(3));
        causes.add(&Owner::single(OwnerKind::Unknown), 1, None);
        let mut snapshot = Snapshot {
            interval_ns: 1_000_000_000,
            cpus: vec![0, 1],
            ..Snapshot::default()
        };
        snapshot.sections.programs = Some(Programs {
            programs: vec![Program {
                about: About {
                    id: 7,
                    name: "filter".to_owned(),
                    kind: "xdp".to_owned(),
                    attached: vec![attached],
                    samples: 100,
                    packets: Some(Packets {
                        count: 1_000_000,
                        cpu_ns: 100_000_000,
                        are_runs: false,
                    }),
                    ..About::default()
                },
                cpu_ns: vec![40_000_000, 60_000_000],
                variance_ns_ms: Some(100_000_000),
                causes: Some(causes),
            }],
            other_cpu_ns: vec![0, 1_000_000],
            other_samples: 1,
        });
        snapshot
    }

    #[test]
    fn programs_stand_with_their_time_and_what_a_packet_costs() {
        let mut sum = summarizer();
        sum.add(&snapshot());
        sum.add(&snapshot());
        sum.add(&Snapshot::default());
        let summary = sum.finish(None).unwrap();
        let lines: Vec<Vec<&str>> = summary
            .text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        let expected = [
            "filter",
            "(7)",
            "xdp",
            "0.100",
            "14.1",
            "%",
            "100",
            "xdp",
            "eth0\u{fffd}",
        ];
        assert_eq!(lines[2], expected);
        assert_eq!(lines[3][..4], ["for", "no", "owner", "0.075"]);
        assert_eq!(lines[4], ["for", "unknown", "0.025", "–"]);
        assert_eq!(lines[5], ["others", "0.001"]);
        assert!(summary.json.contains("\"measured_ns\": 2000000000"));
        assert!(summary.json.contains("\"name\": \"filter\""));
    }

    #[test]
    fn without_a_program_there_is_a_sentence_and_without_the_section_nothing() {
        assert!(text(&Programs::default(), 1).contains("no BPF program"));
        assert!(summarizer().finish(None).is_none());
        let mut sum = summarizer();
        sum.add(&snapshot());
        assert!(sum.finish(Some("gro")).is_none(), "it is of no component");
    }
}
