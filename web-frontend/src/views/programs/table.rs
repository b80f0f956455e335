//! Programs as markup. Pure.

use std::fmt::Write as _;

use metrics_common::Snapshot;
use metrics_common::sections::Program;

use crate::format::{self, escape_html, percent};

/// Most rows; the rest is summed.
const MOST_ROWS: usize = 12;

/// The programs with the most time, and for each what a packet costs and where it is attached.
pub fn of(snapshot: &Snapshot) -> String {
    let Some(programs) = &snapshot.sections.programs else {
        return String::new();
    };
    if programs.total_ns() == 0 {
        return "<p class=\"basis\">No BPF program was met on the way of packets.</p>".to_owned();
    }
    let mut html = "<table><thead><tr>".to_owned();
    for column in [
        "Program",
        "Type",
        "% of a CPU",
        "± %",
        "ns a packet",
        "Attached to",
    ] {
        let _ = write!(html, "<th scope=\"col\">{column}</th>");
    }
    html.push_str("</tr></thead><tbody>");
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
            about.places(),
        ];
        line(&mut html, &format!("{}{of_netto}", about.label()), &cells);
    }
    let rest = shown.skip(MOST_ROWS).map(Program::total_ns);
    let rest_ns = rest.fold(programs.other_cpu_ns.iter().sum(), u64::saturating_add);
    if rest_ns > 0 {
        let mut cells: [String; 5] = Default::default();
        cells[1] = share(rest_ns);
        line(&mut html, "others", &cells);
    }
    html.push_str("</tbody></table>");
    html
}

fn line(html: &mut String, name: &str, cells: &[String; 5]) {
    let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape_html(name));
    for cell in cells {
        let _ = write!(html, "<td>{}</td>", escape_html(cell));
    }
    html.push_str("</tr>");
}

#[cfg(test)]
mod tests {
    use metrics_common::sections::{About, Attachment, Packets, Programs};

    use super::*;
    use crate::fixture;

    #[test]
    fn programs_stand_with_time_and_places_and_a_hostile_name_is_no_markup() {
        let mut snapshot = fixture::snapshot(1);
        snapshot.sections.programs = None;
        assert_eq!(of(&snapshot), "");
        snapshot.sections.programs = Some(Programs::default());
        assert!(of(&snapshot).contains("No BPF program"));
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
        };
        snapshot.sections.programs = Some(Programs {
            programs: (1..=20).map(|id| program(id, 1_000_000)).collect(),
            other_cpu_ns: vec![0, 5],
            other_samples: 1,
        });
        let html = of(&snapshot);
        assert!(html.contains("&lt;b&gt; (1), netto&#39;s"), "{html}");
        assert!(!html.contains("<b>") && !html.contains("(13)"), "{html}");
        assert!(html.contains("<td>700</td><td>xdp eth0</td>"), "{html}");
        assert!(html.contains(">others<"), "{html}");
    }
}
