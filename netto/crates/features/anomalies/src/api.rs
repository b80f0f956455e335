//! `/api/v1/anomalies`: those that are open, and the newest that have ended.

use std::any::Any;

use metrics_common::Info;
use netto_judges::anomalies::{Anomaly, Described, Detector};
use netto_questions::api::{Answer, Api, Listened, News, Question, Refusal, json};
use netto_questions::selection::Selection;
use serde::Serialize;

use crate::metrics::Judged;

/// Its question; it has no section.
pub(crate) const API: Api = Api {
    questions: &[Question {
        name: crate::NAME,
        keys: &["last", "follow"],
        answer: Answer::State { now: answer, news },
    }],
    ..Api::SECTION
};

/// The schemas of its answers, by the names of the questions.
#[cfg(feature = "schema")]
pub const SCHEMAS: &[netto_questions::api::NamedSchema] = &[(
    "anomalies",
    schemars::SchemaGenerator::root_schema_for::<View>,
)];

/// What left its usual values.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct View {
    /// End of the newest interval, seconds since the Unix epoch.
    now_unix_seconds: f64,
    /// Number of metrics that make anomalies.
    watched: usize,
    /// Number of those whose usual values are known by now.
    judged: usize,
    /// The others: not known for a minute yet, or not measured here.
    unjudged: Vec<&'static str>,
    /// Number of anomalies that have begun since netto's start.
    begun: u64,
    /// Number of their begins and ends.
    changes: u64,
    /// Those that are open and the newest that have ended, the newest first.
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    anomalies: Vec<Described>,
}

impl View {
    /// Those that are open or ended within this time; all that are kept without one.
    pub(crate) fn of(detector: &Detector, last_ns: Option<u64>) -> Self {
        let now_unix_ns = detector.now_unix_ns();
        let kept = detector.kept().rev();
        let wanted = kept.filter(|anomaly| {
            let ended_ns = now_unix_ns.saturating_sub(anomaly.last_unix_ns);
            anomaly.is_open || last_ns.is_none_or(|last_ns| ended_ns <= last_ns)
        });
        let (watched, judged) = detector.judged();
        View {
            now_unix_seconds: now_unix_ns as f64 / 1e9,
            watched,
            judged,
            unjudged: detector.unjudged().map(|metric| metric.slug).collect(),
            begun: detector.begun().iter().sum(),
            changes: detector.changes(),
            anomalies: wanted.map(|anomaly| anomaly.described()).collect(),
        }
    }
}

/// A line for who listens.
#[derive(Serialize)]
struct Line {
    now_unix_seconds: f64,
    /// For how long nothing has changed before.
    same_seconds: f64,
    /// Anomalies that are open now, by their numbers.
    open: Vec<u64>,
    /// Those that have begun, gone on or ended meanwhile, by their begin.
    changed: Vec<Described>,
}

/// A line if something has changed, or one is due. The first has all that are open.
fn news(states: &[&dyn Any], listened: &Listened) -> Option<News> {
    let Judged(judged) = states.iter().find_map(|state| state.downcast_ref())?;
    let until = judged.changes();
    // What the judge forgot, as a recording that goes back, is new again.
    let seen = if until < listened.until {
        0
    } else {
        listened.until
    };
    if until == listened.until && !listened.is_due {
        return None;
    }
    let is_new = |anomaly: &&Anomaly| anomaly.changed > seen && (seen > 0 || anomaly.is_open);
    let open = judged.kept().filter(|anomaly| anomaly.is_open);
    let line = Line {
        now_unix_seconds: judged.now_unix_ns() as f64 / 1e9,
        same_seconds: listened.quiet_ns as f64 / 1e9,
        open: open.map(|anomaly| anomaly.id).collect(),
        changed: judged
            .kept()
            .filter(is_new)
            .map(Anomaly::described)
            .collect(),
    };
    let line = json(&line).ok()?;
    Some(News { until, line })
}

fn answer(selection: &Selection, states: &[&dyn Any], _: &Info) -> Result<Vec<u8>, Refusal> {
    let state = states.iter().find_map(|state| state.downcast_ref());
    let Some(Judged(judged)) = state else {
        return Err(Refusal::Failed("nothing is judged here".to_owned()));
    };
    let last_ns = selection.has_last.then_some(selection.last_ns);
    json(&View::of(judged, last_ns))
}

