//! `/api/v1/score` and `/api/v1/orca`: what the newest snapshots, added up, say of this host.

use std::collections::BTreeMap;

use metrics_common::Info;
use metrics_common::sections::Health;
use netto_questions::api::{
    Answer, Api, Covered, Measured, Question, Refusal, Snapshots, covered_sum_of, json,
};
use netto_questions::selection::Selection;
use serde::Serialize;

use crate::NAME;
use crate::analysis::score::{Score, judge};
use crate::recent::looked_at;

/// Its section as it is, and the questions.
pub(crate) const API: Api = Api {
    questions: &[
        Question {
            name: "score",
            keys: &["last"],
            answer: Answer::Recent(score),
        },
        Question {
            name: "orca",
            keys: &["last"],
            answer: Answer::Recent(orca),
        },
    ],
    ..Api::SECTION
};

/// The schemas of its answers, by the names of the questions.
#[cfg(feature = "schema")]
pub const SCHEMAS: &[netto_questions::api::NamedSchema] = &[
    (
        "score",
        schemars::SchemaGenerator::root_schema_for::<Measured<'static, View>>,
    ),
    (
        "orca",
        schemars::SchemaGenerator::root_schema_for::<Measured<'static, Orca>>,
    ),
];

/// How good a choice this host is for reads and writes. Without --health it is one member,
/// `unavailable`, with the reason.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct View {
    #[serde(flatten)]
    pub(crate) covered: Covered,
    #[serde(flatten)]
    pub(crate) score: Score,
}

fn score(_: &Selection, snapshots: Snapshots<'_>, info: &Info) -> Result<Vec<u8>, Refusal> {
    let (covered, sum) = covered_sum_of(snapshots, looked_at)?;
    let view = sum.sections.health.map(|health| View {
        covered,
        score: judge(&health),
    });
    json(&Measured::of(info, NAME, view))
}

/// A load report by the names of `xds.data.orca.v3.OrcaLoadReport`. Without --health it is one
/// member, `unavailable`, with the reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Orca {
    /// Share of the CPUs' time that is not idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
    cpu_utilization: Option<f64>,
    /// Share of memory that is not available.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
    mem_utilization: Option<f64>,
    /// The score: of reads and writes, 0 to 1, the expected time in seconds, and the weighted sum,
    /// 0 to 1.
    #[cfg_attr(
        feature = "schema",
        schemars(extend(
            "propertyNames" = {"enum": NAMED},
            "additionalProperties" = {"type": "number", "minimum": 0},
        ))
    )]
    named_metrics: BTreeMap<&'static str, f64>,
}

/// The names of the score's figures there.
const NAMED: [&str; 6] = [
    "netto_read_score",
    "netto_write_score",
    "netto_read_seconds",
    "netto_write_seconds",
    "netto_read_weighted",
    "netto_write_weighted",
];

impl Orca {
    pub(crate) fn of(health: &Health, score: &Score) -> Self {
        let ratio = |percent: Option<f64>| percent.map(|percent| percent / 100.0);
        let values = [
            ratio(score.reads.score),
            ratio(score.writes.score),
            score.reads.expected_seconds,
            score.writes.expected_seconds,
            ratio(score.reads.weighted),
            ratio(score.writes.weighted),
        ];
        Orca {
            cpu_utilization: health.cpu_ratio,
            mem_utilization: health.memory_ratio,
            named_metrics: NAMED
                .into_iter()
                .zip(values)
                .filter_map(|(name, value)| Some((name, value?)))
                .collect(),
        }
    }

    /// As text: names and values.
    pub(crate) fn text(&self) -> String {
        let whole = [
            ("cpu_utilization", self.cpu_utilization),
            ("mem_utilization", self.mem_utilization),
        ];
        let whole = whole.into_iter();
        let whole = whole.filter_map(|(name, value)| Some(format!("{name}={}", value?)));
        let named = self.named_metrics.iter();
        let named = named.map(|(name, value)| format!("named_metrics.{name}={value}"));
        whole.chain(named).collect::<Vec<_>>().join(",")
    }
}

fn orca(_: &Selection, snapshots: Snapshots<'_>, info: &Info) -> Result<Vec<u8>, Refusal> {
    let (_, sum) = covered_sum_of(snapshots, looked_at)?;
    let report = sum
        .sections
        .health
        .map(|health| Orca::of(&health, &judge(&health)));
    json(&Measured::of(info, NAME, report))
}

#[cfg(test)]
mod tests {
    use metrics_common::{Sections, Snapshot, fixture};
    use serde_json::Value;

    use super::*;

    fn asked(
        answer: fn(&Selection, Snapshots<'_>, &Info) -> Result<Vec<u8>, Refusal>,
        health: Option<Health>,
    ) -> Value {
        let snapshot = Snapshot {
            interval_ns: 1_000_000_000,
            sections: Sections {
                health,
                ..Sections::default()
            },
            ..Snapshot::default()
        };
        let mut all = [Ok(snapshot)].into_iter();
        let text = answer(&Selection::default(), &mut all, &fixture::info()).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    #[test]
    fn the_answer_has_every_contribution_or_says_that_nothing_was_measured() {
        let answer = asked(score, Some(fixture::health()));
        assert_eq!(answer["intervals"], 1);
        assert_eq!(answer["reads"]["score"], 100.0);
        let names = answer["reads"]["contributions"].as_array().unwrap().iter();
        let names: Vec<&str> = names
            .map(|contribution| contribution["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["round_trip", "queueing", "storage"]);
        assert_eq!(answer["unavailable"][0]["figure"], "smart");
        assert_eq!(answer["groups"][0]["cgroup"], "/store");
        assert_eq!(answer["groups"][0]["hit_ratio"], 0.9);
        assert!(answer["groups"][1].get("cgroup").is_none(), "all others");
        let none = asked(score, None);
        assert_eq!(none["unavailable"], "not measured in this time");
    }

    #[test]
    fn a_load_report_has_the_names_of_orca_and_no_value_that_is_not_known() {
        let report = asked(orca, Some(fixture::health()));
        assert_eq!(report["cpu_utilization"], 0.25);
        assert_eq!(report["named_metrics"]["netto_read_score"], 1.0);
        let mut health = fixture::health();
        health.reference_ns = None;
        let report = asked(orca, Some(health));
        assert!(
            report["named_metrics"].get("netto_read_score").is_none(),
            "{report}"
        );
    }
}
