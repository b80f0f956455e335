//! Intruders as markup. Pure.

use metrics_common::Snapshot;
use metrics_common::sections::QuietCpu;

use crate::format::{self, percent};
use crate::table;

/// Most rows of a CPU, and most CPUs.
const MOST_ROWS: usize = 8;
const MOST_CPUS: usize = 16;
/// Most names in a cell.
const NAMED: usize = 3;

/// For each quiet CPU on which softirqs ran, those who caused most of them; empty if there is none.
pub fn of(snapshot: &Snapshot) -> String {
    let Some(intruders) = &snapshot.sections.intruders else {
        return String::new();
    };
    let all = intruders.intruders();
    if all.is_empty() {
        return String::new();
    }
    let mut html = table::begin(&[
        "CPU",
        "Caused by",
        "% of the CPU",
        "% of its softirqs",
        "Softirqs",
        "Interrupted",
        "Also on",
    ]);
    for quiet in intruders.cpus.iter().take(MOST_CPUS) {
        let causes = all.iter().filter(|own| own.cpu == quiet.cpu);
        for own in causes.take(MOST_ROWS) {
            let events = own.events.iter().map(|(name, _)| (*name).to_owned());
            let victims = own.victims.iter().map(|(name, _)| name.clone());
            let origins = own.origins.iter().map(|(cpu, _)| format!("CPU {cpu}"));
            let cells = [
                own.cause.clone(),
                percent(format::ratio(own.ns, snapshot.interval_ns)),
                percent(own.ratio),
                first(events.collect()),
                first(victims.collect()),
                first(origins.collect()),
            ];
            line(&mut html, quiet, &cells);
        }
    }
    table::end(&mut html);
    html
}

fn first(mut names: Vec<String>) -> String {
    if names.len() > NAMED {
        names.truncate(NAMED);
        names.push("…".to_owned());
    }
    names.join(", ")
}

fn line(html: &mut String, quiet: &QuietCpu, cells: &[String; 6]) {
    let ways = match quiet.ways.is_empty() {
        true => String::new(),
        false => format!("; reached by {}", quiet.ways.join(", ")),
    };
    let about = format!("quiet by {}{ways}", quiet.reasons());
    let name = format!("{} ({})", quiet.cpu, quiet.reasons());
    table::row(html, &name, &about, cells);
}

#[cfg(test)]
mod tests {
    use metrics_common::component::index_of;
    use metrics_common::sections::{Intruders, Intrusion, Origin, QuietKind, Quietness};
    use metrics_common::{Owner, OwnerKind};

    use super::*;
    use crate::fixture;

    #[test]
    fn causes_stand_with_their_cpu_and_a_hostile_name_is_no_markup() {
        let mut snapshot = fixture::snapshot(1);
        snapshot.sections.intruders = None;
        assert_eq!(of(&snapshot), "");
        let group = |number: usize| Owner {
            cgroup: format!("/<b>{number}"),
            ..Owner::single(OwnerKind::Cgroup)
        };
        let intrusion = |number: usize| Intrusion {
            cpu: 3,
            event: index_of("rx_softirq").unwrap() as u32,
            cause: group(number),
            victim: Owner::single(OwnerKind::Unknown),
            ns: 1_000_000 * (100 - number as u64),
        };
        snapshot.sections.intruders = Some(Intruders {
            cpus: vec![QuietCpu {
                cpu: 3,
                why: vec![Quietness {
                    kind: QuietKind::Cpuset,
                    cpuset: "/\"a".to_owned(),
                }],
                ways: vec!["RPS of eth0 rx-0".to_owned()],
            }],
            intrusions: (0..20).map(intrusion).collect(),
            origins: vec![Origin {
                owner: group(0),
                cpu: 1,
                ns: 1,
            }],
        });
        let html = of(&snapshot);
        assert!(!html.contains("<b>"), "{html}");
        assert!(html.contains("<td>/&lt;b&gt;0</td>"), "{html}");
        assert!(
            html.contains("quiet by cpuset /&quot;a; reached by RPS of eth0 rx-0"),
            "{html}"
        );
        assert!(
            html.contains("<td>RX softirq</td><td>unknown</td><td>CPU 1</td>"),
            "{html}"
        );
        assert_eq!(html.matches("<tr>").count(), 1 + MOST_ROWS);
    }
}
