//! When missed events of probes matter: in proportion to the events that they saw.

use crate::{Cost, Info, Missable};

/// Above this share of missed events, a note is shown.
pub const WORTH_A_WORD: f64 = 0.001;
/// With fewer events, no note is shown: the share means nothing.
const FEW: u64 = 10;

/// Missed and seen events of one kind, see [`Missable`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Events that the probe missed.
    pub missed: u64,
    /// Entries of the component whose figures are too low as a result.
    pub seen: u64,
}

impl Counted {
    /// Whether a note should be shown.
    pub fn is_worth_a_word(&self) -> bool {
        let all = self.missed.saturating_add(self.seen);
        self.missed >= FEW && self.missed as f64 > WORTH_A_WORD * all as f64
    }
}

/// The counts of one row of [`Info::missable`] in this interval; `None` if it was not counted.
pub fn in_interval(info: &Info, cost: &Cost, row: usize) -> Option<Counted> {
    let (way, missed) = (info.missable.get(row)?, cost.probe_missed.get(row)?);
    let seen = info
        .row_of(&way.component)
        .and_then(|component| cost.entries_of(component))
        .map_or(0, |row| {
            row.iter().fold(0, |sum: u64, n| sum.saturating_add(*n))
        });
    Some(Counted {
        missed: *missed,
        seen,
    })
}

/// The probe with the largest share of missed events in this interval, if a note should be
/// shown.
pub fn worst<'a>(info: &'a Info, cost: &Cost) -> Option<(&'a Missable, Counted)> {
    (0..info.missable.len())
        .filter_map(|row| Some((&info.missable[row], in_interval(info, cost, row)?)))
        .filter(|(_, counted)| counted.is_worth_a_word())
        .max_by_key(|(_, counted)| counted.missed)
}
