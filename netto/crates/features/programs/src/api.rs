//! Its question over HTTP: the newest snapshots added up.

use netto_questions::api::{Api, Question};

/// Its section as it is, and `/api/v1/programs`.
pub(crate) const API: Api = Api {
    questions: &[Question::of_section(crate::NAME)],
    ..Api::SECTION
};
