//! Programs as a table for people.

use super::{Cause, Program, Programs};
use crate::snapshot::ratio;
use crate::text::percent_tenths;
use crate::view::{Cell, View};

/// Programs that have a line, and owners of each; the rest is summed.
const MOST_LINES: usize = 12;
const MOST_OWNERS: usize = 3;

/// The programs with the most time, each with the owners of the packets that it ran for: beside it on
/// the page, below it on a terminal.
pub const PROGRAMS: View<Programs> = table! {
    View of (programs, is_page): for (name, ns, margin, program) in lines(programs, is_page) =>
    text     "", "BPF program" -34, "Program"       = name;
    text     "", "type" -16,        "Type"          = program.map_or("", |program| &program.about.kind);
    cpu_time "", "CPUs" 8,          "CPU time"      = ns;
    ratio    "", "±" 8,             "± %"           = margin;
    number   "", "ns a packet" 12,  "ns a packet"   = program.map_or(BLANK, |program| known(program.ns_per_packet()));
    text     "", "" 0,              "Whose packets" = program.map_or(String::new(), owners_of);
    text     "", "attached to" 0,   "Attached to"   = program.map_or(String::new(), |program| program.about.places());
};

const BLANK: Cell<'static> = Cell::Text("");

fn known(number: Option<f64>) -> Cell<'static> {
    number.map_or(Cell::Absent, Cell::Number)
}

/// Name, time, its margin, and the program, unless the line is of an owner or of the rest.
type Line<'a> = (String, u64, Cell<'static>, Option<&'a Program>);

fn lines(programs: &Programs, is_page: bool) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    let mut rest_ns = super::total(&programs.other_cpu_ns);
    // On the page netto's own are one line: they are its cost, which has a place of its own there.
    let members = programs.programs.iter();
    let members = members.filter(|program| program.about.is_own && program.total_ns() > 0);
    let own_ns: Vec<u64> = members.map(Program::total_ns).collect();
    let are_one_line = is_page && own_ns.len() > 1;
    for (rank, program) in programs.programs.iter().enumerate() {
        let (ns, about) = (program.total_ns(), &program.about);
        let is_in_sum = are_one_line && about.is_own;
        if !is_in_sum && (rank >= MOST_LINES || ns == 0) {
            rest_ns = rest_ns.saturating_add(ns);
            continue;
        }
        if is_in_sum {
            continue;
        }
        let name = about.label() + if about.is_own { ", netto's" } else { "" };
        lines.push((name, ns, known(program.margin_ratio()), Some(program)));
        let (causes, others_ns) = largest(program);
        for cause in causes.iter().filter(|_| !is_page) {
            let name = format!("  for {}", cause.owner.label());
            lines.push((name, cause.ns, known(cause.margin_ratio()), None));
        }
        if others_ns > 0 && !is_page {
            lines.push(("  for others".to_owned(), others_ns, BLANK, None));
        }
    }
    if are_one_line {
        let name = format!("netto's own, {} programs", own_ns.len());
        lines.push((name, own_ns.iter().sum(), BLANK, None));
    }
    if rest_ns > 0 {
        lines.push(("others".to_owned(), rest_ns, BLANK, None));
    }
    lines
}

/// The owners with the most time of a program, and the time of the others.
fn largest(program: &Program) -> (Vec<Cause<'_>>, u64) {
    let mut causes = program.causes();
    let rest = causes.split_off(causes.len().min(MOST_OWNERS));
    (causes, rest.iter().map(|cause| cause.ns).sum())
}

/// The owners of a program's packets, each with its part of the program's time.
fn owners_of(program: &Program) -> String {
    let (causes, others_ns) = largest(program);
    let part = |ns: u64| ratio(ns, program.total_ns());
    let words = |cause: &Cause<'_>| {
        let (label, part) = (cause.owner.label(), part(cause.ns));
        let margin = cause.margin_ratio();
        let margin = margin.map(|margin| format!("± {} ", percent_tenths(margin * part)));
        format!(
            "{label} {} {}%",
            percent_tenths(part),
            margin.unwrap_or_default()
        )
    };
    let mut all: Vec<String> = causes.iter().map(words).collect();
    if others_ns > 0 {
        all.push(format!("others {} %", percent_tenths(part(others_ns))));
    }
    if all.is_empty() {
        "–".to_owned()
    } else {
        all.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{About, Causes};
    use super::*;
    use crate::{Owner, OwnerKind};

    #[test]
    fn nettos_own_are_one_line_of_the_page_and_a_line_each_on_a_terminal() {
        let program = |id: u32, ns: u64| Program {
            about: About {
                id,
                name: format!("p{id}"),
                is_own: id < 3,
                ..About::default()
            },
            cpu_ns: vec![ns],
            ..Program::default()
        };
        let all = Programs {
            programs: vec![program(1, 30), program(2, 20), program(3, 10)],
            ..Programs::default()
        };
        let names = |is_page| {
            lines(&all, is_page)
                .into_iter()
                .map(|line| (line.0, line.1))
        };
        let page: Vec<_> = names(true).collect();
        assert_eq!(page.len(), 2, "{page:?}");
        assert_eq!(page[1], ("netto's own, 2 programs".to_owned(), 50));
        assert_eq!(names(false).count(), 3);
    }

    #[test]
    fn owners_have_their_part_of_the_programs_time_and_what_is_unknown_is_said() {
        let mut causes = Causes::default();
        for id in 1..=5 {
            let group = Owner {
                id,
                cgroup: format!("/<{id}>"),
                ..Owner::single(OwnerKind::Cgroup)
            };
            causes.add(&group, id * 10, Some(id * 10));
        }
        causes.add(&Owner::single(OwnerKind::Unknown), 50, None);
        let program = Program {
            cpu_ns: vec![100_000_000, 100_000_000],
            causes: Some(causes),
            ..Program::default()
        };
        let text = owners_of(&program);
        assert!(text.starts_with("/<5> 25"), "{text}");
        assert!(text.contains(" ± ") && text.contains("others "), "{text}");
    }
}
