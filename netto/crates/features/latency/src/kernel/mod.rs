//! Access to the kernel for latencies: the programs, timestamps of arriving packets, and the
//! numbers of named objects.

pub mod clock;
pub mod names;
pub mod probes;
pub mod stamps;
