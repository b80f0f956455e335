//! What networking costs for its work, over the intervals of a log. Pure, and bounded as a sum of
//! intervals is.

use metrics_common::Snapshot;
use metrics_common::sections::Columns;
use netto_feature::summary::{Summarizer, Summary};
use netto_judges::Efficiency;
use netto_questions::figures::count;
use serde::Serialize;

/// Its member of a report, for the schema.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[allow(dead_code, reason = "only its fields' names and types are of use")]
pub(crate) struct ReportMember {
    /// What networking costs for its work; null if the log has no work, and in a report of one
    /// component.
    cost: Option<CostSummary>,
}

/// What networking costs for its work.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct CostSummary {
    /// Length of the intervals whose work was counted, nanoseconds.
    measured_ns: u64,
    /// Of all CPUs together. A figure is absent where the work is not known, or there was none.
    efficiency: Efficiency,
}

/// Adds up intervals.
pub(crate) fn summarizer() -> Box<dyn Summarizer> {
    Box::new(Sum::default())
}

/// The intervals that have both cost and work, all CPUs in one column.
#[derive(Default)]
struct Sum(Snapshot);

impl Summarizer for Sum {
    fn add(&mut self, snapshot: &Snapshot) {
        if snapshot.sections.cost.is_none() || snapshot.sections.traffic.is_none() {
            return;
        }
        let sum = &mut self.0;
        sum.cpus = vec![0];
        sum.interval_ns = sum.interval_ns.saturating_add(snapshot.interval_ns);
        for section in ["cost", "traffic"] {
            let later = &snapshot.sections;
            sum.sections.add_one(section, later, &Columns::folded());
        }
    }

    fn finish(self: Box<Self>, component: Option<&str>) -> Option<Summary> {
        let efficiency = Efficiency::of(&self.0);
        let is_known = self.0.interval_ns > 0 && efficiency != Efficiency::default();
        // It is of all of networking.
        if component.is_some() || !is_known {
            return None;
        }
        let summary = CostSummary {
            measured_ns: self.0.interval_ns,
            efficiency,
        };
        Summary::of(text(&summary.efficiency), &summary)
    }
}

/// A line for each kind of work, below those of the summary.
fn text(efficiency: &Efficiency) -> String {
    // No sample met what would be 0.
    let ns = |value: Option<f64>, what: &str| {
        let value = value.filter(|value| *value >= 0.5);
        value.map(|value| format!("{} ns {what}", count(value.round() as u64)))
    };
    let seconds =
        |value: Option<f64>, what: &str| value.map(|value| format!("{value:.3} s of CPU {what}"));
    let polls = efficiency.packets_per_poll;
    let polls = polls.map(|packets| format!("{packets:.1} packets for each poll"));
    let lines = [
        (
            "Per packet",
            vec![ns(efficiency.rx_ns_per_packet, "of the RX softirq"), polls],
        ),
        (
            "Per message",
            vec![
                ns(efficiency.ns_per_send, "to send"),
                ns(efficiency.ns_per_receive, "to receive"),
            ],
        ),
        (
            "Per gigabit",
            vec![
                seconds(efficiency.cpu_seconds_per_gigabit, "over the wire"),
                seconds(efficiency.cpu_seconds_per_socket_gigabit, "of sockets"),
            ],
        ),
    ];
    let lines = lines.into_iter().filter_map(|(name, figures)| {
        let figures: Vec<String> = figures.into_iter().flatten().collect();
        (!figures.is_empty()).then(|| format!("{name:18}{}\n", figures.join(" · ")))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use metrics_common::component::index_of;
    use metrics_common::sections::{Cost, Sections, Traffic};
    use metrics_common::{COMPONENTS, Snapshot};

    use super::*;

    /// A second in which the RX softirqs of two CPUs take 3 ms for 2,000 packets.
    fn snapshot() -> Snapshot {
        let mut components = vec![None; COMPONENTS.len()];
        components[index_of("rx_softirq").unwrap()] = Some(vec![2_000_000, 1_000_000]);
        let mut entries = vec![None; COMPONENTS.len()];
        components[index_of("tx_syscall").unwrap()] = Some(vec![500_000, 500_000]);
        entries[index_of("tx_syscall").unwrap()] = Some(vec![300, 100]);
        Snapshot {
            interval_ns: 1_000_000_000,
            cpus: vec![0, 1],
            sections: Sections {
                cost: Some(Cost {
                    components,
                    entries,
                    ..Cost::default()
                }),
                traffic: Some(Traffic {
                    softnet: vec![Some(vec![500, 1_500])],
                    ..Traffic::default()
                }),
                ..Sections::default()
            },
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_report_says_what_a_packet_and_a_message_cost() {
        let mut sum = summarizer();
        sum.add(&snapshot());
        sum.add(&snapshot());
        // Its packets are not known, so its time does not count.
        let mut uncounted = snapshot();
        uncounted.sections.traffic = None;
        sum.add(&uncounted);
        let summary = sum.finish(None).unwrap();
        let lines: Vec<&str> = summary.text.lines().collect();
        assert_eq!(
            lines,
            [
                "Per packet        1\u{202f}500 ns of the RX softirq",
                "Per message       2\u{202f}500 ns to send"
            ]
        );
        assert!(summary.json.contains("\"rx_ns_per_packet\": 1500.0"));
        assert!(summary.json.contains("\"measured_ns\": 2000000000"));
    }

    #[test]
    fn without_work_or_of_one_component_there_is_nothing_to_say() {
        assert_eq!(summarizer().finish(None), None);
        let mut sum = summarizer();
        sum.add(&snapshot());
        assert_eq!(sum.finish(Some("gro")), None);
    }
}
