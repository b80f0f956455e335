//! Its section as it is, and its lines on a terminal.

use netto_questions::api::{Api, Breakdown};

use crate::terminal;

/// The form of the section in the API.
pub(crate) const API: Api = Api {
    breakdown: Some(Breakdown {
        key: 'i',
        name: "intruders",
        lines: terminal::lines,
    }),
    ..Api::SECTION
};

/// The schemas of its answers, by the names of the questions.
#[cfg(feature = "schema")]
pub const SCHEMAS: &[netto_questions::api::NamedSchema] = &[(
    "report",
    schemars::SchemaGenerator::root_schema_for::<crate::report::ReportMember>,
)];
