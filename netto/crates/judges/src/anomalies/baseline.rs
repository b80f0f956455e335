//! What is usual for one metric. Pure.
//!
//! **Median and MAD of the largest values of five seconds each**, over the last ten minutes in which the
//! metric was known. Why not the alternatives:
//!
//! * Mean and deviation follow the very values that they should tell apart: one outlier of many hides
//!   the next (masking). Median and MAD (median absolute deviation) stand up to half of the values being
//!   wrong; P. Rousseeuw and C. Croux, "Alternatives to the Median Absolute Deviation", Journal of the
//!   American Statistical Association 88, 1993, have the breakdown points and the factor 1.4826 that
//!   makes MAD the deviation of a normal distribution.
//! * EWMA needs less memory, and forgets: after some minutes of an anomaly it is usual, and after a quiet
//!   night any morning is an anomaly. A window that only grows by what is usual does neither.
//! * Values of single intervals are mostly zero for what is counted rarely, so that median and MAD are
//!   zero, too. The largest of a block is what one must expect of such a metric (block maxima, as for
//!   floods: E. Gumbel, "Statistics of Extremes", 1958), and bursts that come often become usual.
//!
//! MAD alone is blind to what happens in less than half of the blocks, so the deviation is at least what
//! the ninth decile says, for a normal distribution at 1.2816 deviations.

/// Length of a block, of known time, nanoseconds.
pub const BLOCK_NS: u64 = 5_000_000_000;
/// Blocks that are kept: ten minutes.
pub const MOST_BLOCKS: usize = 120;
/// Blocks before which nothing is said: a minute.
pub const WARM_BLOCKS: usize = 12;

/// From MAD to the deviation of a normal distribution.
const MAD_TO_DEVIATION: f64 = 1.4826;
/// A normal distribution's ninth decile, in deviations.
const NINTH_DECILE: f64 = 1.2816;

/// The largest values of blocks, and what they say is usual.
#[derive(Debug, Clone)]
pub(super) struct Baseline {
    blocks: [f32; MOST_BLOCKS],
    /// How many of them there are.
    count: usize,
    /// Which is overwritten next.
    next: usize,
    /// The block that has begun.
    largest: f64,
    block_ns: u64,
    usual: Usual,
}

/// What is usual.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Usual {
    /// The median.
    pub(super) center: f64,
    /// The deviation.
    pub(super) spread: f64,
}

impl Default for Baseline {
    fn default() -> Self {
        Baseline {
            blocks: [0.0; MOST_BLOCKS],
            count: 0,
            next: 0,
            largest: f64::NEG_INFINITY,
            block_ns: 0,
            usual: Usual::default(),
        }
    }
}

impl Baseline {
    /// What is usual; `None` while too little is known.
    pub(super) fn usual(&self) -> Option<Usual> {
        (self.count >= WARM_BLOCKS).then_some(self.usual)
    }

    /// Adds a value that is usual, of this time.
    pub(super) fn add(&mut self, value: f64, length_ns: u64) {
        self.largest = self.largest.max(value);
        self.block_ns = self.block_ns.saturating_add(length_ns);
        if self.block_ns >= BLOCK_NS {
            let largest = self.largest;
            self.push(largest);
        }
    }

    /// Adds a whole block, and begins a new one.
    pub(super) fn push(&mut self, largest: f64) {
        self.blocks[self.next] = largest as f32;
        self.next = (self.next + 1) % MOST_BLOCKS;
        self.count = (self.count + 1).min(MOST_BLOCKS);
        (self.largest, self.block_ns) = (f64::NEG_INFINITY, 0);
        self.usual = usual_of(&self.blocks[..self.count]);
    }
}

/// Of at least one block.
fn usual_of(blocks: &[f32]) -> Usual {
    let mut room = [0.0; MOST_BLOCKS];
    let sorted = &mut room[..blocks.len()];
    sorted.copy_from_slice(blocks);
    sorted.sort_unstable_by(f32::total_cmp);
    let center = f64::from(sorted[sorted.len() / 2]);
    let tenth = f64::from(sorted[sorted.len() * 9 / 10]);
    for value in &mut *sorted {
        *value = (f64::from(*value) - center).abs() as f32;
    }
    sorted.sort_unstable_by(f32::total_cmp);
    let mad = f64::from(sorted[sorted.len() / 2]);
    let spread = (MAD_TO_DEVIATION * mad).max((tenth - center) / NINTH_DECILE);
    Usual { center, spread }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics_common::random::SplitMix64;

    fn of(blocks: impl IntoIterator<Item = f64>) -> Baseline {
        let mut baseline = Baseline::default();
        blocks.into_iter().for_each(|block| baseline.push(block));
        baseline
    }

    #[test]
    fn nothing_is_usual_before_a_minute_of_known_values() {
        let mut baseline = of([7.0; WARM_BLOCKS - 1]);
        assert_eq!(baseline.usual(), None);
        baseline.add(7.0, BLOCK_NS - 1);
        assert_eq!(baseline.usual(), None);
        baseline.add(6.0, 1);
        let (center, spread) = (7.0, 0.0);
        assert_eq!(baseline.usual(), Some(Usual { center, spread }));
    }

    #[test]
    fn median_and_deviation_of_normal_values_are_those_of_their_distribution() {
        let mut random = SplitMix64(7);
        // The sum of twelve numbers of 0 to 1 has the deviation 1.
        let normal = |random: &mut SplitMix64| (0..12).map(|_| random.ratio()).sum::<f64>() - 6.0;
        let baseline = of((0..MOST_BLOCKS).map(|_| 50.0 + 4.0 * normal(&mut random)));
        let Usual { center, spread } = baseline.usual().unwrap();
        assert!((center - 50.0).abs() < 1.5, "{center}");
        assert!((3.0..5.5).contains(&spread), "{spread}");
    }

    #[test]
    fn a_few_wild_blocks_change_nothing_and_many_are_usual() {
        let with = |wild: usize| {
            let all = (0..MOST_BLOCKS).map(|block| if block < wild { 1e6 } else { 2.0 });
            of(all).usual().unwrap()
        };
        for wild in [0, 1, 11] {
            assert_eq!(with(wild), with(0), "{wild}");
        }
        assert!(with(20).spread > 7e5, "{:?}", with(20));
        assert_eq!(with(80).center, 1e6);
    }

    #[test]
    fn the_oldest_blocks_go() {
        let old = std::iter::repeat_n(1.0, 10 * MOST_BLOCKS);
        let baseline = of(old.chain(std::iter::repeat_n(3.0, MOST_BLOCKS)));
        assert_eq!(baseline.usual().map(|usual| usual.center), Some(3.0));
    }
}
