//! Anomalies as markup. Pure.

use metrics_common::text::escape_html;

use crate::timeline::{self, Mark};

/// Most that are listed.
pub const MOST: usize = 8;

/// An anomaly, as the daemon tells of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Anomaly {
    /// The metric's name, begin and end.
    pub mark: Mark,
    /// How far it went.
    pub evidence: String,
    /// What moved with it: the metrics' names, each with where it went.
    pub moved: Vec<String>,
}

/// A part for each of the newest, which are the first.
pub fn of(all: &[Anomaly], offset_ms: f64) -> String {
    let clock = |ms| timeline::clock(ms, offset_ms, true);
    let mut html = String::new();
    for anomaly in all.iter().take(MOST) {
        let end = if anomaly.mark.to_ms.is_finite() {
            clock(anomaly.mark.to_ms)
        } else {
            "now".to_owned()
        };
        html += &format!(
            "<article><h3>{} – {end} {}</h3><p>{}{}{}</p></article>",
            clock(anomaly.mark.from_ms),
            escape_html(&anomaly.mark.label),
            escape_html(&anomaly.evidence),
            if anomaly.moved.is_empty() {
                ""
            } else {
                "; with it "
            },
            escape_html(&anomaly.moved.join(", ")),
        );
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anomaly(from_ms: f64, to_ms: f64, moved: &[&str]) -> Anomaly {
        Anomaly {
            mark: Mark {
                label: "Accept queues <full>".to_owned(),
                from_ms,
                to_ms,
            },
            evidence: "10 a second".to_owned(),
            moved: moved.iter().map(|metric| (*metric).to_owned()).collect(),
        }
    }

    #[test]
    fn an_anomaly_has_its_times_evidence_and_what_moved_and_a_hostile_name_is_no_markup() {
        let all = [
            anomaly(60_000.0, f64::INFINITY, &[]),
            anomaly(0.0, 2_000.0, &["+packets", "-messages"]),
        ];
        assert_eq!(
            of(&all, 0.0),
            "<article><h3>00:01:00 – now Accept queues &lt;full&gt;</h3><p>10 a second</p></article>\
             <article><h3>00:00:00 – 00:00:02 Accept queues &lt;full&gt;</h3>\
             <p>10 a second; with it +packets, -messages</p></article>"
        );
        assert_eq!(of(&[], 0.0), "");
    }

    #[test]
    fn only_the_newest_are_listed() {
        let many = vec![anomaly(0.0, 1.0, &[]); MOST + 3];
        assert_eq!(of(&many, 0.0).matches("<article>").count(), MOST);
    }
}
