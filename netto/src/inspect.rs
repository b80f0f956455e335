//! `netto check` and `netto list`: what this host allows, in words.
//!
//! Only wording is owned here; facts come from `kernel`, decisions from `analysis`.

use std::fmt::Write as _;

use metrics_common::{Availability, COMPONENTS, Info};
use netto_judges::advice::advice;

use netto_analysis::found::FoundSymbols;
use netto_analysis::sampler::{Choice, Sampler};
use netto_questions::figures::plain;

/// What will be measured and how, and what not and why.
pub fn check_report(info: &Info, sampling: Option<&Choice>) -> String {
    let mut out = String::new();
    line(
        &mut out,
        &format!(
            "netto {} on {}: Linux {}, up to {} CPUs",
            info.version, info.hostname, info.kernel, info.possible_cpus
        ),
    );
    out.push_str("\nMeasured\n");
    for row in info.tree() {
        let component = &info.components[row.component];
        if let Availability::Available { method } = &component.availability {
            let name = format!("{:indent$}{}", "", component.label, indent = 2 * row.depth);
            line(&mut out, &format!("  {name:30} {method}"));
        }
    }
    if let Availability::Available { method } = &info.power {
        line(&mut out, &format!("  {:30} {method}", "Networking's power"));
    }
    let missing: Vec<(&str, &str)> = info
        .components
        .iter()
        .map(|c| (c.label.as_str(), &c.availability))
        .chain([("Networking's power", &info.power)])
        .filter_map(|(label, availability)| match availability {
            Availability::Unavailable { reason } => Some((label, reason.as_str())),
            Availability::Available { .. } => None,
        })
        .collect();
    if !missing.is_empty() {
        out.push_str("\nNot measured\n");
        for (label, reason) in missing {
            line(&mut out, &format!("  {label:30} {reason}"));
        }
    }
    out.push_str("\nProbes\n");
    for probe in &info.probes {
        let state = match &probe.failure {
            None => "attached".to_owned(),
            Some(failure) => format!("not attached: {failure}"),
        };
        line(
            &mut out,
            &format!("  {:30} {:10} {state}", probe.name, probe.method),
        );
    }
    if let Some(choice) = sampling {
        out.push_str("\nStacks\n");
        line(&mut out, &format!("  {}", sampler_line(choice)));
    }
    out.push_str("\nInstruments\n");
    for instrument in &info.instruments {
        let state = match &instrument.availability {
            Availability::Available { method } => method.to_string(),
            Availability::Unavailable { reason } => format!("not running: {reason}"),
        };
        line(&mut out, &format!("  {:30} {state}", instrument.name));
    }
    if !info.notes.is_empty() {
        out.push_str("\nNotes\n");
        for note in &info.notes {
            line(&mut out, &format!("  {note}"));
        }
    }
    out
}

/// What takes the stacks, how often and why.
pub fn sampler_line(choice: &Choice) -> String {
    let by = match choice.sampler {
        Sampler::Perf => "perf's clock",
        Sampler::Tick => "the scheduler's tick and perf's clock",
    };
    format!(
        "sampled by {by}, {} times a second and CPU at most: {}",
        choice.frequency_hz, choice.reason
    )
}

/// Components with their functions in this kernel: all, those that only a pattern fits
/// as their number; or the `wanted` ones (indexes in the table) with all functions.
/// `symbols` is the reason if they cannot be read.
pub fn component_list(symbols: Result<&FoundSymbols, &str>, wanted: &[usize]) -> String {
    let mut out = String::new();
    for (index, row) in COMPONENTS.iter().enumerate() {
        if !wanted.is_empty() && !wanted.contains(&index) {
            continue;
        }
        let parent = row
            .parent
            .map(|parent| format!(", part of {parent}"))
            .unwrap_or_default();
        let kind = row.kind.name();
        line(&mut out, &format!("{} ({kind}{parent})", row.slug));
        line(&mut out, &format!("    {}", row.help));
        // Of all components that would be more than anybody reads.
        if let Some(advice) = advice(row.slug).filter(|_| !wanted.is_empty()) {
            for sentence in advice.split_inclusive(". ") {
                line(&mut out, &format!("    {sentence}"));
            }
        }
        if let Ok(found) = symbols {
            for text in functions_of(found, index, !wanted.is_empty()) {
                line(&mut out, &format!("    symbols: {text}"));
            }
        }
    }
    if let Err(reason) = symbols {
        out.push('\n');
        line(&mut out, &format!("Symbols are not shown: {reason}"));
    }
    out
}

