//! Subcommands that have a file or folder of their own.

pub mod diff;
mod figures;
mod output;
mod progress;
pub mod replay;
pub mod report;
pub mod top;
