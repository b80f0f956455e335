//! A report on one screen. Only arranges and words the results of `offline::summary`; computes
//! nothing.

use std::fmt::Write as _;

use jiff::tz::TimeZone;
use metrics_common::KindName;

use netto_log::read::Findings;
use netto_offline::summary::{
    ComponentSummary, Headline, Measured, Outcome, OwnSummary, PowerSummary, Spread, Summary,
};
use netto_questions::cpus::CpuSet;
use netto_questions::figures::{count, counted, cpus, energy, percent, percent_number, plain};
use netto_questions::times::{length, shown, shown_time};

use super::verdict::Answers;

/// Lines for components, CPUs, and reasons for missing measurements.
const COMPONENTS: usize = 14;
const CPUS: usize = 5;
const REASONS: usize = 5;
/// Width of component names.
const NAMES: usize = 34;

/// The whole report.
pub(super) fn text(
    summary: &Summary,
    answers: Option<&Answers>,
    findings: &Findings,
    only: Option<&CpuSet>,
    zone: &TimeZone,
) -> String {
    let mut page = Page {
        text: String::new(),
        summary,
        zone,
    };
    page.head(only);
    if let Some(answers) = answers {
        page.line("");
        answers
            .lines
            .iter()
            .for_each(|line| page.line(&plain(line)));
    }
    page.headline(&summary.headline);
    page.components();
    page.places();
    page.costs();
    page.soundness(findings);
    page.absent();
    page.text
}

/// The problems of the files, a line each.
pub(crate) fn troubles(findings: &Findings) -> Vec<String> {
    let Findings {
        damaged_stretches,
        cut_files,
        unknown_messages,
        repeated_intervals,
        overlapping_intervals,
        implausible_intervals,
        undescribed_intervals,
        problems,
    } = findings;
    let mut troubles: Vec<String> = problems.iter().map(|problem| plain(problem)).collect();
    for (value, one, many) in [
        (
            damaged_stretches,
            "stretch of damage was skipped",
            "stretches of damage were skipped",
        ),
        (
            cut_files,
            "file ends in the middle of a block",
            "files end in the middle of a block",
        ),
        (
            unknown_messages,
            "message of a newer netto was passed over",
            "messages of a newer netto were passed over",
        ),
        (
            repeated_intervals,
            "interval was there more than once",
            "intervals were there more than once",
        ),
        (
            overlapping_intervals,
            "interval of another run in the same time was not counted",
            "intervals of another run in the same time were not counted",
        ),
        (
            implausible_intervals,
            "interval has implausible values",
            "intervals have implausible values",
        ),
        (
            undescribed_intervals,
            "interval has lost its description",
            "intervals have lost their description",
        ),
    ] {
        if *value > 0 {
            troubles.push(counted(*value, one, many));
        }
    }
    troubles
}

struct Page<'a> {
    text: String,
    summary: &'a Summary,
    zone: &'a TimeZone,
}

