//! What latencies need of the kernel: the programs, stamps at the arrival of packets, and the
//! numbers of what the user names.

pub mod clock;
pub mod names;
pub mod probes;
pub mod stamps;
