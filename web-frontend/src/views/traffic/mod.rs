//! The work of networking, the cost of a packet, and dropped packets.

pub mod choices;
pub mod model;
pub mod tables;
pub mod unit_cost;

#[cfg(target_arch = "wasm32")]
pub mod page;