/// Which functions make a component, line by line.
fn functions_of(found: &FoundSymbols, component: usize, in_full: bool) -> Vec<String> {
    let rules = COMPONENTS[component].kind.rules();
    let mut lines: Vec<String> = rules
        .iter()
        .filter(|rule| rule.frame == "*")
        .map(|rule| format!("whatever is called by {}", rule.under.join(", ")))
        .collect();
    if in_full {
        lines.extend(found.of(component).iter().cloned());
    } else {
        let (named, patterns) = found.by_rule(component);
        if !named.is_empty() {
            lines.push(named.join(" "));
        }
        let patterns = patterns
            .iter()
            .map(|(pattern, count)| format!("{pattern} ({count})"));
        let patterns: Vec<String> = patterns.collect();
        if !patterns.is_empty() {
            lines.push(format!("and those like {}", patterns.join(", ")));
        }
    }
    if lines.is_empty() && !rules.is_empty() {
        lines.push("none in this kernel".to_owned());
    }
    lines
}

/// Names and reasons may be others' words: a line of the report stays one.
fn line(out: &mut String, text: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{}", plain(text.trim_end()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics_common::component::index_of;
    use metrics_common::{ComponentInfo, InstrumentInfo, fixture};

    fn info() -> Info {
        Info {
            kernel: "6.1.0".into(),
            components: ComponentInfo::table(|index| match COMPONENTS[index].slug {
                "bridging" => Availability::missing("no bridge here"),
                _ => Availability::by("sampling"),
            }),
            probes: vec![fixture::probe("inet_sendmsg", "fentry", Some("EPERM"))],
            instruments: vec![InstrumentInfo {
                name: "tides".into(),
                availability: Availability::missing("no moon"),
            }],
            notes: vec!["Mind the gap.".into()],
            ..fixture::info()
        }
    }

    #[test]
    fn a_check_names_what_is_measured_what_is_not_and_why() {
        let ticks = Choice {
            sampler: Sampler::Tick,
            frequency_hz: 1000,
            ticks_hz: 250,
            reason: "timers are dear".into(),
        };
        let report = check_report(&info(), Some(&ticks));
        for expected in [
            "Linux 6.1.0",
            "    GRO",
            "no bridge here",
            "no RAPL",
            "not attached: EPERM",
            "the scheduler's tick and perf's clock, 1000 times a second and CPU at most: timers are dear",
            "tides                          not running: no moon",
            "Mind the gap.",
        ] {
            assert!(report.contains(expected), "{expected}: {report}");
        }
        let (measured, missing) = report.split_once("Not measured").unwrap();
        assert!(
            !measured.contains("Bridging") && missing.contains("Bridging"),
            "{report}"
        );
    }

    #[test]
    fn a_check_of_a_hostile_host_commands_no_terminal_and_has_no_lines_of_others() {
        let evil = "\u{1b}[2J\nall is well".to_owned();
        let mut info = Info {
            hostname: evil.clone(),
            kernel: evil.clone(),
            components: ComponentInfo::table(|_| Availability::missing(evil.clone())),
            probes: vec![fixture::probe(&evil, "fentry", Some(&evil))],
            instruments: vec![InstrumentInfo {
                name: evil.clone(),
                availability: Availability::missing(evil.clone()),
            }],
            notes: vec![evil.clone()],
            ..info()
        };
        let honest = check_report(&self::info(), None).lines().count();
        for printed in [check_report(&info, None), component_list(Err(&evil), &[])] {
            let is_odd = |c: char| c.is_control() && c != '\n';
            assert!(
                !printed.contains(is_odd) && !printed.contains("\nall is well"),
                "{printed}"
            );
        }
        info.components = self::info().components;
        assert_eq!(check_report(&info, None).lines().count(), honest);
    }

    #[test]
    fn the_list_shows_the_symbols_of_each_component_on_this_kernel() {
        let found = FoundSymbols::read(
            "1000 t br_handle_frame\t[bridge]\n1100 t br_forward\t[bridge]\n1200 t br_flood\t[bridge]\n\
             2000 t ip_rcv\n"
                .as_bytes(),
        )
        .unwrap();
        let list = component_list(Ok(&found), &[]);
        assert!(list.contains("symbols: br_handle_frame\n"), "{list}");
        assert!(list.contains("and those like br_* (2)\n"), "{list}");
        assert!(list.contains("whatever is called by __napi_poll"), "{list}");
        assert!(list.contains("none in this kernel"), "{list}");
        assert!(component_list(Err("hidden"), &[]).contains("Symbols are not shown: hidden"));

        let bridging = index_of("bridging").unwrap();
        let one = component_list(Ok(&found), &[bridging]);
        assert!(one.starts_with("bridging ("), "{one}");
        assert!(one.contains("symbols: br_forward\n"), "{one}");
        assert!(!one.contains("ip_rcv"), "{one}");
        let advice = "    Frames to addresses that the bridge has not learned go to every port";
        assert!(one.contains(advice), "{one}");
        assert!(!list.contains(advice), "only of what was asked for");
    }
}
