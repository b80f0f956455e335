//! The slowest softirqs of the last minute; absent while there are none.

pub mod minute;
pub mod table;

#[cfg(target_arch = "wasm32")]
pub mod page;
