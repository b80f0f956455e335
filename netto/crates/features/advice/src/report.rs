//! Advice on the intervals of a log, and as text. Pure, and bounded.

use std::fmt::Write as _;

use metrics_common::Snapshot;
use metrics_common::advice::{Advice, Adviser, RULES, looked_at};
use netto_feature::summary::{Summarizer, Summary};
use netto_questions::figures::{percent, plain};
use serde::Serialize;

/// Intervals are judged in pieces of this length at least, nanoseconds.
const PIECE_NS: u64 = 10_000_000_000;
/// Rules that are shown in a report, which has other things to say, too.
const SHOWN: usize = 4;

/// Judges a log piece by piece.
pub(crate) fn summarizer() -> Box<dyn Summarizer> {
    Box::new(Pieces {
        piece: None,
        adviser: Adviser::default(),
        judged_ns: 0,
        held: RULES.iter().map(|_| None).collect(),
    })
}

struct Pieces {
    piece: Option<Snapshot>,
    adviser: Adviser,
    judged_ns: u64,
    held: Vec<Option<Held>>,
}

/// A rule that held for some time.
#[derive(Debug, Serialize)]
pub(crate) struct Held {
    /// For how much of the time.
    pub(crate) held_ratio: f64,
    #[serde(skip)]
    held_ns: u64,
    /// What was said when most could be gained.
    #[serde(flatten)]
    pub(crate) advice: Advice,
}

impl Pieces {
    fn judge(&mut self) {
        let Some(piece) = self.piece.take() else {
            return;
        };
        self.judged_ns = self.judged_ns.saturating_add(piece.interval_ns);
        for advice in self.adviser.judge(&piece).advice {
            let place = RULES.iter().position(|rule| rule.slug == advice.rule);
            let Some(held) = place.and_then(|place| self.held.get_mut(place)) else {
                continue;
            };
            let before_ns = held.as_ref().map_or(0, |own| own.held_ns);
            let held_ns = before_ns.saturating_add(piece.interval_ns);
            match held {
                Some(own) if own.advice.gain_cpus >= advice.gain_cpus => own.held_ns = held_ns,
                _ => {
                    *held = Some(Held {
                        held_ratio: 0.0,
                        held_ns,
                        advice,
                    });
                }
            }
        }
    }
}

impl Summarizer for Pieces {
    fn add(&mut self, snapshot: &Snapshot) {
        let own = looked_at(snapshot);
        match &mut self.piece {
            Some(piece) => piece.add(&own),
            None => self.piece = Some(own),
        }
        if self
            .piece
            .as_ref()
            .is_some_and(|piece| piece.interval_ns >= PIECE_NS)
        {
            self.judge();
        }
    }

    fn finish(mut self: Box<Self>, component: Option<&str>) -> Option<Summary> {
        self.judge();
        // It is of all of networking.
        if self.judged_ns == 0 || component.is_some() {
            return None;
        }
        let mut held: Vec<Held> = self.held.into_iter().flatten().collect();
        for own in &mut held {
            own.held_ratio = own.held_ns as f64 / self.judged_ns as f64;
        }
        Some(Summary {
            text: text(&held),
            json: serde_json::to_string_pretty(&held).ok()?,
        })
    }
}

/// What held, with an empty line before; nothing if nothing did.
fn text(held: &[Held]) -> String {
    let mut text = String::new();
    for own in held.iter().take(SHOWN) {
        let Held {
            held_ratio, advice, ..
        } = own;
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{}: {} ({} of the time)",
            advice.name,
            plain(&advice.evidence),
            percent(*held_ratio)
        );
        for command in &advice.commands {
            let _ = writeln!(text, "  try   {}", plain(command));
        }
        let _ = writeln!(text, "  gain  {}", plain(&advice.gain_words()));
    }
    if held.len() > SHOWN {
        let names: Vec<&str> = held[SHOWN..].iter().map(|own| own.advice.rule).collect();
        let _ = writeln!(text, "also {}: see --format json", names.join(", "));
    }
    match text.is_empty() {
        true => text,
        false => format!("\nadvice (docs/ADVICE.md)\n{text}"),
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::advice::fixture;

    use super::*;

    fn summary(snapshots: &[Snapshot]) -> Option<Summary> {
        let mut sum = summarizer();
        snapshots.iter().for_each(|own| sum.add(own));
        sum.finish(None)
    }

    #[test]
    fn a_report_says_what_held_for_how_long_with_commands_and_gain() {
        let calm = fixture::calm();
        let spinning = fixture::fires("spinning");
        let own = summary(&[calm.clone(), calm.clone(), calm.clone(), spinning]).unwrap();
        let lines: Vec<&str> = own.text.lines().collect();
        assert_eq!(lines[..2], ["", "advice (docs/ADVICE.md)"]);
        assert!(
            lines[2].starts_with("CPUs poll and find nothing: it takes "),
            "{}",
            own.text
        );
        assert!(lines[2].ends_with("(25.0 % of the time)"), "{}", own.text);
        assert!(lines[3].starts_with("  try   sysctl -w net.core.busy_poll=0"));
        assert!(
            lines[4].starts_with("  gain  at most 0.90 CPUs: "),
            "{}",
            own.text
        );
        assert!(own.json.contains("\"held_ratio\": 0.25"), "{}", own.json);
    }

    #[test]
    fn short_intervals_are_judged_together_and_a_calm_log_has_no_lines() {
        let mut short = fixture::fires("own-cost");
        short.interval_ns = PIECE_NS / 3;
        let all: Vec<Snapshot> = (0..7).map(|_| short.clone()).collect();
        let own = summary(&all).unwrap();
        assert!(own.text.contains("(100.0 % of the time)"), "{}", own.text);
        let calm = summary(&[fixture::calm()]).unwrap();
        assert_eq!((&*calm.text, &*calm.json), ("", "[]"));
        assert_eq!(summary(&[]), None);
        let mut sum = summarizer();
        sum.add(&short);
        assert_eq!(sum.finish(Some("gro")), None, "it is of all networking");
    }

    #[test]
    fn a_report_stays_short_whatever_holds() {
        let all: Vec<Snapshot> = RULES.iter().map(|rule| fixture::fires(rule.slug)).collect();
        let own = summary(&all).unwrap();
        assert!(own.text.lines().count() <= 20, "{}", own.text);
        assert!(
            own.text.lines().last().unwrap().starts_with("also "),
            "{}",
            own.text
        );
    }
}
