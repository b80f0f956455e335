//! JSON Schemas of the answers, made from the types that are written as JSON. Descriptions are the
//! doc comments of the fields.
//!
//! The types implement `JsonSchema` only with their crate's feature `schema`, which this crate alone
//! switches on. It is for tests: neither the daemon nor the page is built with it.

mod rules;

use std::collections::BTreeMap;

use metrics_common::Info;
use metrics_common::sections::{
    Drops, Flows, Health, Intruders, Latency, Programs, Setup, Slowest, Traffic,
};
use netto_offline::compare::Comparison;
use netto_pipeline::overview::OverviewTable;
use netto_pipeline::playback::Status;
use netto_questions::api::NamedSchema;
use netto_questions::history::table::Table;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// Those that belong to no feature. What has the same name is one answer: each has some of its members.
const ANSWERS: &[NamedSchema] = &[
    ("diff", SchemaGenerator::root_schema_for::<Comparison>),
    ("history", SchemaGenerator::root_schema_for::<Table>),
    ("info", SchemaGenerator::root_schema_for::<Info>),
    ("replay", SchemaGenerator::root_schema_for::<Status>),
    (
        "replay-course",
        SchemaGenerator::root_schema_for::<OverviewTable>,
    ),
    netto_report::report::SCHEMA,
    ("snapshot", SchemaGenerator::root_schema_for::<Snapshot>),
];

/// Those of features.
const FEATURES: &[&[NamedSchema]] = &[
    netto_advice::SCHEMAS,
    netto_anomalies::SCHEMAS,
    netto_cost::SCHEMAS,
    netto_flows::SCHEMAS,
    netto_health::SCHEMAS,
    netto_intruders::SCHEMAS,
    netto_latency::SCHEMAS,
    netto_modes::SCHEMAS,
    netto_own::SCHEMAS,
    netto_owners::SCHEMAS,
    netto_power::SCHEMAS,
    netto_programs::SCHEMAS,
    netto_slowest::SCHEMAS,
];

// Its head, and the sections that no feature arranges; those that do add theirs.
/// The latest interval. Arrays per CPU are in the order of `cpus`.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its fields' names and types are of use")]
struct Snapshot {
    /// Counts up by one from 1.
    sequence: u64,
    /// End of the interval, nanoseconds since the Unix epoch.
    time_unix_ns: u64,
    /// Length of the interval, nanoseconds.
    interval_ns: u64,
    /// The kernel's number of each CPU, ascending.
    cpus: Vec<u32>,
    /// How the host is set up, as far as advice depends on it, as it was read last; what cannot be
    /// read is absent.
    #[schemars(skip_serializing_if = "Option::is_none")]
    advice: Option<Setup>,
    /// Packets that were dropped, in all network namespaces; absent where the instrument `drops`
    /// does not run.
    #[schemars(skip_serializing_if = "Option::is_none")]
    drops: Option<Drops>,
    /// Who talks to whom: packets of the interfaces of --flows. Absent if that is not asked for.
    #[schemars(skip_serializing_if = "Option::is_none")]
    flows: Option<Flows>,
    /// The host's health, on which its score depends (--health); what is not known is absent.
    #[schemars(skip_serializing_if = "Option::is_none")]
    health: Option<Health>,
    /// Softirqs on CPUs that are meant to be quiet; absent where there are no such CPUs, or nothing
    /// ran there.
    #[schemars(skip_serializing_if = "Option::is_none")]
    intruders: Option<Intruders>,
    /// How long packets waited inside the stack; absent where that is not measured.
    #[schemars(skip_serializing_if = "Option::is_none")]
    latency: Option<Latency>,
    /// CPU time of BPF programs on the way of packets; absent where that is not measured.
    #[schemars(skip_serializing_if = "Option::is_none")]
    programs: Option<Programs>,
    /// The slowest softirqs of those that were timed; absent where none are timed as a whole.
    #[schemars(skip_serializing_if = "Option::is_none")]
    slowest: Option<Slowest>,
    /// What work was done, in the interval; absent where the instrument `traffic` does not run.
    #[schemars(skip_serializing_if = "Option::is_none")]
    traffic: Option<Traffic>,
}

/// All schemas by their names.
pub fn schemas() -> BTreeMap<&'static str, Schema> {
    let mut generators = BTreeMap::new();
    let mut schemas = BTreeMap::new();
    let features = FEATURES.iter().copied().flatten();
    for (name, make) in ANSWERS.iter().chain(features) {
        // What is written, not what may be read: a field that has a default is required nevertheless.
        let settings = || SchemaSettings::draft2020_12().for_serialize();
        let generator = generators.entry(*name);
        let generator = generator.or_insert_with(|| settings().into_generator());
        let mut members = make(generator);
        rules::apply(&mut members);
        match schemas.get_mut(name) {
            Some(schema) => rules::add_members(schema, members),
            None => {
                rules::describe(&mut members);
                members.insert("title".to_owned(), format!("netto: {}", asked(name)).into());
                schemas.insert(*name, members);
            }
        }
    }
    schemas
}

/// The path or command whose answer a schema describes.
fn asked(name: &str) -> String {
    match name {
        "diff" | "report" => format!("netto {name} --format json"),
        "replay-course" => "/api/v1/replay/course".to_owned(),
        name => format!("/api/v1/{name}"),
    }
}
