//! Evaluations of logs: summaries, comparisons, stacks. Pure: each is given one interval after the
//! other, keeps bounded data, and returns its result at the end.

pub mod compare;
pub mod stacks;
pub mod summary;
