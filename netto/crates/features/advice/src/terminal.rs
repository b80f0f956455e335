//! `netto advise`: advice on the newest intervals as text.

use std::cell::RefCell;
use std::fmt::Write as _;

use metrics_common::{Info, Snapshot};
use netto_feature::command::Command;
use netto_judges::advice::{
    Advice, Adviser, LastingAdvice, Unjudged, looked_at, silent_words, unjudged_words,
};
use netto_questions::api::{Covered, Refusal, TextView, json};
use netto_questions::window::Window;

use crate::api::View;

/// The command.
pub(crate) const COMMAND: Command =
    Command::new("advise", ABOUT, |_| Box::new(AdviceView::default()));

const ABOUT: &str = "What could be tried to make networking cheaper here, and what it would gain at most: of a \
            daemon, a log, or this host";

struct AdviceView {
    window: Window,
    /// What the lines of a host that is looked at for longer say: they do not come and go with its load.
    lasting: RefCell<LastingAdvice>,
    /// What a log covers.
    covered: Option<Covered>,
}

impl Default for AdviceView {
    fn default() -> Self {
        AdviceView {
            window: Window::default(),
            lasting: RefCell::new(LastingAdvice::at_once()),
            covered: None,
        }
    }
}

impl TextView for AdviceView {
    fn push(&mut self, _: &Info, snapshot: Snapshot) -> Result<(), String> {
        self.window.push(&looked_at(&snapshot));
        Ok(())
    }

    fn set_covered(&mut self, covered: Covered) {
        self.covered = Some(covered);
    }

    fn clear(&mut self) {
        *self = AdviceView::default();
    }

    fn text(&self, info: &Info, length_ns: u64) -> String {
        let sum = self.window.sum(length_ns).unwrap_or_default();
        let mut lasting = self.lasting.borrow_mut();
        let unjudged = lasting.judge(&sum);
        let text = text(&sum, lasting.said(), &unjudged);
        format!("netto advise · {}\n{text}", info.hostname)
    }

    fn json(&self, _: &Info, length_ns: u64) -> Result<Vec<u8>, Refusal> {
        let sum = self.window.sum(length_ns).unwrap_or_default();
        let judgement = Adviser::default().judge(&sum);
        let in_window = || self.window.covered(length_ns);
        let covered = self.covered.unwrap_or_else(in_window);
        json(&View { covered, judgement })
    }
}

fn text<'a>(
    sum: &Snapshot,
    said: impl Iterator<Item = (&'a Advice, u64)>,
    unjudged: &[Unjudged],
) -> String {
    let mut text = String::new();
    for (advice, held_unix_ns) in said {
        let silent = silent_words(sum.time_unix_ns, held_unix_ns);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\n{}{silent}\n  {}", advice.name, advice.evidence);
        for command in &advice.commands {
            let _ = writeln!(text, "  try   {command}");
        }
        let _ = writeln!(
            text,
            "  gain  {}\n  see   {}",
            advice.gain_words(),
            advice.link
        );
    }
    if text.is_empty() {
        let seconds = sum.interval_ns as f64 / 1e9;
        let _ = writeln!(
            text,
            "\nnothing to advise, by what was measured in {seconds:.1} s"
        );
    }
    if let Some(words) = unjudged_words(unjudged) {
        let _ = writeln!(text, "\n{words}");
    }
    text
}

#[cfg(test)]
mod tests {
    use netto_judges::advice::fixture;

    use super::*;

    const LENGTH_NS: u64 = 5_000_000_000;

    #[test]
    fn advice_stands_with_evidence_commands_gain_and_link_or_there_is_a_sentence() {
        let info = metrics_common::fixture::info();
        let mut view = AdviceView::default();
        assert!(view.text(&info, LENGTH_NS).contains("nothing to advise"));
        view.push(&info, fixture::fires("conntrack-without-nat"))
            .unwrap();
        let text = view.text(&info, LENGTH_NS);
        for part in [
            "netto advise · host\n\nConnections are tracked, and no address is translated\n  tracking takes 2.5 % of this host",
            "\n  try   nft list ruleset | grep -w ct\n",
            "\n  gain  at most 2.5 % of this host: ",
            "\n  see   docs/ADVICE.md#conntrack-without-nat\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let json = view.json(&info, LENGTH_NS).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(json["advice"][0]["rule"], "conntrack-without-nat");
        assert_eq!(json["intervals"], 1);
        view.clear();
        view.push(
            &info,
            Snapshot {
                interval_ns: 1,
                ..Snapshot::default()
            },
        )
        .unwrap();
        assert!(
            view.text(&info, LENGTH_NS)
                .contains("not judged, for lack of a figure: rx-on-one-cpu (")
        );
    }
}