impl Page<'_> {
    fn line(&mut self, text: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{}", text.trim_end());
    }

    fn head(&mut self, only: Option<&CpuSet>) {
        let (host, covered) = (&self.summary.host, &self.summary.covered);
        let only = match only {
            Some(cpus) => format!(" · only CPUs {}", cpus.text()),
            None => String::new(),
        };
        self.line(&plain(&format!(
            "{} · Linux {} · netto {} · {}{only}",
            host.hostname,
            host.kernel,
            host.version,
            counted(self.summary.cpus.len() as u64, "CPU", "CPUs"),
        )));
        if host.is_demonstration {
            self.line("Demonstration: all of this is made up");
        }
        self.line(&format!(
            "{} to {} · {} in {}",
            shown(covered.from_unix_ns, self.zone),
            shown(covered.to_unix_ns, self.zone),
            length(covered.measured_ns),
            counted(covered.intervals, "interval", "intervals"),
        ));
    }

    fn headline(&mut self, headline: &Headline) {
        self.line("");
        let title = format!(
            "{:24}{:>9}{:>9}{:>9}{:>9}",
            plain(&headline.label),
            "mean",
            "p50",
            "p95",
            "max"
        );
        self.line(&title);
        let row = |name: &str, spread: &Option<Spread>, shown: fn(f64) -> String| match spread {
            Some(spread) => format!(
                "  {name:22}{:>9}{:>9}{:>9}{:>9}",
                shown(spread.mean),
                shown(spread.p50),
                shown(spread.p95),
                shown(spread.max)
            ),
            None => format!("  {name:22}not measured"),
        };
        let share = row("% of the CPUs' time", &headline.share_ratio, percent_number);
        self.line(&share);
        let worth = row("CPUs' worth", &headline.cpus, cpus);
        self.line(&worth);
        if let Some(ratio) = headline.of_busy_ratio {
            let busy = format!("  {:22}{:>9}", "% of the busy time", percent_number(ratio));
            self.line(&busy);
        }
    }

    fn components(&mut self) {
        let all = &self.summary.components;
        let mut found: Vec<(&ComponentSummary, &Measured, usize)> = Vec::new();
        descend(all, &self.summary.headline.component, 0, &mut found);
        // A whole is never less than its parts, so no part is shown without it.
        let mut order: Vec<usize> = (0..found.len()).collect();
        order.sort_by_key(|&index| std::cmp::Reverse(found[index].1.cpu_ns));
        let kept: Vec<usize> = order
            .iter()
            .copied()
            .take(COMPONENTS)
            .filter(|&index| found[index].1.cpu_ns > 0)
            .collect();
        if kept.is_empty() {
            return;
        }
        self.line("");
        self.line(&format!(
            "{:NAMES$}{:>9}  {:15}{:>8}{:>9}",
            "Where it went", "% of CPUs", "95 % interval", "CPUs", "max %"
        ));
        for (index, (component, measured, depth)) in found.iter().enumerate() {
            if !kept.contains(&index) {
                continue;
            }
            let name = format!("{}{}", "  ".repeat(1 + depth), plain(&component.label));
            self.line(&format!(
                "{name:NAMES$}{:>9}  {:15}{:>8}{:>9}",
                percent_number(measured.share_ratio),
                interval(component, measured),
                cpus(measured.cpus),
                percent_number(measured.max_share_ratio),
            ));
        }
        let rest = found.len() - kept.len();
        if let Some(&next) = order.get(kept.len()) {
            let largest = percent(found[next].1.share_ratio);
            self.line(&format!("  … {rest} more, each at most {largest}"));
        }
    }

    fn places(&mut self) {
        self.line("");
        let label = |slug: &str| {
            let found = self.summary.components.iter().find(|c| c.component == slug);
            plain(found.map_or(slug, |component| &component.label))
        };
        let top: Vec<String> = self
            .summary
            .cpus
            .iter()
            .take(CPUS)
            .filter(|cpu| cpu.cpu_ns > 0)
            .enumerate()
            .map(|(place, cpu)| match (&cpu.largest_part, place) {
                // The first row is usually the one of interest.
                (Some((slug, share)), 0) => format!(
                    "{}: {} ({} {})",
                    cpu.cpu,
                    percent(cpu.share_ratio),
                    label(slug),
                    percent(*share)
                ),
                _ => format!("{}: {}", cpu.cpu, percent(cpu.share_ratio)),
            })
            .collect();
        if !top.is_empty() {
            self.line(&format!("{:18}{}", "Busiest CPUs", top.join(" · ")));
        }
        let is_one_day = self.summary.covered.to_unix_ns - self.summary.covered.from_unix_ns
            < 86_400_000_000_000;
        let peak = |time: u64| {
            if is_one_day {
                shown_time(time, self.zone)
            } else {
                shown(time, self.zone)
            }
        };
        let peaks: Vec<String> = self
            .summary
            .peaks
            .iter()
            .map(|p| format!("{} {}", peak(p.time_unix_ns), percent(p.share_ratio)))
            .collect();
        if !peaks.is_empty() {
            self.line(&format!("{:18}{}", "Peaks", peaks.join(" · ")));
        }
    }

    fn costs(&mut self) {
        let energy = match &self.summary.power {
            PowerSummary::Measured {
                host_joules,
                network_joules,
                network_capacity_joules,
                measured_ns,
            } => {
                let part = |joules: f64| {
                    let watts = joules / (*measured_ns).max(1) as f64 * 1e9;
                    format!("{} ({watts:.1} W)", energy(joules))
                };
                format!(
                    "{} of networking, attributed to what was busy, of {}\n\
                     {:18}{} as share of capacity; both are estimates",
                    part(*network_joules),
                    energy(*host_joules),
                    "",
                    part(*network_capacity_joules),
                )
            }
            PowerSummary::Unavailable { unavailable } => {
                format!("not measured: {}", plain(unavailable))
            }
        };
        self.line(&format!("{:18}{energy}", "Energy"));
        let own_text = match &self.summary.own {
            Some(own_summary) => own_cost(own_summary),
            None => "not in this log".to_owned(),
        };
        self.line(&format!("{:18}{own_text}", "netto itself"));
    }

    fn soundness(&mut self, findings: &Findings) {
        let losses = &self.summary.losses;
        let all = losses.stacks_taken.saturating_add(losses.stacks_lost);
        let mut lost = format!("{} of {}", count(losses.stacks_lost), count(all));
        for way in losses.probes_missed.iter().filter(|way| way.missed > 0) {
            let (probe, reason) = (plain(&way.probe), plain(&way.reason));
            let _ = write!(lost, "; {probe} missed {} ({reason})", count(way.missed));
        }
        self.line(&format!("{:18}{lost}", "Lost samples"));
        let gaps = &self.summary.gaps;
        let mut parts = Vec::new();
        if gaps.restarts > 0 {
            parts.push(counted(
                gaps.restarts,
                "restart of netto",
                "restarts of netto",
            ));
        }
        if gaps.holes > 0 {
            let holes = counted(gaps.holes, "time", "times");
            let first = gaps
                .listed_holes
                .first()
                .map_or(String::new(), |(begin, end)| {
                    let (begin, end) = (shown(*begin, self.zone), shown_time(*end, self.zone));
                    format!(", the first from {begin} to {end}")
                });
            let all = length(gaps.uncovered_ns);
            parts.push(format!(
                "{holes} without an interval, {all} together{first}"
            ));
        }
        if let Some(first) = gaps.listed_unwritten.first() {
            let snapshots = counted(gaps.unwritten_snapshots, "snapshot", "snapshots");
            parts.push(format!(
                "{snapshots} could not be written: {}",
                plain(&first.reason)
            ));
        }
        if self.summary.covered.implausible_intervals > 0 {
            let left_out = self.summary.covered.implausible_intervals;
            let intervals = counted(left_out, "interval", "intervals");
            parts.push(format!("{intervals} with impossible values, left out"));
        }
        parts.extend(troubles(findings));
        if parts.is_empty() {
            parts.push("none".to_owned());
        }
        for (index, text) in parts.iter().enumerate() {
            let name = if index == 0 { "Gaps" } else { "" };
            self.line(&format!("{name:18}{text}"));
        }
    }

    /// Components that were not measured, by reason.
    fn absent(&mut self) {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for component in &self.summary.components {
            let Outcome::Unavailable { unavailable } = &component.found else {
                continue;
            };
            match reasons.iter_mut().find(|(reason, _)| reason == unavailable) {
                Some((_, labels)) => labels.push(&component.label),
                None => reasons.push((unavailable, vec![&component.label])),
            }
        }
        let more = reasons.len().saturating_sub(REASONS);
        for (index, (reason, labels)) in reasons.iter().take(REASONS).enumerate() {
            let name = if index == 0 { "Not measured" } else { "" };
            let labels = match labels.as_slice() {
                [first, second, third, rest @ ..] if !rest.is_empty() => {
                    format!("{first}, {second}, {third} and {} more", rest.len())
                }
                all => all.join(", "),
            };
            self.line(&format!("{name:18}{}: {}", plain(&labels), plain(reason)));
        }
        if more > 0 {
            self.line(&format!(
                "{:18}… {more} more reasons; see --format json",
                ""
            ));
        }
    }
}

