//! `netto synth`: makes packets from records of flows, and writes them to a file or sends them.

pub mod packet;
pub mod plan;
mod random;
pub mod read;
pub mod record;
