//! netto: how much CPU networking costs this host, on which CPU, in which part
//! of the network stack.
//!
//! The modules stand in the order in which data goes through them.

pub mod analysis;
pub mod kernel;
pub mod measurement;
