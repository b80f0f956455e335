//! What touches the kernel and C: the programs at interfaces, and the parser for packets from files.

pub(crate) mod collector;
pub(crate) mod parser;
