//! Flows: who talks to whom. BPF programs count each packet of an interface to its flow; this process
//! puts the flows together and shows them, as a command, or in each interval of the daemon. No packet
//! is dropped, changed or delayed.

use netto_analysis::tagged::Tags;
use netto_feature::instruments::Feature;

mod api;
mod capture;
mod command;
mod conversations;
mod demo;
mod export;
mod flow;
#[cfg(test)]
mod frames;
mod instrument;
mod interfaces;
mod kernel;
mod metrics;
mod names;
mod options;
mod records;
mod report;
mod sampling;
mod shares;
mod summary;
mod table;
mod tables;
mod talkers;

#[cfg(feature = "schema")]
pub use api::SCHEMAS;

pub use capture::try_capture;
pub use command::{FlowsArgs, run};

/// CPU time is measured without it.
pub const FEATURE: Feature = Feature {
    is_asked_for: |options| options.of::<options::Request>(NAME).is_some(),
    turned_off: TURNED_OFF,
    tags: |options| match options.of::<options::Request>(NAME) {
        Some(_) => Tags::Ends,
        None => Tags::None,
    },
    options: Some(options::OPTIONS),
    metrics: metrics::METRICS,
    api: api::API,
    demo: demo::generator,
    summary: Some(summary::summarizer),
    tables: tables::TABLES,
    ..Feature::new(NAME, instrument::start)
};

const NAME: &str = "flows";
const TURNED_OFF: &str = "not enabled; --flows INTERFACE counts who talks to whom";

/// What the programs and this crate agree on; see `build.rs`.
#[allow(dead_code, reason = "some words are the programs' own")]
mod abi {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

netto_sys::skeleton!(flows_skel, "/flows.skel.rs");
