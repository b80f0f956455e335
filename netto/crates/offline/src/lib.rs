//! What is done with logs after the fact: reading them, summing them up, comparing them.
//!
//! [`files`] and [`series`] make one series of the files of a host and are all that touches files;
//! [`times`] says which part of it is meant. [`summary`], [`compare`] and [`stacks`] are pure: they are shown one
//! interval after the other, keep a bounded amount of each, and say at the end what it was.

pub mod compare;
mod file;
pub mod files;
mod findings;
pub mod series;
pub mod stacks;
pub mod summary;
