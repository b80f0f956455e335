//! Shares of segments that were found in clusters: the lot is drawn for each skb, which carries many
//! segments of one flow (TSO and GRO).

use crate::figure::Figure;
use crate::quantile::NORMAL;

/// Skbs that are expected at the most where none was met (95 %, two-sided: J. A. Hanley and A. Lippman-Hand,
/// *If nothing goes wrong, is everything all right?*, JAMA 249, 1983).
const MOST_MISSED: f64 = 3.689;

/// What was sampled of a flow, or of all.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SampledShare {
    /// Segments.
    pub segments: f64,
    /// The sum over skbs of the squares of their numbers of segments.
    pub squares: f64,
}

impl SampledShare {
    /// This flow's part of `total` segments, of which `all` were sampled.
    ///
    /// A ratio estimate from clusters of unlike sizes: with m segments in an skb and the flow's share p,
    /// the variance of the share is the sum of m² (i - p)² over skbs, where i is 1 for the flow's and 0 for
    /// the others', by the square of all segments (W. G. Cochran, *Sampling Techniques*, 3rd edition, 1977,
    /// section 9A.1, with the correction for a finite population). Of a flow that has all that was sampled,
    /// this would be nothing: others may have been missed.
    pub fn figure(&self, all: &SampledShare, total: f64) -> Figure {
        if all.segments <= 0.0 || total <= 0.0 {
            return Figure::default();
        }
        let share = (self.segments / all.segments).min(1.0);
        let missed = MOST_MISSED / NORMAL * all.squares / all.segments;
        let others = (all.squares - self.squares).max(missed * missed);
        let squares = (1.0 - share).powi(2) * self.squares + share * share * others;
        let unseen = (1.0 - all.segments / total).max(0.0);
        let weight = total / all.segments;
        Figure {
            value: share * total,
            variance: unseen * weight * weight * squares,
            ..Figure::default()
        }
    }
}

impl std::ops::AddAssign for SampledShare {
    fn add_assign(&mut self, more: SampledShare) {
        self.segments += more.segments;
        self.squares += more.squares;
    }
}

impl std::iter::Sum for SampledShare {
    fn sum<I: Iterator<Item = SampledShare>>(shares: I) -> SampledShare {
        shares.fold(SampledShare::default(), |mut sum, more| {
            sum += more;
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_that_has_all_sampled_packets_may_lack_those_of_the_rule_of_three() {
        let all = SampledShare {
            segments: 1_000.0,
            squares: 10_000.0,
        };
        let flow = all.figure(&all, 1e6);
        let (low, _) = flow.interval(0.0);
        // A hundred skbs of ten packets.
        let missed = (flow.value - low) / 1e6;
        assert!((missed - 0.0369).abs() < 0.001, "{missed}");
    }

    #[test]
    fn nothing_is_missed_of_packets_that_all_were_counted() {
        let all = SampledShare {
            segments: 1_000.0,
            squares: 10_000.0,
        };
        assert_eq!(all.figure(&all, 1_000.0).variance, 0.0);
    }
}
