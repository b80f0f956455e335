//! Flows: who talks to whom. BPF programs count each packet of an interface to its flow; this process
//! puts the flows together and shows them. No packet is dropped, changed or delayed.

mod capture;
mod command;
mod conversations;
mod flow;
#[cfg(test)]
mod frames;
mod kernel;
mod records;
mod report;
mod table;

pub use command::{FlowsArgs, run};

/// What the programs and this crate agree on; see `build.rs`.
#[allow(dead_code, reason = "some words are the programs' own")]
mod abi {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

netto_sys::skeleton!(flows_skel, "/flows.skel.rs");
