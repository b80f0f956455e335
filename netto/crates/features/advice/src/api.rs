//! `/api/v1/advice`: what the newest snapshots, added up, give reason for.

use metrics_common::Info;
use metrics_common::advice::{Adviser, Judgement, looked_at};
use netto_questions::api::{Answer, Api, Covered, Question, Refusal, Snapshots, json, sum_of};
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

/// Advice as JSON.
#[derive(Serialize)]
pub(crate) struct View {
    #[serde(flatten)]
    pub(crate) covered: Covered,
    #[serde(flatten)]
    pub(crate) judgement: Judgement,
}

fn answer(_: &Selection, snapshots: Snapshots<'_>, _: &Info) -> Result<Vec<u8>, Refusal> {
    let mut covered = Covered::default();
    let mut parts = snapshots.map(|snapshot| {
        let snapshot = snapshot?;
        covered.add(&snapshot);
        Ok(looked_at(&snapshot))
    });
    let sum = sum_of(&mut parts)?.unwrap_or_default();
    let judgement = Adviser::default().judge(&sum);
    json(&View { covered, judgement })
}
