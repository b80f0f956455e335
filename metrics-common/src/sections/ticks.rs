//! The section of the example feature: how often it was asked, and the softirqs that were raised.

use serde::{Deserialize, Serialize};

use super::columns::Columns;
use super::recorded::Recorded;
use super::section::Section;
use crate::histogram::Histogram;
use crate::packed::Damaged;

/// Ticks of the feature, and softirqs of all CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Ticks {
    /// Ticks since the feature started, each counted as often as it was asked to.
    pub count: u64,
    /// Softirqs that were raised.
    pub raised: u64,
    /// From one to the next of the same vector, by vector, each once.
    pub gaps: Vec<Gaps>,
}

/// Times between softirqs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Gaps {
    /// Of which vector.
    pub vector: String,
    /// Those times.
    pub histogram: Histogram,
}

/// [`Ticks`] on the wire.
#[derive(Debug, Serialize, Deserialize)]
pub struct TicksWire {
    count: u64,
    raised: u64,
    /// Vector, sum in nanoseconds, numbers by bucket up to the last that is not 0.
    gaps: Vec<(String, u64, Vec<u64>)>,
}

impl Section for Ticks {
    type Wire = TicksWire;

    fn to_wire(&self) -> TicksWire {
        let gaps = self.gaps.iter().map(|Gaps { vector, histogram }| {
            let counts = histogram.counts();
            let end = counts.iter().rposition(|count| *count > 0);
            let counts = &counts[..end.map_or(0, |last| last + 1)];
            (vector.clone(), histogram.sum_ns, counts.to_vec())
        });
        TicksWire {
            count: self.count,
            raised: self.raised,
            gaps: gaps.collect(),
        }
    }

    fn from_wire(wire: TicksWire, _: usize) -> Result<Self, Damaged> {
        let gaps = wire.gaps.into_iter().map(|(vector, sum_ns, counts)| Gaps {
            vector,
            histogram: Histogram::of(&counts, sum_ns),
        });
        Ok(Ticks {
            count: wire.count,
            raised: wire.raised,
            gaps: gaps.collect(),
        })
    }

    fn add(&mut self, later: &Self, _: &Columns) {
        self.count = self.count.max(later.count);
        self.raised = self.raised.saturating_add(later.raised);
        for gaps in &later.gaps {
            match self.gaps.iter_mut().find(|sum| sum.vector == gaps.vector) {
                Some(sum) => sum.histogram.merge(&gaps.histogram),
                None => self.gaps.push(gaps.clone()),
            }
        }
    }
}

/// Nothing of it is kept.
impl Recorded for Ticks {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;
    use crate::{Sections, Snapshot};

    fn snapshot(ticks: Option<Ticks>) -> Snapshot {
        Snapshot {
            sequence: 7,
            sections: Sections {
                ticks,
                ..Sections::default()
            },
            ..Snapshot::default()
        }
    }

    fn ticks() -> Ticks {
        let mut histogram = Histogram::default();
        assert!(histogram.record(1_000));
        let vector = "net_rx".to_owned();
        Ticks {
            count: 3,
            raised: 1,
            gaps: vec![Gaps { vector, histogram }],
        }
    }

    #[test]
    fn what_is_written_is_read_and_intervals_add_up() {
        let written = snapshot(Some(ticks()));
        let mut read: Snapshot = codec::decode(&codec::encode(&written).unwrap()).unwrap();
        assert_eq!(read, written);
        read.add(&snapshot(None));
        read.add(&written);
        let sum = read.sections.ticks.unwrap();
        assert_eq!((sum.count, sum.raised), (3, 2));
        assert_eq!(sum.gaps[0].histogram.count(), 2);
    }

    /// A netto without this section writes what one with it writes where the section is absent,
    /// and passes over it as over one of any other name.
    #[test]
    fn who_knows_the_section_and_who_does_not_understand_each_other() {
        let name = b"\xa5ticks";
        let place = |bytes: &[u8]| bytes.windows(name.len()).position(|window| window == name);
        let without = codec::encode(&snapshot(None)).unwrap();
        assert_eq!(place(&without), None);
        let mut with = codec::encode(&snapshot(Some(ticks()))).unwrap();
        let at = place(&with).unwrap();
        with[at..at + name.len()].copy_from_slice(b"\xa5tides");
        let read: Snapshot = codec::decode(&with).unwrap();
        assert_eq!(read, snapshot(None));
    }
}
