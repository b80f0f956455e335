//! When it matters that probes missed something: in proportion to what they saw.

use crate::{Cost, Info, Missable};

/// Beyond this share of what should have been seen, people are told.
pub const WORTH_A_WORD: f64 = 0.001;
/// Of fewer, nothing is said: a share of next to nothing is not one.
const FEW: u64 = 10;

/// How much was missed and seen in one way, see [`Missable`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// What the probe missed.
    pub missed: u64,
    /// How often the component was entered whose figures fall short by it.
    pub seen: u64,
}

impl Counted {
    /// Whether people should be told.
    pub fn is_worth_a_word(&self) -> bool {
        let all = self.missed.saturating_add(self.seen);
        self.missed >= FEW && self.missed as f64 > WORTH_A_WORD * all as f64
    }
}

/// What one row of [`Info::missable`] came to in this interval; `None` if it was not counted.
pub fn in_interval(info: &Info, cost: &Cost, row: usize) -> Option<Counted> {
    let (way, missed) = (info.missable.get(row)?, cost.probe_missed.get(row)?);
    let of = |slug: &str| info.components.iter().position(|c| c.slug == slug);
    let seen = of(&way.component)
        .and_then(|component| cost.entries_of(component))
        .map_or(0, |row| {
            row.iter().fold(0, |sum: u64, n| sum.saturating_add(*n))
        });
    Some(Counted {
        missed: *missed,
        seen,
    })
}

/// The probe that missed most of what it should have seen in this interval, if people should be told.
pub fn worst<'a>(info: &'a Info, cost: &Cost) -> Option<(&'a Missable, Counted)> {
    (0..info.missable.len())
        .filter_map(|row| Some((&info.missable[row], in_interval(info, cost, row)?)))
        .filter(|(_, counted)| counted.is_worth_a_word())
        .max_by_key(|(_, counted)| counted.missed)
}
