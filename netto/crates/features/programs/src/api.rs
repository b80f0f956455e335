//! Its question over HTTP: the newest snapshots added up.

use metrics_common::Info;
use metrics_common::sections::Programs;
use netto_questions::api::{Answer, Api, Measured, Question, Refusal, Snapshots, json, sum_of};
use netto_questions::selection::Selection;

/// Its section as it is, and `/api/v1/programs`.
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
    text(info, sum.and_then(|sum| sum.sections.programs))
}

/// The answer, which is also what the terminal gives as JSON.
pub(crate) fn text(info: &Info, programs: Option<Programs>) -> Result<Vec<u8>, Refusal> {
    json(&Measured::of(info, crate::NAME, programs))
}
