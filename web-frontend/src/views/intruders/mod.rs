//! Softirqs on CPUs that are meant to be quiet.

use metrics_common::Snapshot;
use metrics_common::sections::INTRUDERS;

use crate::basis::Basis;
use crate::table;

/// For each quiet CPU on which softirqs ran, those who caused most of them, in shares of that CPU; empty if
/// there is none.
pub fn of(snapshot: &Snapshot, _: Basis) -> String {
    let section = snapshot.sections.intruders.as_ref();
    section.map_or(String::new(), |section| {
        table::of(&INTRUDERS, section, snapshot.interval_ns, 0.0)
    })
}

#[cfg(test)]
mod tests {
    use metrics_common::component::index_of;
    use metrics_common::sections::{Intruders, Intrusion, Origin, QuietCpu, QuietKind, Quietness};
    use metrics_common::{Owner, OwnerKind};

    use super::*;
    use crate::fixture;

    #[test]
    fn causes_stand_with_their_cpu_and_a_hostile_name_is_no_markup() {
        let mut snapshot = fixture::snapshot(1);
        snapshot.sections.intruders = None;
        assert_eq!(of(&snapshot, Basis::Host), "");
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
        let html = of(&snapshot, Basis::Host);
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
        assert_eq!(html.matches("<tr>").count(), 1 + 8);
    }
}
