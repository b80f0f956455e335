//! CPU time of BPF programs on the way of packets.

use metrics_common::Snapshot;
use metrics_common::sections::PROGRAMS;

use crate::basis::Basis;
use crate::table;

/// The programs with the most time, and for each what a packet costs, whose packets they were, and
/// where it is attached; empty if no packet met any.
pub fn of(snapshot: &Snapshot, basis: Basis) -> String {
    let section = snapshot.sections.programs.as_ref();
    section.map_or(String::new(), |section| {
        table::of_host(&PROGRAMS, section, snapshot, basis)
    })
}

#[cfg(test)]
mod tests {
    use metrics_common::sections::{About, Attachment, Packets, Program, Programs};

    use super::*;
    use crate::fixture;

    #[test]
    fn programs_stand_with_time_and_places_and_a_hostile_name_is_no_markup() {
        let mut snapshot = fixture::snapshot(1);
        snapshot.sections.programs = None;
        assert_eq!(of(&snapshot, Basis::Host), "");
        snapshot.sections.programs = Some(Programs::default());
        assert_eq!(of(&snapshot, Basis::Host), "", "no packet met one");
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
        let html = of(&snapshot, Basis::Host);
        assert!(html.contains("&lt;b&gt; (1), netto&#39;s"), "{html}");
        assert!(!html.contains("<b>") && !html.contains("(13)"), "{html}");
        assert!(
            html.contains("<td>700</td><td>–</td><td>xdp eth0</td>"),
            "{html}"
        );
        assert!(html.contains(">others<"), "{html}");
        // A millisecond in half a second of two CPUs.
        for (basis, heading, value) in [
            (Basis::Host, "% of host", "0.10"),
            (Basis::Cpus, "CPUs", "0.002"),
        ] {
            let html = of(&snapshot, basis);
            let heading = format!("<th scope=\"col\">{heading}</th>");
            assert!(html.contains(&heading), "{heading} in {html}");
            let cells = format!("<td>xdp</td><td>{value}</td>");
            assert!(html.contains(&cells), "{cells} in {html}");
        }
    }
}
