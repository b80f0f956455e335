//! netto: how much CPU networking costs this host, on which CPU, in which part
//! of the network stack.
//!
//! First what the user asked for, then the modules in the order in which data
//! goes through them.

pub mod cli;
pub mod config;
pub mod outcome;
pub mod run;
pub mod telemetry;

pub mod daemon;

pub mod kernel;

pub mod analysis;

pub mod ground;
pub mod instruments;
pub mod measurement;

pub mod demo;
pub mod environment;
pub mod replay;

pub mod actors;
pub mod sinks;

pub mod commands;
pub mod inspect;
pub mod standalone;

pub mod offline;
pub mod utc;