/// The measured parts of a component, each below its whole, the larger first.
fn descend<'a>(
    all: &'a [ComponentSummary],
    whole: &str,
    depth: usize,
    into: &mut Vec<(&'a ComponentSummary, &'a Measured, usize)>,
) {
    // A foreign log may make a component a part of itself.
    if depth > 8 || into.len() > all.len() {
        return;
    }
    let mut parts: Vec<(&ComponentSummary, &Measured)> = all
        .iter()
        .filter(|component| component.parent.as_deref() == Some(whole))
        .filter_map(|component| match &component.found {
            Outcome::Measured(measured) => Some((component, measured)),
            Outcome::Unavailable { .. } => None,
        })
        .collect();
    parts.sort_by_key(|(_, measured)| std::cmp::Reverse(measured.cpu_ns));
    for (component, measured) in parts {
        into.push((component, measured, depth));
        descend(all, &component.component, depth + 1, into);
    }
}

fn interval(component: &ComponentSummary, measured: &Measured) -> String {
    match measured.cpu_interval_ns {
        Some((low, high)) => {
            let ratio = measured.share_ratio / measured.cpu_ns.max(1) as f64;
            let percent_of = |ns: u64| percent_number(ns as f64 * ratio);
            format!("{} – {}", percent_of(low), percent_of(high))
        }
        None if component.kind == KindName::Timed.as_str() => "measured".to_owned(),
        None => "not known".to_owned(),
    }
}

fn own_cost(own_summary: &OwnSummary) -> String {
    let mut parts = Vec::new();
    if let (Some(ratio), Some(worth)) = (own_summary.taken_ratio, own_summary.taken_cpus) {
        parts.push(format!(
            "{} of the CPUs' time ({} CPUs)",
            percent(ratio),
            cpus(worth)
        ));
    }
    if let Some((ratio, cpu)) = own_summary.costliest {
        parts.push(format!("at most {} of a CPU ({cpu})", percent(ratio)));
    }
    if let Some(bytes) = own_summary.max_resident_bytes {
        parts.push(format!("{:.1} MB resident", bytes as f64 / 1e6));
    }
    if parts.is_empty() {
        "not known".to_owned()
    } else {
        parts.join(" · ")
    }
}
