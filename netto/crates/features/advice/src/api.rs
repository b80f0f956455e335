//! `/api/v1/advice`: what the newest snapshots, added up, give reason for.

use metrics_common::Info;
use netto_judges::advice::{Adviser, Judgement, looked_at};
use netto_questions::api::{
    Answer, Api, Covered, Question, Refusal, Snapshots, covered_sum_of, json,
};
use netto_questions::selection::Selection;
use serde::Serialize;

/// Its section as it is, and the question.
pub(crate) const API: Api = Api {
    questions: &[Question {
        name: crate::NAME,
        keys: &["last"],
        answer: Answer::Recent(answer),
    }],
    ..Api::SECTION
};

/// The schemas of its answers, by the names of the questions.
#[cfg(feature = "schema")]
pub const SCHEMAS: &[netto_questions::api::NamedSchema] = &[
    ("advice", schemars::SchemaGenerator::root_schema_for::<View>),
    (
        "report",
        schemars::SchemaGenerator::root_schema_for::<crate::report::ReportMember>,
    ),
];

/// What could be tried on this host.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct View {
    #[serde(flatten)]
    pub(crate) covered: Covered,
    #[serde(flatten)]
    pub(crate) judgement: Judgement,
}

fn answer(_: &Selection, snapshots: Snapshots<'_>, _: &Info) -> Result<Vec<u8>, Refusal> {
    let (covered, sum) = covered_sum_of(snapshots, looked_at)?;
    let judgement = Adviser::default().judge(&sum);
    json(&View { covered, judgement })
}
