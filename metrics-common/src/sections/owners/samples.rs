//! For how much time samples stand by which the figures of owners are found.
//!
//! CPUs are sampled at different rates, owners are not in the same proportion on all of them, and samples
//! of one window show the same packets: each figure has its own.

use crate::sort::sort_by;
use netto_estimate::Figure;
use serde::{Deserialize, Serialize};

use super::Owners;

/// A figure of an owner, by its index in [`Owners::owners`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SampledFigure {
    /// What it caused in this event (row of a component).
    Caused(u32, u32),
    /// [`super::Account::made_others_pay_ns`].
    MadeOthersPay(u32),
    /// [`super::Account::stalled_ns`].
    Stalled(u32),
    /// [`super::Account::others_took_ns`].
    OthersTook(u32),
    /// What it caused and this owner paid.
    Taken(u32, u32),
}

/// By figure, in order: its time × the time for which one independent sample stands, nanoseconds ×
/// milliseconds; see [`super::OwnerBasis::cause_ns_ms`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<Wire>", from = "Vec<Wire>")]
pub struct Samples(Vec<(SampledFigure, u64)>);

/// The kind of a figure, its owner, the other owner or the event, and the value.
type Wire = (u8, u32, u32, u64);

impl From<Samples> for Vec<Wire> {
    fn from(samples: Samples) -> Self {
        use SampledFigure::{Caused, MadeOthersPay, OthersTook, Stalled, Taken};
        let wire = |(figure, ns_ms)| match figure {
            Caused(owner, event) => (0, owner, event, ns_ms),
            MadeOthersPay(owner) => (1, owner, 0, ns_ms),
            Stalled(owner) => (2, owner, 0, ns_ms),
            OthersTook(owner) => (3, owner, 0, ns_ms),
            Taken(owner, payer) => (4, owner, payer, ns_ms),
        };
        samples.0.into_iter().map(wire).collect()
    }
}

/// Kinds of a later netto are left out.
impl From<Vec<Wire>> for Samples {
    fn from(wire: Vec<Wire>) -> Self {
        use SampledFigure::{Caused, MadeOthersPay, OthersTook, Stalled, Taken};
        let figure = |(kind, owner, other, ns_ms)| {
            let figure = match kind {
                0 => Caused(owner, other),
                1 => MadeOthersPay(owner),
                2 => Stalled(owner),
                3 => OthersTook(owner),
                4 => Taken(owner, other),
                _ => return None,
            };
            Some((figure, ns_ms))
        };
        Samples::of(wire.into_iter().filter_map(figure).collect())
    }
}

impl Samples {
    /// Of these figures; more than one of the same are added.
    pub fn of(mut figures: Vec<(SampledFigure, u64)>) -> Samples {
        sort_by(&mut figures, Ord::cmp);
        figures.dedup_by(|(more, ns_ms), (figure, sum)| {
            let is_same = more == figure;
            if is_same {
                *sum = sum.saturating_add(*ns_ms);
            }
            is_same
        });
        Samples(figures)
    }

    /// A figure with so many nanoseconds, which is a part of this whole.
    pub(super) fn figure(&self, of: SampledFigure, ns: f64, whole: &Figure) -> Figure {
        match self.0.binary_search_by_key(&of, |(figure, _)| *figure) {
            Ok(place) => crate::confidence::figure(ns, self.0[place].1),
            Err(_) => Figure::weighted(ns, whole.weight().unwrap_or(0.0)),
        }
    }

    /// Renumbers owners.
    pub(super) fn renamed(&self, renamed: impl Fn(u32) -> Option<u32>) -> Samples {
        use SampledFigure::{Caused, MadeOthersPay, OthersTook, Stalled, Taken};
        let rename = |(figure, ns_ms): &(SampledFigure, u64)| {
            let figure = match *figure {
                Caused(owner, event) => Caused(renamed(owner)?, event),
                MadeOthersPay(owner) => MadeOthersPay(renamed(owner)?),
                Stalled(owner) => Stalled(renamed(owner)?),
                OthersTook(owner) => OthersTook(renamed(owner)?),
                Taken(owner, payer) => Taken(renamed(owner)?, renamed(payer)?),
            };
            Some((figure, *ns_ms))
        };
        Samples::of(self.0.iter().filter_map(rename).collect())
    }
}

impl Owners {
    /// Adds those of a later interval, whose owners have these places.
    pub(super) fn add_samples(&mut self, later: &Owners, places: &[u32]) {
        // A sum begins without any event, and so is an interval without the section.
        if later.basis.is_empty() {
            return;
        }
        let place = |owner: u32| places.get(owner as usize).copied();
        let more = later.samples.as_ref().map(|more| more.renamed(place));
        let before = if self.basis.is_empty() {
            Some(Samples::default())
        } else {
            self.samples.take()
        };
        let both = before.zip(more);
        self.samples = both.map(|(before, more)| Samples::of([before.0, more.0].concat()));
    }
}
