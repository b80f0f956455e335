//! Subcommands that have a file or folder of their own.

mod daemon;
pub mod diff;
pub mod dump;
mod figures;
pub mod log;
mod output;
mod progress;
pub mod replay;
pub mod report;
mod stacks;
pub mod top;
