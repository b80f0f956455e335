//! Shares of segments that were found in clusters: the lot is drawn for each skb, which carries many
//! segments of one flow (TSO and GRO).

use crate::figure::{Bounds, Figure};
use crate::proportion::Observed;
use crate::quantile::NORMAL;

/// What was sampled of a flow, or of all.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SampledShare {
    /// Segments.
    pub segments: f64,
    /// The sum over skbs of the squares of their numbers of segments.
    pub squares: f64,
}

impl SampledShare {
    /// Adds skbs.
    pub fn add(&mut self, segments: f64, squares: f64) {
        self.segments += segments;
        self.squares += squares;
    }

    /// The interval of this flow's part of `total` segments, of which `all` were sampled.
    ///
    /// A ratio estimate from clusters of unlike sizes: with m segments in an skb and the flow's share p,
    /// the variance of the share is the sum of m² (i - p)² over skbs, where i is 1 for the flow's and 0 for
    /// the others', by the square of all segments (W. G. Cochran, *Sampling Techniques*, 3rd edition, 1977,
    /// section 9A.1, with the correction for a finite population).
    pub fn interval(&self, all: &SampledShare, total: f64) -> Option<Bounds> {
        if self.segments <= 0.0 || total <= 0.0 {
            return None;
        }
        let share = (self.segments / all.segments).min(1.0);
        let others = (all.squares - self.squares).max(0.0);
        let squares = (1.0 - share).powi(2) * self.squares + share * share * others;
        let unseen = (1.0 - all.segments / total).max(0.0);
        let value = share * total;
        let worth = total / all.segments;
        let observed = Observed {
            value,
            variance: unseen * worth * worth * squares,
            weights: [unseen * worth * self.squares / self.segments; 2],
            whole: total,
        };
        let (low, high) = observed.interval(NORMAL);
        // What was sampled is certain.
        Some(
            Figure {
                value,
                ..Figure::default()
            }
            .with_shared((low.max(self.segments), high)),
        )
    }
}

impl std::iter::Sum for SampledShare {
    fn sum<I: Iterator<Item = SampledShare>>(shares: I) -> SampledShare {
        shares.fold(SampledShare::default(), |mut sum, more| {
            sum.add(more.segments, more.squares);
            sum
        })
    }
}
