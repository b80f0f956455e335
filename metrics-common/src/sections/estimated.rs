//! Counts that are estimated, because their probes were attached for a part of the time only.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::text::percent;

/// The two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// How counts were estimated, and how sure they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Estimated {
    /// The time for which counts were estimated, nanoseconds.
    pub ns: u64,
    /// The part of it in which they were counted.
    pub counted_ns: u64,
    /// All that was counted, as it was estimated.
    pub events: u64,
    /// The variance of that, by how much windows differ.
    pub variance: u64,
}

impl Estimated {
    /// Half the 95 % confidence interval of all that was counted, relative to it; `None` without
    /// any.
    pub fn margin_ratio(&self) -> Option<f64> {
        (self.events > 0).then(|| Z * (self.variance as f64).sqrt() / self.events as f64)
    }

    /// One sentence for people.
    pub fn sentence(&self, what: &str) -> String {
        let share = percent(self.counted_ns as f64 / self.ns.max(1) as f64);
        let margin = self.margin_ratio().map(|margin| margin * 100.0);
        let margin = margin.map_or(String::new(), |margin| format!(", ± {margin:.0} % in all"));
        format!("{what} are estimated: they were counted for {share} of the time{margin}.")
    }

    /// Adds what a later interval says.
    pub(super) fn add(own: &mut Option<Self>, later: Option<&Self>) {
        let Some(later) = later else {
            return;
        };
        let sum = own.get_or_insert_default();
        sum.ns = sum.ns.saturating_add(later.ns);
        sum.counted_ns = sum.counted_ns.saturating_add(later.counted_ns);
        sum.events = sum.events.saturating_add(later.events);
        sum.variance = sum.variance.saturating_add(later.variance);
    }

    pub(super) fn to_wire(own: Option<&Self>) -> Option<[u64; 4]> {
        own.map(|own| [own.ns, own.counted_ns, own.events, own.variance])
    }
}

impl From<[u64; 4]> for Estimated {
    fn from([ns, counted_ns, events, variance]: [u64; 4]) -> Self {
        Estimated {
            ns,
            counted_ns,
            events,
            variance,
        }
    }
}

impl Serialize for Estimated {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut own = serializer.serialize_struct("Estimated", 3)?;
        own.serialize_field("ns", &self.ns)?;
        own.serialize_field("counted_ns", &self.counted_ns)?;
        own.serialize_field("margin_ratio", &self.margin_ratio())?;
        own.end()
    }
}

/// Counts that can be estimated from a part of the time.
pub trait Estimable: Clone + Default {
    /// Adds what came later on the same CPUs.
    fn join(&mut self, later: &Self, cpus: &[u32]);

    /// Multiplies each count.
    fn stretch(&mut self, factor: f64);

    /// Says how it was estimated.
    fn set_estimated(&mut self, estimated: Estimated);
}

/// A count times a factor.
pub(super) fn stretch(count: &mut u64, factor: f64) {
    *count = (*count as f64 * factor).round() as u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(events: u64, variance: u64) -> Estimated {
        Estimated {
            ns: 500,
            counted_ns: 10,
            events,
            variance,
        }
    }

    #[test]
    fn a_sum_is_surer_than_its_parts_and_says_what_was_counted() {
        let mut sum = None;
        Estimated::add(&mut sum, None);
        assert_eq!(sum, None);
        for _ in 0..4 {
            Estimated::add(&mut sum, Some(&of(100, 400)));
        }
        let sum = sum.unwrap();
        assert!((of(100, 400).margin_ratio().unwrap() - 0.392).abs() < 1e-3);
        assert!((sum.margin_ratio().unwrap() - 0.196).abs() < 1e-3);
        assert_eq!(
            sum.sentence("Packets"),
            "Packets are estimated: they were counted for 2.0 % of the time, ± 20 % in all."
        );
        assert_eq!(of(0, 0).margin_ratio(), None);
    }
}
