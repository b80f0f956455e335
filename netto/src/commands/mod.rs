//! Subcommands that have a file or folder of their own.

pub mod dump;
pub mod log;
pub mod replay;
