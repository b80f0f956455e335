//! The wall around the kernel: all that sends, and all unsafe code of this crate, is here. Knows
//! nothing of records and their times.

mod helper;
mod interface;
mod messages;
mod neighbour;
mod ring;
mod sender;
mod socket;
mod waiting;

pub use interface::{Interface, is_initial_namespace};
pub use sender::{Sender, Way};
pub use waiting::{sleep_exactly, wake_exactly};
