//! Programs as markup. Pure.

use metrics_common::Snapshot;
use metrics_common::sections::Program;

use crate::format::{self, percent};
use crate::table;

/// Most rows, and owners in one; the rest is summed.
const MOST_ROWS: usize = 12;
const MOST_OWNERS: usize = 3;

/// The programs with the most time, and for each what a packet costs, whose packets they were, and
/// where it is attached; empty if no packet met any.
pub fn of(snapshot: &Snapshot) -> String {
    let Some(programs) = &snapshot.sections.programs else {
        return String::new();
    };
    if programs.total_ns() == 0 {
        return String::new();
    }
    let mut html = table::begin(&[
        "Program",
        "Type",
        "% of a CPU",
        "± %",
        "ns a packet",
        "Whose packets",
        "Attached to",
    ]);
    let share = |ns: u64| percent(format::ratio(ns, snapshot.interval_ns));
    let shown = programs.programs.iter().filter(|own| own.total_ns() > 0);
    let nothing = || "–".to_owned();
    for own in shown.clone().take(MOST_ROWS) {
        let about = &own.about;
        let of_netto = if about.is_own { ", netto's" } else { "" };
        let each = own.ns_per_packet().map(|ns| ns.round() as u64);
        let cells = [
            about.kind.clone(),
            share(own.total_ns()),
            own.margin_ratio().map_or_else(nothing, percent),
            each.map_or_else(nothing, format::count),
            owners_of(own),
            about.places(),
        ];
        let name = format!("{}{of_netto}", about.label());
        table::row(&mut html, &name, "", &cells);
    }
    let rest = shown.skip(MOST_ROWS).map(Program::total_ns);
    let rest_ns = rest.fold(programs.other_cpu_ns.iter().sum(), u64::saturating_add);
    if rest_ns > 0 {
        let mut cells: [String; 6] = Default::default();
        cells[1] = share(rest_ns);
        table::row(&mut html, "others", "", &cells);
    }
    table::end(&mut html);
    html
}

/// The owners of a program's packets, each with its part of the program's time.
fn owners_of(program: &Program) -> String {
    let causes = program.causes();
    let part = |ns: u64| percent(format::ratio(ns, program.total_ns()));
    let (shown, rest) = causes.split_at(causes.len().min(MOST_OWNERS));
    let mut all: Vec<String> = shown
        .iter()
        .map(|own| match own.margin_ratio() {
            Some(margin) => {
                let margin = percent(margin * format::ratio(own.ns, program.total_ns()));
                format!("{} {} ± {margin} %", own.owner.label(), part(own.ns))
            }
            None => format!("{} {} %", own.owner.label(), part(own.ns)),
        })
        .collect();
    let rest_ns: u64 = rest.iter().map(|own| own.ns).sum();
    if rest_ns > 0 {
        all.push(format!("others {} %", part(rest_ns)));
    }
    match all.is_empty() {
        true => "–".to_owned(),
        false => all.join(", "),
    }
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
