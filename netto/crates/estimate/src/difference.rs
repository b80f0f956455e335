//! The uncertainty of a difference: a bootstrap over blocks of neighbouring intervals, for all
//! components at once. Pure; the same input gives the same output.
//!
//! **Blocks.** Consecutive intervals are correlated: a second with much traffic is followed by
//! another. Drawing single intervals would treat them as independent, and find every difference
//! significant. Each side is therefore cut into at least [`BLOCKS`] blocks of neighbours, as long
//! as possible, and whole blocks are drawn. Long blocks are the safe choice: they contain the
//! correlation. For strong correlation, blocks become longer still and fewer (at least
//! [`FEWER_BLOCKS`]). The price is some precision, because few blocks tell their variance less
//! exactly; the t distribution accounts for that. Adjacent blocks are still correlated if the
//! correlation lasts as long as a block. This is estimated from the correlation of neighbouring
//! cells (a first-order autoregression, with its bias removed), and widens the interval
//! accordingly.
//!
//! **Many components.** With 95 % confidence for each, four of 78 unchanged components would be
//! called changed. Therefore the same draws are used for all components, and the component with the
//! largest deviation of each draw counts (P. Westfall and S. Young, 1993): in 95 % of comparisons
//! without a change, no component is called changed. Correlated components, such as a whole and its
//! parts, cost no more than one; dividing the 5 % by 78 would ignore that.

use serde::Serialize;

use crate::quantile::student;
use crate::random::SplitMix64;

/// Least number of blocks of each side, if there are enough intervals.
pub const BLOCKS: usize = 32;
/// Least number of blocks of each side if correlation requires longer blocks.
const FEWER_BLOCKS: usize = 12;
/// Least length of a block, in multiples of the number of cells that are worth one independent
/// cell.
const LENGTHS: f64 = 2.0;
/// With fewer blocks, no significance is reported.
pub const FEWEST_BLOCKS: usize = 8;
/// Number of draws.
const DRAWS: usize = 2_000;
/// Share of draws in which the difference must be smaller. Stricter than the promised 95 %, because
/// the correlation itself is only estimated.
const CONFIDENCE: f64 = 0.975;
/// A stronger correlation of neighbours cannot be told from a trend.
const MOST_CORRELATED: f64 = 0.98;

/// Some consecutive intervals of a side.
pub trait Cell: Default {
    /// The time of a row.
    fn time(&self, row: usize) -> f64;
    /// Adds those that follow.
    fn add(&mut self, more: &Self);
}

/// A difference, the second side's figure minus the first's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// The observed difference.
    pub value: f64,
    /// Where it lies: the intervals of all components hold the truth together with a confidence of
    /// 95 %; null if there are too few intervals.
    pub interval: Option<(f64, f64)>,
}

/// The deviations of one component on one side from its mean, block by block.
#[derive(Debug, Clone)]
pub struct Deviations {
    /// Deviation of each block, relative to the mean; they sum to 0.
    blocks: Vec<f64>,
    /// The variance of the mean.
    variance: f64,
}

/// The deviation of each cell from the mean of all, relative to that mean, for the ratio of a
/// component's time to `weight`.
fn from_mean<C: Cell>(cells: &[C], row: usize, weight: fn(&C) -> u64) -> Vec<f64> {
    let all: f64 = cells.iter().map(|cell| weight(cell) as f64).sum();
    let mean = cells.iter().map(|cell| cell.time(row)).sum::<f64>() / all;
    let deviation = |cell: &C| (cell.time(row) - mean * weight(cell) as f64) / all;
    cells.iter().map(deviation).collect()
}

/// Correlation of neighbouring cells in these rows, from 0 to 1: the median, because each is only
/// known roughly.
pub fn likeness<C: Cell>(
    cells: &[C],
    rows: impl Iterator<Item = usize>,
    weight: fn(&C) -> u64,
) -> f64 {
    let mut all: Vec<f64> = rows
        .filter_map(|row| correlation(&from_mean(cells, row, weight)))
        .collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}

/// Groups of neighbouring cells: blocks, whose length follows from this correlation. `None` if
/// there are too few.
pub fn blocks<C: Cell>(cells: &[C], likeness: f64) -> Option<Vec<C>> {
    // This many cells are worth one independent cell.
    let cells_per_sample = (1.0 + likeness) / (1.0 - likeness);
    let wanted = (LENGTHS * cells_per_sample).round() as usize;
    let length = wanted.min(cells.len() / FEWER_BLOCKS);
    let length = length.max(cells.len() / BLOCKS).max(1);
    // An incomplete block at the end is dropped, since it would count as a full one.
    let blocks: Vec<C> = cells
        .chunks_exact(length)
        .map(|chunk| {
            let mut sum = C::default();
            chunk.iter().for_each(|cell| sum.add(cell));
            sum
        })
        .collect();
    (blocks.len() >= FEWEST_BLOCKS).then_some(blocks)
}

impl Deviations {
    /// The deviations of a component; the correlation of its neighbouring cells is at least
    /// `likeness`.
    pub fn of<C: Cell>(
        cells: &[C],
        blocks: &[C],
        row: usize,
        weight: fn(&C) -> u64,
        likeness: f64,
    ) -> Self {
        let (count, cell_count) = (blocks.len() as f64, cells.len() as f64);
        let cell_correlation = correlation(&from_mean(cells, row, weight)).unwrap_or(0.0);
        let likeness = cell_correlation.max(likeness);
        // An interval that is sometimes too wide is better than a false change.
        let likeness = likeness + ((1.0 - likeness * likeness) / cell_count).sqrt();
        let likeness = likeness.min(MOST_CORRELATED);
        let widening = widening(likeness, cell_count / count, count);
        // Drawing blocks from themselves underestimates the variance by one block.
        let scale = (widening * count / (count - 1.0)).sqrt();
        let blocks = from_mean(blocks, row, weight);
        let blocks: Vec<f64> = blocks.iter().map(|deviation| deviation * scale).collect();
        let variance = blocks.iter().map(|deviation| deviation * deviation).sum();
        Deviations { blocks, variance }
    }

