//! Advice on a span of a log, as text and JSON. Pure, and bounded.
//!
//! A span is judged as a whole: a report says the same whether it reads sums or every interval. What
//! holds for a part of it only is found by the report of that part.

use std::fmt::Write as _;

use metrics_common::Snapshot;
use netto_feature::summary::{Summarizer, Summary};
use netto_judges::advice::{Advice, Adviser, looked_at};
use netto_questions::figures::plain;

/// Rules that are shown in a report, which has other things to say, too.
const SHOWN: usize = 2;
/// Commands that are shown of each.
const COMMANDS: usize = 2;

/// Its member of a report, for the schema.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[allow(dead_code, reason = "only its fields' names and types are of use")]
pub(crate) struct ReportMember {
    /// Advice that held at some time; null if the log has no interval.
    advice: Option<Vec<Advice>>,
}

/// Judges a log.
pub(crate) fn summarizer() -> Box<dyn Summarizer> {
    Box::new(Span { sum: None })
}

/// What rules look at, added up.
struct Span {
    sum: Option<Snapshot>,
}

impl Summarizer for Span {
    fn add(&mut self, snapshot: &Snapshot) {
        let reduced = looked_at(snapshot);
        match &mut self.sum {
            Some(sum) => sum.add(&reduced),
            None => self.sum = Some(reduced),
        }
    }

    fn finish(self: Box<Self>, component: Option<&str>) -> Option<Summary> {
        // It is of all of networking.
        let sum = self.sum.filter(|_| component.is_none())?;
        let advice = Adviser::default().judge(&sum).advice;
        Some(Summary {
            text: text(&advice),
            json: serde_json::to_string_pretty(&advice).ok()?,
        })
    }
}

/// What holds, with an empty line before; nothing if nothing does.
fn text(all: &[Advice]) -> String {
    let mut text = String::new();
    let shown = &all[..SHOWN.min(all.len())];
    for advice in shown {
        let gain = advice.most.as_ref().map(|most| format!(" ({most})"));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{}{}: {}",
            advice.name,
            gain.unwrap_or_default(),
            plain(&advice.evidence)
        );
        for command in advice.commands.iter().take(COMMANDS) {
            let _ = writeln!(text, "  try  {}", plain(command));
        }
    }
    let others: Vec<&str> = all[shown.len()..]
        .iter()
        .map(|advice| advice.rule)
        .collect();
    if !others.is_empty() {
        let _ = writeln!(text, "also {}: see --format json", others.join(", "));
    }
    if text.is_empty() {
        text
    } else {
        format!("\nadvice (docs/ADVICE.md)\n{text}")
    }
}

#[cfg(test)]
mod tests {
    use netto_judges::advice::{RULES, fixture};

    use super::*;

    fn summary(snapshots: &[Snapshot]) -> Option<Summary> {
        let mut sum = summarizer();
        snapshots.iter().for_each(|snapshot| sum.add(snapshot));
        sum.finish(None)
    }

    #[test]
    fn a_report_says_what_holds_for_its_span_with_commands_and_gain() {
        let report = summary(&[fixture::fires("spinning")]).unwrap();
        let lines: Vec<&str> = report.text.lines().collect();
        assert_eq!(lines[..2], ["", "advice (docs/ADVICE.md)"]);
        let begin = "CPUs poll and find nothing (at most 22.5 % of this host): polls for nothing take 17.5 %";
        assert!(lines[2].starts_with(begin), "{}", report.text);
        assert!(lines[3].starts_with("  try  sysctl -w net.core.busy_poll=0"));
        assert!(
            report.json.contains("\"gain_cpus\": 0.9"),
            "{}",
            report.json
        );
    }

    #[test]
    fn a_span_is_judged_as_a_whole_and_a_calm_one_has_no_lines() {
        let (calm, spinning) = (fixture::calm(), fixture::fires("spinning"));
        let rare: Vec<Snapshot> = (0..30).map(|_| calm.clone()).chain([spinning]).collect();
        for of in [&rare[..], &[calm]] {
            let report = summary(of).unwrap();
            assert_eq!((&*report.text, &*report.json), ("", "[]"));
        }
        assert_eq!(summary(&[]), None);
        let mut sum = summarizer();
        sum.add(&fixture::fires("own-cost"));
        assert_eq!(sum.finish(Some("gro")), None, "it is of all networking");
    }

    #[test]
    fn a_report_stays_short_whatever_holds() {
        let held = |slug| Adviser::default().judge(&fixture::fires(slug)).advice;
        let all: Vec<Advice> = RULES.iter().flat_map(|rule| held(rule.slug)).collect();
        assert!(all.len() >= RULES.len());
        let text = text(&all);
        assert!(text.lines().count() <= 9, "{text}");
        assert!(text.lines().last().unwrap().starts_with("also "), "{text}");
    }
}
