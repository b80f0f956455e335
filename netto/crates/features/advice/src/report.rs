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