#[cfg(test)]
mod tests {
    use metrics_common::fixture::info;
    use netto_judges::anomalies::fixture::Host;
    use serde_json::Value;

    use super::*;

    fn answered(judged: &Judged, query: &str) -> Value {
        let selection = API.questions[0].parse(query, "").unwrap();
        let answer = answer(&selection, &[&0_u8, judged], &info()).unwrap();
        serde_json::from_slice(&answer).unwrap()
    }

    #[test]
    fn an_answer_has_what_is_open_or_ended_within_the_time_the_newest_first() {
        let (mut host, mut judged) = (Host::new(1), Judged::default());
        host.pass(&mut judged.0, 240);
        host.overflows = 10;
        host.pass(&mut judged.0, 20);
        host.overflows = 0;
        host.pass(&mut judged.0, 240);
        host.retransmits = 0.2;
        host.pass(&mut judged.0, 20);
        let all = answered(&judged, "");
        let metric = |all: &Value, place: usize| all["anomalies"][place]["metric"].clone();
        assert_eq!(metric(&all, 0), "tcp-retransmits");
        assert_eq!(metric(&all, 1), "accept-queue-overflows");
        assert_eq!((&all["begun"], &all["changes"]), (&2.into(), &3.into()));
        let ended = &all["anomalies"][1];
        assert_eq!(
            (&ended["seconds"], &ended["spells"]),
            (&10.0.into(), &1.into())
        );
        assert_eq!(
            ended["evidence"],
            "10 a second at worst, where 0 a second is usual: 60 deviations"
        );
        assert!(all["anomalies"][0].get("end_unix_seconds").is_none());
        let newest = answered(&judged, "last=1m");
        assert_eq!(newest["anomalies"].as_array().map(Vec::len), Some(1));
        assert!(API.questions[0].parse("limit=3", "").is_err());
        assert!(API.questions[0].parse("follow=yes", "").is_err());
    }

    /// What a listener gets next, by what it has had.
    fn heard(judged: &Judged, listened: &mut Listened) -> Option<Value> {
        let News { until, line } = news(&[judged], listened)?;
        listened.until = until;
        assert!(line.len() < 2_000, "{}", line.len());
        Some(serde_json::from_slice(&line).unwrap())
    }

    #[test]
    fn a_listener_gets_what_is_open_then_what_changes_and_what_is_due() {
        let (mut host, mut judged) = (Host::new(1), Judged::default());
        host.pass(&mut judged.0, 240);
        host.overflows = 10;
        host.pass(&mut judged.0, 20);
        let mut listened = Listened {
            is_due: true,
            ..Listened::default()
        };
        let first = heard(&judged, &mut listened).unwrap();
        assert_eq!(first["open"], serde_json::json!([1]));
        assert_eq!(first["changed"][0]["metric"], "accept-queue-overflows");
        listened.is_due = false;
        assert_eq!(heard(&judged, &mut listened), None);
        (listened.is_due, listened.quiet_ns) = (true, 10_000_000_000);
        let beat = heard(&judged, &mut listened).unwrap();
        assert_eq!(
            (&beat["same_seconds"], &beat["changed"]),
            (&10.0.into(), &Value::Array(vec![]))
        );
        listened.is_due = false;
        (host.overflows, host.retransmits) = (0, 0.2);
        host.pass(&mut judged.0, 60);
        let both = heard(&judged, &mut listened).unwrap();
        let ids: Vec<_> = both["changed"]
            .as_array()
            .unwrap()
            .iter()
            .map(|anomaly| anomaly["id"].as_u64())
            .collect();
        assert_eq!(
            (ids, &both["open"]),
            (vec![Some(1), Some(2)], &serde_json::json!([2]))
        );
        assert_eq!(heard(&judged, &mut listened), None);
        // One who comes now gets nothing of what has ended.
        let mut other = Listened {
            is_due: true,
            ..Listened::default()
        };
        let first = heard(&judged, &mut other).unwrap();
        assert_eq!(first["changed"].as_array().map(Vec::len), Some(1));
    }
}
