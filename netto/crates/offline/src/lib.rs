//! What is made of the intervals of logs: summaries, comparisons, stacks. Pure: each is shown one
//! interval after the other, keeps a bounded amount of them, and says in the end what it was.

pub mod compare;
pub mod stacks;
pub mod summary;
