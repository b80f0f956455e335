//! What touches the kernel and C: the programs at interfaces, and the parser for packets from files.

mod batch;
pub(crate) mod collector;
pub(crate) mod parser;
