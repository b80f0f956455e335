//! netto: how much CPU networking costs this host, on which CPU, in which part
//! of the network stack.
//!
//! First what the user asked for, then the modules in the order in which data
//! goes through them.

pub mod cli;
pub mod config;
pub mod run;
pub mod telemetry;

pub mod daemon;

pub mod environment;

pub mod commands;
pub mod inspect;

pub mod features;
