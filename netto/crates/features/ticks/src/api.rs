//! Its question over HTTP: the newest snapshots added up.

use metrics_common::Info;
use metrics_common::sections::Ticks;
use netto_questions::api::{Answer, Api, Measured, Question, Refusal, Snapshots, json, sum_of};
use netto_questions::selection::Selection;

/// Its section as it is, and `/api/v1/ticks`.
pub(crate) const API: Api = Api {
    questions: &[Question {
        name: crate::NAME,
        keys: &["last"],
        answer: Answer::Recent(answer),
    }],
    ..Api::SECTION
};

fn answer(_: &Selection, snapshots: Snapshots<'_>, info: &Info) -> Result<Vec<u8>, Refusal> {
    let sum = sum_of(snapshots)?;
    text(info, sum.and_then(|sum| sum.sections.ticks))
}

/// The answer, which is also what the terminal gives as JSON.
pub(crate) fn text(info: &Info, ticks: Option<Ticks>) -> Result<Vec<u8>, Refusal> {
    json(&Measured::of(info, crate::NAME, ticks))
}
