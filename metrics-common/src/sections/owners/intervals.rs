//! The 95 % intervals of owners' times: what they caused, paid, and took from each other.
//!
//! An interval is of how time was divided; it takes the time of an event as given, of which it is a part
//! ([`Figure::part_of`]). Pure.

use netto_estimate::Figure;
use netto_estimate::figure::sum_of_bounds;
use serde::Serialize;

use super::{
    Interruption, Owner, OwnerBasis, OwnerKind, Owners, SampledFigure, Samples, event_of,
    is_softirq,
};
use crate::confidence::{figure, rounded};

/// Bounds of a time, nanoseconds.
pub type Bounds = (u64, u64);

/// The intervals of an [`super::Account`]; `None` of what is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AccountIntervals {
    /// Where `caused_ns` lies with a confidence of 95 %, nanoseconds: of how time was divided, see
    /// docs/JSON.md. Absent where unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caused_interval_ns: Option<Bounds>,
    /// Where `softirq_ns` lies with a confidence of 95 %, nanoseconds: of how time was divided, see
    /// docs/JSON.md. Absent where unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub softirq_interval_ns: Option<Bounds>,
    /// Where `made_others_pay_ns` lies with a confidence of 95 %, nanoseconds: of how time was
    /// divided, see docs/JSON.md. Absent where unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made_others_pay_interval_ns: Option<Bounds>,
    /// Where `others_took_ns` lies with a confidence of 95 %, nanoseconds: of how time was divided,
    /// see docs/JSON.md. Absent where unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others_took_interval_ns: Option<Bounds>,
    /// Where `stalled_ns` lies with a confidence of 95 %, nanoseconds: of how time was divided, see
    /// docs/JSON.md. Absent where unknown, and of idle CPUs and kernel threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled_interval_ns: Option<Bounds>,
}

/// The intervals of all figures of [`Owners`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Intervals {
    /// Of each of [`Owners::owners`].
    pub accounts: Vec<AccountIntervals>,
    /// Of each of [`Owners::taken`].
    pub taken: Vec<Option<Bounds>>,
}

/// Softirq time, of which what owners took from each other is a part; `None` if it is not recorded for how
/// much time samples stand.
fn whole(owners: &Owners) -> Option<Figure> {
    let is_taken =
        |basis: &&OwnerBasis| is_softirq(basis.component as usize) && basis.total_ns() > 0;
    let bases = owners.basis.iter().filter(is_taken);
    let of_events: Option<Figure> = bases
        .map(|basis| {
            let ns_ms = basis.cause_ns_ms?.max(basis.payer_ns_ms?);
            Some(figure(basis.total_ns() as f64, ns_ms))
        })
        .sum();
    let taken_ns = owners.taken.iter().map(|taken| taken.ns as f64).sum();
    Some(Figure::weighted(
        taken_ns,
        of_events?.weight().unwrap_or(f64::INFINITY),
    ))
}

/// What an event's time was caused by.
struct Event<'a> {
    basis: &'a OwnerBasis,
    is_softirq: bool,
    whole_ns: f64,
    /// By owner.
    caused_ns: Vec<f64>,
}

fn events(owners: &Owners) -> Vec<Event<'_>> {
    let event = |basis| Event {
        basis,
        is_softirq: is_softirq(basis.component as usize),
        whole_ns: 0.0,
        caused_ns: vec![0.0; owners.owners.len()],
    };
    let mut events: Vec<Event<'_>> = owners.basis.iter().map(event).collect();
    for caused in &owners.caused {
        let row = event_of(caused.component as usize);
        let mut known = events.iter_mut();
        let Some(event) = known.find(|event| event.basis.component as usize == row) else {
            continue;
        };
        let ns = caused.cpu_ns.iter().map(|ns| *ns as f64).sum::<f64>();
        event.whole_ns += ns;
        if let Some(sum_ns) = event.caused_ns.get_mut(caused.owner as usize) {
            *sum_ns += ns;
        }
    }
    events
}

/// The interval of what an owner caused in events. Errors of events are independent.
fn caused_bounds<'a>(
    events: impl Iterator<Item = &'a Event<'a>>,
    place: usize,
    samples: &Samples,
) -> Option<Bounds> {
    let mut parts = Vec::new();
    let mut most = 0.0;
    for event in events {
        let (own_ns, whole_ns) = (event.caused_ns[place], event.whole_ns);
        if own_ns <= 0.0 {
            continue;
        }
        // What is asked of may be a part of the event: samples stand for as much.
        let part = whole_ns / event.basis.total_ns().max(1) as f64;
        let of_event = SampledFigure::Caused(place as u32, event.basis.component);
        let whole = figure(whole_ns, (event.basis.cause_ns_ms? as f64 * part) as u64);
        let mut caused_figure = samples.figure(of_event, own_ns / part, &whole);
        (caused_figure.value, caused_figure.variance) = (own_ns, caused_figure.variance * part);
        most += whole_ns;
        parts.push((own_ns, caused_figure.part_of(&whole)));
    }
    let (low, high) = sum_of_bounds(&parts);
    let value = parts.iter().map(|(ns, _)| ns).sum();
    Some(rounded((low, high.min(most)), value))
}

impl Owners {
    /// The intervals of all figures; of those whose samples are not recorded (logs of an older
    /// netto) and of unknown owners, none.
    pub fn intervals(&self) -> Intervals {
        let events = events(self);
        let sampled = self.samples.as_ref().zip(whole(self));
        let is_known = |place: usize| {
            let owner = self.owners.get(place);
            owner.is_some_and(|owner| owner.kind != OwnerKind::Unknown)
        };
        let bounds = |ns: u64, of: SampledFigure| -> Option<Bounds> {
            let (samples, whole) = sampled?;
            let figure = samples.figure(of, ns as f64, &whole);
            Some(rounded(figure.part_of(&whole), ns as f64))
        };
        let accounts = self.accounts();
        let account = |(place, owner): (usize, &Owner)| {
            let (account, index) = (accounts[place], place as u32);
            let Some((samples, _)) = sampled.filter(|_| is_known(place)) else {
                return AccountIntervals::default();
            };
            let softirqs = events.iter().filter(|event| event.is_softirq);
            let stalled = || bounds(account.stalled_ns, SampledFigure::Stalled(index));
            AccountIntervals {
                caused_interval_ns: caused_bounds(events.iter(), place, samples),
                softirq_interval_ns: caused_bounds(softirqs, place, samples),
                made_others_pay_interval_ns: bounds(
                    account.made_others_pay_ns,
                    SampledFigure::MadeOthersPay(index),
                ),
                others_took_interval_ns: bounds(
                    account.others_took_ns,
                    SampledFigure::OthersTook(index),
                ),
                stalled_interval_ns: owner.kind.loses().then(stalled).flatten(),
            }
        };
        let pair = |taken: &Interruption| {
            let places = [taken.cause, taken.payer].map(|place| place as usize);
            let are_known = places.into_iter().all(is_known);
            let figure = SampledFigure::Taken(taken.cause, taken.payer);
            are_known.then(|| bounds(taken.ns, figure))?
        };
        Intervals {
            accounts: self.owners.iter().enumerate().map(account).collect(),
            taken: self.taken.iter().map(pair).collect(),
        }
    }
}
