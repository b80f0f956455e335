//! Its question over HTTP: the newest snapshots added up.

use metrics_common::sections::Programs;
use metrics_common::{Info, Snapshot};
use netto_questions::api::{Answer, Api, Measured, Question, Refusal, Snapshots, json};
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
    let mut sum: Option<Snapshot> = None;
    for snapshot in snapshots {
        match &mut sum {
            Some(sum) => sum.add(&snapshot?),
            None => sum = Some(snapshot?),
        }
    }
    text(info, sum.and_then(|sum| sum.sections.programs))
}

/// The answer, which is also what the terminal gives as JSON.
pub(crate) fn text(info: &Info, programs: Option<Programs>) -> Result<Vec<u8>, Refusal> {
    json(&Measured::of(info, crate::NAME, programs))
}