    fn freedom(&self) -> f64 {
        self.blocks.len() as f64 - 1.0
    }
}

/// The correlation of neighbours, at least 0, corrected for the bias of its estimate (M. G.
/// Kendall, 1954). `None` if all values are equal.
fn correlation(deviations: &[f64]) -> Option<f64> {
    let square: f64 = deviations
        .iter()
        .map(|deviation| deviation * deviation)
        .sum();
    if square <= 0.0 || deviations.len() < 3 {
        return None;
    }
    let product: f64 = deviations.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let found = product / square;
    let unbiased = found + (1.0 + 3.0 * found) / deviations.len() as f64;
    Some(unbiased.clamp(0.0, MOST_CORRELATED))
}

/// The factor from the variance between blocks to that of the mean, for this correlation of
/// neighbouring cells and this number of cells in a block.
fn widening(correlation: f64, length: f64, count: f64) -> f64 {
    // The variance of the mean of n values of an autoregression, relative to that of one value.
    let of_mean = |n: f64| {
        let rest = 1.0 - correlation;
        let all = (1.0 + correlation) / rest
            - 2.0 * correlation * (1.0 - correlation.powf(n)) / (n * rest * rest);
        all / n
    };
    let (block, all) = (of_mean(length), of_mean(length * count));
    let widening = all * (count - 1.0) / (block - all);
    if widening.is_finite() {
        widening.max(1.0)
    } else {
        1.0
    }
}

/// The margin of each component's difference, nanoseconds per nanosecond.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    /// Standard error of the difference.
    pub error: f64,
    /// Half the interval's length, in standard errors.
    pub factor: f64,
}

/// The standard error of a difference.
pub fn error((a, b): &(Deviations, Deviations)) -> f64 {
    (a.variance + b.variance).sqrt()
}

/// The margin of each component, given both sides of all of them.
pub fn margins(sides: &[(Deviations, Deviations)]) -> Vec<Margin> {
    let errors: Vec<f64> = sides.iter().map(error).collect();
    let normal = furthest(sides, &errors);
    sides
        .iter()
        .zip(errors)
        .map(|((a, b), error)| {
            // F. E. Satterthwaite, 1946.
            let each = |side: &Deviations| side.variance * side.variance / side.freedom();
            let square = (a.variance + b.variance).powi(2);
            let freedom = square / (each(a) + each(b));
            let factor = if freedom.is_finite() {
                student(normal, freedom)
            } else {
                normal
            };
            Margin { error, factor }
        })
        .collect()
}

/// The largest deviation of any component, in standard errors, in [`CONFIDENCE`] of draws.
fn furthest(sides: &[(Deviations, Deviations)], errors: &[f64]) -> f64 {
    let Some((first_a, first_b)) = sides.first() else {
        return 0.0;
    };
    let mut random = SplitMix64(0x6e65_7474_6f00_0001);
    let mut of_a = vec![0.0; first_a.blocks.len()];
    let mut of_b = vec![0.0; first_b.blocks.len()];
    let mut furthest: Vec<f64> = (0..DRAWS)
        .map(|_| {
            draw(&mut random, &mut of_a);
            draw(&mut random, &mut of_b);
            let sum = |side: &Deviations, drawn: &[f64]| -> f64 {
                let blocks = side.blocks.iter().zip(drawn);
                blocks.map(|(deviation, times)| deviation * times).sum()
            };
            let compared = sides.iter().zip(errors).filter(|(_, error)| **error > 0.0);
            compared
                .map(|((a, b), error)| ((sum(b, &of_b) - sum(a, &of_a)) / error).abs())
                .fold(0.0, f64::max)
        })
        .collect();
    furthest.sort_by(f64::total_cmp);
    let at = (CONFIDENCE * DRAWS as f64).ceil() as usize - 1;
    furthest.get(at).copied().unwrap_or(0.0)
}

/// Draws with replacement, and counts how often each is drawn.
fn draw(random: &mut SplitMix64, times: &mut [f64]) {
    times.fill(0.0);
    let count = times.len() as u64;
    for _ in 0..count {
        times[random.below(count) as usize] += 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_alike_beyond_a_block_widens_and_what_is_not_does_not() {
        assert!((widening(0.0, 8.0, 32.0) - 1.0).abs() < 1e-9);
        assert!(widening(0.5, 50.0, 32.0) < 1.1);
        let wide = widening(0.9, 16.0, 32.0);
        assert!((1.3..2.5).contains(&wide), "{wide}");
        assert!(widening(0.98, 1.0, 8.0).is_finite());
    }

    #[test]
    fn draws_are_always_the_same_and_even() {
        let sums = || {
            let mut times = vec![0.0; 10];
            let mut sums = vec![0.0; 10];
            let mut random = SplitMix64(1);
            for _ in 0..1_000 {
                draw(&mut random, &mut times);
                sums.iter_mut().zip(&times).for_each(|(sum, n)| *sum += n);
            }
            sums
        };
        let sums = [sums(), sums()];
        assert_eq!(sums[0], sums[1]);
        assert!(
            sums[0].iter().all(|sum| (850.0..1150.0).contains(sum)),
            "{sums:?}"
        );
    }
}
