//! netto: how much CPU networking costs this host, on which CPU, in which part
//! of the network stack.
//!
//! The modules stand in the order in which data goes through them.

pub mod cli;
pub mod config;
pub mod telemetry;

pub mod run;

pub mod kernel;

pub mod analysis;

pub mod measurement;

pub mod actors;
pub mod sinks;

pub mod inspect;
