//! `netto synth`: makes packets from records of flows, and writes them to a file or sends them.
//!
//! A record goes from `read` (which format), by `intake` (what is wrong with it), to `plan` (which
//! packet when), and a packet from there by `packet` (which bytes) to `pcap`, or by `send` to
//! `kernel`. All but the last two is pure.

pub mod args;
mod intake;
mod kernel;
mod lateness;
pub mod packet;
mod passes;
mod pcap;
pub mod plan;
mod progress;
mod random;
pub mod read;
pub mod record;
pub mod rewrite;
mod run;
mod send;
mod summary;

pub use run::run;
