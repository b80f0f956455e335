//! JSON Schemas of the answers, made from the types that are written as JSON. Descriptions are the
//! doc comments of the fields.
//!
//! The types implement `JsonSchema` only with their crate's feature `schema`, which this crate alone
//! switches on. It is for tests: neither the daemon nor the page is built with it.

mod rules;

use metrics_common::Info;
use netto_pipeline::overview::OverviewTable;
use netto_pipeline::playback::Status;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};

/// Makes the schema of a type.
type Make = fn(&mut SchemaGenerator) -> Schema;

/// The name of each generated schema, and the type that it describes.
const ANSWERS: &[(&str, Make)] = &[
    ("info", SchemaGenerator::root_schema_for::<Info>),
    ("replay", SchemaGenerator::root_schema_for::<Status>),
    (
        "replay-course",
        SchemaGenerator::root_schema_for::<OverviewTable>,
    ),
];

/// Each generated schema, with its name.
pub fn schemas() -> impl Iterator<Item = (&'static str, Schema)> {
    let features = [
        netto_advice::SCHEMAS,
        netto_anomalies::SCHEMAS,
        netto_health::SCHEMAS,
    ];
    let answers = features.into_iter().flatten().chain(ANSWERS);
    answers.map(|(name, make)| (*name, schema(name, *make)))
}

fn schema(name: &str, make: Make) -> Schema {
    // What is written, not what may be read: a field that has a default is required nevertheless.
    let mut generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator();
    let mut schema = make(&mut generator);
    rules::apply(&mut schema);
    rules::describe(&mut schema);
    schema.insert("title".to_owned(), format!("netto: {}", asked(name)).into());
    schema
}

/// The path or command whose answer a schema describes.
fn asked(name: &str) -> String {
    match name {
        "diff" | "report" => format!("netto {name} --format json"),
        "replay-course" => "/api/v1/replay/course".to_owned(),
        name => format!("/api/v1/{name}"),
    }
}
