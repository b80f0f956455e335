//! Intruders over the intervals of a log, as text. Pure, and bounded as a sum of them is.

use metrics_common::sections::{INTRUDERS, Intruders};
use netto_feature::summary::{SectionSummarizer, Summarizer, Summary};
use netto_questions::figures::plain;
use netto_questions::table;

/// Its member of a report, for the schema.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[allow(dead_code, reason = "only its fields' names and types are of use")]
pub(crate) struct ReportMember {
    /// Softirqs on CPUs that are meant to be quiet; null if there were none.
    intruders: Option<netto_feature::summary::SectionSum<Intruders>>,
}

/// Adds up the intruders of intervals; where there is no section, nothing intruded.
pub(crate) fn summarizer() -> Box<dyn Summarizer> {
    SectionSummarizer::start(
        |sections| sections.intruders.as_ref(),
        true,
        |sum, component| {
            // It is of all softirqs.
            let is_shown = component.is_none() && !sum.section.intrusions.is_empty();
            let text = || text(&sum.section, sum.measured_ns);
            is_shown.then(|| Summary::of(text(), sum)).flatten()
        },
    )
}

/// The causes on each CPU, with an empty line before.
fn text(intruders: &Intruders, measured_ns: u64) -> String {
    let of_cpu = intruders.by_cpu().map(|(quiet, of_cpu)| {
        let table = table::text(&INTRUDERS, &of_cpu, measured_ns);
        format!("\n{}\n{table}", plain(&quiet.heading()))
    });
    of_cpu.collect()
}

/// Intruders for tests.
#[cfg(test)]
pub(crate) mod testing {
    use metrics_common::component::index_of;
    use metrics_common::sections::{Intrusion, Origin, QuietCpu, QuietKind, Quietness};
    use metrics_common::{Owner, OwnerKind, Snapshot};

    use super::*;

    /// A second in which a group had softirqs on CPU 1.
    pub(crate) fn snapshot() -> Snapshot {
        let group = |path: &str| Owner {
            cgroup: path.to_owned(),
            ..Owner::single(OwnerKind::Cgroup)
        };
        let unknown = Owner::single(OwnerKind::Unknown);
        let intrusion = |event: &str, cause: &Owner, victim: &Owner, ns| Intrusion {
            cpu: 1,
            event: index_of(event).unwrap() as u32,
            cause: cause.clone(),
            victim: victim.clone(),
            ns,
        };
        let noisy = group("/noisy");
        let mut snapshot = Snapshot {
            interval_ns: 1_000_000_000,
            cpus: vec![0, 1],
            ..Snapshot::default()
        };
        snapshot.sections.intruders = Some(Intruders {
            cpus: vec![QuietCpu {
                cpu: 1,
                why: vec![Quietness {
                    kind: QuietKind::NohzFull,
                    cpuset: String::new(),
                }],
                ways: vec!["RPS of eth0\x1b rx-0".to_owned()],
            }],
            intrusions: vec![
                intrusion("rx_softirq", &noisy, &group("/trader"), 200_000_000),
                intrusion("softirq_timer", &unknown, &unknown, 50_000_000),
            ],
            origins: vec![Origin {
                owner: noisy,
                cpu: 0,
                ns: 10,
            }],
        });
        snapshot
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::Snapshot;

    use super::*;

    #[test]
    fn causes_stand_below_the_cpu_with_share_time_events_victims_and_origins() {
        let mut sum = summarizer();
        sum.add(&testing::snapshot());
        sum.add(&Snapshot {
            interval_ns: 1_000_000_000,
            ..Snapshot::default()
        });
        let summary = sum.finish(None).unwrap();
        let lines: Vec<String> = summary
            .text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            lines,
            [
                "",
                "CPU 1 is meant to be quiet (nohz_full); reached by RPS of eth0\u{fffd} rx-0",
                "caused by share CPUs softirqs",
                "/noisy 80.0 % 0.100 RX softirq; interrupted /trader; also on CPU 0",
                "unknown 20.0 % 0.025 TIMER; interrupted unknown",
            ]
        );
        assert!(summary.json.contains("\"measured_ns\": 2000000000"));
        assert!(summary.json.contains("\"event\": \"rx_softirq\""));
    }

    #[test]
    fn where_nothing_intrudes_the_report_says_nothing() {
        let mut sum = summarizer();
        sum.add(&Snapshot::default());
        assert_eq!(sum.finish(None), None);
        let mut sum = summarizer();
        sum.add(&testing::snapshot());
        assert_eq!(sum.finish(Some("gro")), None, "it is of no component");
    }

    #[test]
    fn of_many_causes_the_first_are_named_and_the_others_summed() {
        let mut snapshot = testing::snapshot();
        let intruders = snapshot.sections.intruders.as_mut().unwrap();
        let row = intruders.intrusions[0].clone();
        for number in 0..20 {
            let mut more = row.clone();
            more.cause.cgroup = format!("/other/{number}");
            intruders.intrusions.push(more);
        }
        let text = text(intruders, snapshot.interval_ns);
        assert_eq!(text.lines().count(), 3 + 6 + 1, "{text}");
        assert!(text.lines().last().unwrap().starts_with("others"), "{text}");
    }
}
