//! Programs over the intervals of a log, and as a table on a terminal. Pure, and bounded as a sum of
//! programs is.

use std::fmt::Write as _;

use metrics_common::Snapshot;
use metrics_common::sections::{Columns, Program, Programs, Section};
use netto_feature::summary::{Summarizer, Summary};
use netto_questions::figures::{cpus, percent, plain};
use serde::Serialize;

/// Programs that have a line.
const LINES: usize = 12;
/// Owners of a program that have a line.
const CAUSES: usize = 3;
/// Columns for their names.
const NAMES: usize = 34;

/// Adds up the programs of intervals.
pub(crate) fn summarizer() -> Box<dyn Summarizer> {
    Box::new(Sum::default())
}

#[derive(Debug, Default, Serialize)]
struct Sum {
    /// Length of the intervals that have programs, nanoseconds.
    measured_ns: u64,
    #[serde(flatten)]
    programs: Programs,
}

impl Summarizer for Sum {
    fn add(&mut self, snapshot: &Snapshot) {
        if let Some(programs) = &snapshot.sections.programs {
            self.programs.add(programs, &Columns::folded());
            self.measured_ns = self.measured_ns.saturating_add(snapshot.interval_ns);
        }
    }

    fn finish(self: Box<Self>, component: Option<&str>) -> Option<Summary> {
        // It is of all of networking.
        if self.measured_ns == 0 || component.is_some() {
            return None;
        }
        Some(Summary {
            text: table(&self.programs, self.measured_ns),
            json: serde_json::to_string_pretty(&*self).ok()?,
        })
    }
}

/// The programs with the most time in so many nanoseconds, with an empty line before; beneath each,
/// the owners of the packets that it ran for.
pub(crate) fn table(programs: &Programs, measured_ns: u64) -> String {
    if programs.total_ns() == 0 {
        return "\nno BPF program on the way of packets\n".to_owned();
    }
    let measured_ns = measured_ns.max(1) as f64;
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "\n{:<NAMES$} {:<16} {:>8} {:>8} {:>12}  attached to",
        "BPF program", "type", "CPUs", "±", "ns a packet"
    );
    let mut line = |name: &str, kind: &str, ns: u64, [margin, each]: [&str; 2], places: &str| {
        let time = cpus(ns as f64 / measured_ns);
        let row = format!("{name:<NAMES$} {kind:<16} {time:>8} {margin:>8} {each:>12}  {places}");
        let _ = writeln!(text, "{}", row.trim_end());
    };
    let (shown, rest) = programs
        .programs
        .split_at(programs.programs.len().min(LINES));
    for own in shown.iter().filter(|own| own.total_ns() > 0) {
        let about = &own.about;
        let mut name = plain(&about.label());
        if about.is_own {
            name.push_str(" netto's");
        }
        let margin = own.margin_ratio().map_or("–".to_owned(), percent);
        let each = own
            .ns_per_packet()
            .map_or("–".to_owned(), |ns| format!("{ns:.0}"));
        let places = plain(&about.places());
        line(
            &name,
            &about.kind,
            own.total_ns(),
            [&margin, &each],
            &places,
        );
        let causes = own.causes();
        let (named, rest) = causes.split_at(causes.len().min(CAUSES));
        for cause in named {
            let margin = cause.margin_ratio().map_or("–".to_owned(), percent);
            let name = format!("  for {}", plain(&cause.owner.label()));
            line(&name, "", cause.ns, [&margin, ""], "");
        }
        let rest_ns = rest.iter().map(|cause| cause.ns).sum();
        if rest_ns > 0 {
            line("  for others", "", rest_ns, ["", ""], "");
        }
    }
    let others_ns = rest.iter().map(Program::total_ns);
    let others_ns = others_ns.fold(programs.other_cpu_ns.iter().sum(), u64::saturating_add);
    if others_ns > 0 {
        line("others", "", others_ns, ["", ""], "");
    }
    text
}

#[cfg(test)]
mod tests {
    use metrics_common::sections::{About, Attachment, Causes, Packets};
    use metrics_common::{Owner, OwnerKind};

    use super::*;

    fn snapshot() -> Snapshot {
        let attached = Attachment {
            hook: "xdp".to_owned(),
            target: "eth0\x1b".to_owned(),
        };
        let mut causes = Causes::new(100_000_000);
        causes.add(&Owner::single(OwnerKind::Nobody), 3);
        causes.add(&Owner::single(OwnerKind::Unknown), 1);
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
            "13.9",
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
        assert!(table(&Programs::default(), 1).contains("no BPF program"));
        assert!(summarizer().finish(None).is_none());
        let mut sum = summarizer();
        sum.add(&snapshot());
        assert!(sum.finish(Some("gro")).is_none(), "it is of no component");
    }
}
