//! What a measurement means, from snapshots alone: whether networking is a problem, what is unusual, what to do.
//! Pure, and the same in the daemon, in reports and on the page.
//!
//! * [`verdict`]: whether networking is a problem, where, and whose.
//! * [`advice`]: reasons for a large component, remedies, and rules that look at figures.
//! * [`anomalies`]: what left its usual values, when, and what moved with it.
//! * [`efficiency`]: networking's CPU time in relation to its work.
//! * [`steady`]: the last seconds as one interval.

pub mod advice;
#[cfg(not(target_arch = "wasm32"))]
pub mod anomalies;
pub mod efficiency;
pub mod steady;
pub mod verdict;

pub use efficiency::Efficiency;
