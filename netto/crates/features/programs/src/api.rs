//! Its question over HTTP: the newest snapshots added up.

use netto_questions::api::{Api, Question};

/// Its section as it is, and `/api/v1/programs`.
pub(crate) const API: Api = Api {
    questions: &[Question::of_section(crate::NAME)],
    ..Api::SECTION
};

/// The schemas of its answers, by the names of the questions.
#[cfg(feature = "schema")]
pub const SCHEMAS: &[netto_questions::api::NamedSchema] = &[
    (
        "programs",
        schemars::SchemaGenerator::root_schema_for::<
            netto_questions::api::Measured<'static, metrics_common::sections::Programs>,
        >,
    ),
    (
        "report",
        schemars::SchemaGenerator::root_schema_for::<crate::report::ReportMember>,
    ),
];
