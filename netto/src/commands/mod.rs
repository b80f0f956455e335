//! Subcommands that have a file or folder of their own.

mod daemon;
pub mod diff;
pub mod dump;
mod feed;
mod figures;
pub mod latency;
pub mod log;
mod output;
mod progress;
pub mod replay;
pub mod report;
mod stacks;
pub mod top;
mod window;
