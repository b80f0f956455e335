//! Programs as markup. Pure.

use metrics_common::Snapshot;
use metrics_common::sections::PROGRAMS;

use crate::table;

/// The programs with the most time, and for each what a packet costs, whose packets they were, and
/// where it is attached; empty if no packet met any.
pub fn of(snapshot: &Snapshot) -> String {
    let section = snapshot.sections.programs.as_ref();
    section.map_or(String::new(), |section| {
        table::of(&PROGRAMS, section, snapshot.interval_ns, 0.0)
    })
}

#[cfg(test)]
mod tests {
    use metrics_common::sections::{About, Attachment, Causes, Packets, Programs};
    use metrics_common::{Owner, OwnerKind};

    use super::*;
    use crate::fixture;

    #[test]
    fn programs_stand_with_time_and_places_and_a_hostile_name_is_no_markup() {
        let mut snapshot = fixture::snapshot(1);
        snapshot.sections.programs = None;
        assert_eq!(of(&snapshot), "");
        snapshot.sections.programs = Some(Programs::default());
        assert_eq!(of(&snapshot), "", "no packet met one");
        let program = |id: u32, ns: u64| Program {
            about: About {
                id,
                name: "<b>".to_owned(),
                kind: "xdp".to_owned(),
                is_own: id == 1,
                attached: vec![Attachment {
                    hook: "xdp".to_owned(),
                    target: "eth0".to_owned(),
                }],
                samples: 100,
                packets: Some(Packets {
                    count: 10,
                    cpu_ns: 7_000,
                    are_runs: false,
                }),
                ..About::default()
            },
            cpu_ns: vec![ns, 0],
            variance_ns_ms: None,
            causes: None,
        };
        snapshot.sections.programs = Some(Programs {
            programs: (1..=20).map(|id| program(id, 1_000_000)).collect(),
            other_cpu_ns: vec![0, 5],
            other_samples: 1,
        });
        let html = of(&snapshot);
        assert!(html.contains("&lt;b&gt; (1), netto&#39;s"), "{html}");
        assert!(!html.contains("<b>") && !html.contains("(13)"), "{html}");
        assert!(
            html.contains("<td>700</td><td>–</td><td>xdp eth0</td>"),
            "{html}"
        );
        assert!(html.contains(">others<"), "{html}");
    }

    #[test]
    fn owners_have_their_part_of_the_programs_time_and_what_is_unknown_is_said() {
        let mut causes = Causes::new(100_000_000);
        for id in 1..=5 {
            let group = Owner {
                id,
                cgroup: format!("/<{id}>"),
                ..Owner::single(OwnerKind::Cgroup)
            };
            causes.add(&group, id * 10);
        }
        causes.add(&Owner::single(OwnerKind::Unknown), 50);
        let own = Program {
            cpu_ns: vec![100_000_000, 100_000_000],
            causes: Some(causes),
            ..Program::default()
        };
        let text = owners_of(&own);
        assert!(text.starts_with("/<5> 25"), "{text}");
        assert!(text.contains(" ± ") && text.contains("others "), "{text}");
    }
}
