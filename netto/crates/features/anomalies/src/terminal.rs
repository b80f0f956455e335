//! `netto anomalies`: those of a log, of a daemon's last quarter of an hour, or of what is measured
//! meanwhile, as text.

use std::fmt::Write as _;

use jiff::tz::TimeZone;
use metrics_common::{Info, Snapshot};
use netto_feature::command::Command;
use netto_judges::anomalies::{Anomaly, Detector, Direction};
use netto_questions::api::{Refusal, TextView, json};
use netto_questions::times;

use crate::api::View;

/// Anomalies that are shown.
const SHOWN: usize = 20;

/// The command.
pub(crate) const COMMAND: Command =
    Command::new("anomalies", ABOUT, |_| Box::new(AnomaliesView::default()));

const ABOUT: &str = "What left its usual values, from when until when, and what moved with it: of a daemon's \
            last quarter of an hour, a log, or this host from now on";

#[derive(Default)]
struct AnomaliesView {
    detector: Detector,
}

impl TextView for AnomaliesView {
    fn push(&mut self, _: &Info, snapshot: Snapshot) -> Result<(), String> {
        self.detector.push(&snapshot);
        Ok(())
    }

    fn wants_every_interval(&self) -> bool {
        true
    }

    fn clear(&mut self) {
        *self = AnomaliesView::default();
    }

    fn text(&self, info: &Info, _: u64) -> String {
        let all = text(&self.detector, &TimeZone::system());
        format!("netto anomalies · {}\n{all}", info.hostname)
    }

    fn json(&self, _: &Info, _: u64) -> Result<Vec<u8>, Refusal> {
        json(&View::of(&self.detector, None))
    }
}

fn text(detector: &Detector, zone: &TimeZone) -> String {
    let (watched, judged) = detector.judged();
    let mut text = format!("{judged} of {watched} metrics are judged");
    let unjudged: Vec<_> = detector.unjudged().map(|metric| metric.name).collect();
    // Writing to a String cannot fail.
    if !unjudged.is_empty() {
        let names = unjudged.join("; ");
        let _ = write!(
            text,
            "\nknown for less than a minute, or not measured: {names}"
        );
    }
    text.push('\n');
    let newest = detector.kept().rev();
    for anomaly in newest.take(SHOWN) {
        let described = anomaly.described();
        let begin = times::shown(anomaly.begin_unix_ns, zone);
        let (name, evidence) = (described.name, &described.evidence);
        let _ = writeln!(text, "\n{begin}  {}  {name}", state(anomaly));
        let _ = writeln!(text, "  {evidence}");
        let moved = described.moved.iter().map(|moved| {
            let sign = match moved.direction {
                Direction::Up => "↑",
                Direction::Down => "↓",
            };
            format!("{sign} {}", moved.name)
        });
        let moved: Vec<String> = moved.collect();
        if !moved.is_empty() {
            let _ = writeln!(text, "  moved with it: {}", moved.join(", "));
        }
    }
    match detector.kept().count() {
        0 => text.push_str("\nno anomalies\n"),
        all if all > SHOWN => {
            let _ = writeln!(text, "\n{} older ones: see --json", all - SHOWN);
        }
        _ => {}
    }
    text
}

/// Whether it lasts, and for how long.
fn state(anomaly: &Anomaly) -> String {
    let seconds = anomaly.length_ns() as f64 / 1e9;
    let state = match (anomaly.is_open, anomaly.is_usual_now) {
        (true, _) => "open, ",
        (false, true) => "usual now, after ",
        (false, false) => "",
    };
    format!("{state}{seconds:.1} s")
}

#[cfg(test)]
mod tests {
    use metrics_common::fixture::info;
    use netto_judges::anomalies::fixture::Host;

    use super::*;

    #[test]
    fn anomalies_stand_with_time_length_evidence_and_what_moved_or_there_is_a_sentence() {
        let (mut host, mut view) = (Host::new(2), AnomaliesView::default());
        let first = view.text(&info(), 0);
        assert!(
            first.ends_with("\nno anomalies\n")
                && first.contains("; Time that a read takes in its device, of the slowest one;")
        );
        let push = |view: &mut AnomaliesView, host: &mut Host, count: usize| {
            for _ in 0..count {
                view.push(&info(), host.next_interval()).unwrap();
            }
        };
        push(&mut view, &mut host, 240);
        (host.load, host.overflows) = (10.0, 10);
        push(&mut view, &mut host, 20);
        let shown = text(&view.detector, &TimeZone::UTC);
        let part = "\n2027-01-15 08:02:00  open, 10.0 s  Accept queues full\n  10 a second at worst, where \
                    0 a second is usual: 60 deviations\n  moved with it: ";
        assert!(shown.contains(part), "{shown}");
        assert!(shown.contains("↑ Packets up the stack"), "{shown}");
        host.overflows = 0;
        push(&mut view, &mut host, 60);
        let shown = text(&view.detector, &TimeZone::UTC);
        assert!(shown.contains("  10.0 s  Accept queues full\n"), "{shown}");
        let json = view.json(&info(), 0).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(json["anomalies"][0]["metric"], "accept-queue-overflows");
        view.clear();
        assert!(view.text(&info(), 0).contains("0 of "));
    }
}
