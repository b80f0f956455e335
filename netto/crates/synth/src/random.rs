//! Numbers that look random and are the same for the same seed.

use metrics_common::random::SplitMix64;

/// A number made of several.
pub fn mix_all(numbers: &[u64]) -> u64 {
    numbers
        .iter()
        .fold(0, |sum, number| SplitMix64(sum ^ number).next_u64())
}
