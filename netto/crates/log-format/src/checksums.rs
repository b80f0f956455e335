//! Computes the checksum of any part of a buffer in almost constant time. Checksums of everything
//! before each 64th byte are stored. CRC-32 is linear, so the checksum of a part follows from those
//! at its two ends.
//!
//! The reader's work is linear because of this: however many offsets of a file claim to begin a
//! long block, each byte is hashed once, and each claim hashes at most two times 63 bytes more.

use std::collections::VecDeque;

use crc32fast::Hasher;

/// Bytes between two stored checksums.
pub(super) const STEP: usize = 64;

/// See the head of this file. Indices refer to the bytes given in each call.
#[derive(Debug)]
pub(super) struct PrefixChecksums {
    /// The checksum of everything before each multiple of [`STEP`], computed as far as needed.
    before: VecDeque<u32>,
    /// Bytes hashed so far.
    pub(super) hashed_bytes: u64,
}

impl PrefixChecksums {
    pub(super) fn new() -> Self {
        PrefixChecksums {
            before: VecDeque::from([0]),
            hashed_bytes: 0,
        }
    }

    /// Removes the first bytes, a multiple of [`STEP`]; indices then count from the new beginning.
    pub(super) fn forget(&mut self, steps: usize) {
        if steps < self.before.len() {
            self.before.drain(..steps);
        } else {
            // Only differences matter, so any initial value will do.
            self.before = VecDeque::from([0]);
        }
    }

    /// The checksum of `bytes[from..to]`.
    pub(super) fn of(&mut self, bytes: &[u8], from: usize, to: usize) -> u32 {
        let before = self.before(bytes, from);
        let all = self.before(bytes, to);
        let mut shifted = Hasher::new_with_initial(before);
        shifted.combine(&Hasher::new_with_initial_len(0, (to - from) as u64));
        shifted.finalize() ^ all
    }

    /// The checksum of everything before this index, up to a constant.
    fn before(&mut self, bytes: &[u8], index: usize) -> u32 {
        let step = index / STEP;
        while self.before.len() <= step {
            let last = self.before.len() - 1;
            let sum = self.hash(self.before[last], &bytes[last * STEP..(last + 1) * STEP]);
            self.before.push_back(sum);
        }
        self.hash(self.before[step], &bytes[step * STEP..index])
    }

    fn hash(&mut self, before: u32, bytes: &[u8]) -> u32 {
        self.hashed_bytes += bytes.len() as u64;
        let mut hasher = Hasher::new_with_initial(before);
        hasher.update(bytes);
        hasher.finalize()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_checksum_of_any_stretch_is_that_of_its_bytes(
            bytes in prop::collection::vec(any::<u8>(), 1..1000),
            stretches in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 1..20),
            steps in 0_usize..20,
        ) {
            let mut sums = PrefixChecksums::new();
            let mut bytes = bytes.as_slice();
            for round in 0..2 {
                for (a, b) in &stretches {
                    let (a, b) = (a.index(bytes.len() + 1), b.index(bytes.len() + 1));
                    let (from, to) = (a.min(b), a.max(b));
                    prop_assert_eq!(sums.of(bytes, from, to), crc32fast::hash(&bytes[from..to]));
                }
                let steps = steps.min(bytes.len() / STEP);
                if round == 0 {
                    sums.forget(steps);
                    bytes = &bytes[steps * STEP..];
                }
            }
        }
    }
}
