//! Which packets are sent when: pure, and of a size that follows the flows under way, not the
//! records.

mod flow;
mod in_order;
mod pace;
mod schedule;
mod sizes;
mod times;

pub use flow::{Flow, Refusal};
pub use in_order::InOrder;
pub use pace::{Pace, Speed};
pub use schedule::{Due, Schedule};
pub use sizes::Impossible;
pub use times::Jitter;

#[cfg(test)]
mod tests;
