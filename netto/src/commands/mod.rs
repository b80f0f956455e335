//! Subcommands that have a file or folder of their own.

mod daemon;
pub mod dump;
mod feed;
pub mod latency;
pub mod log;
pub mod replay;
pub mod top;
