//! The 95 % intervals of owners' times: what they caused, paid, and took from each other.
//!
//! An interval is of how time was divided; it takes the time of an event as given. It rests on the
//! number of *independent samples*: those of an event with a known cause, or payer, divided by how
//! much more windows (or intervals) of samples differ than independent samples would
//! ([`OwnerBasis::cause_ns_ms`]). Pure.

use serde::Serialize;

use super::{Interruption, Owner, OwnerBasis, OwnerKind, Owners, event_of, is_softirq};
use crate::confidence::wilson;

/// Bounds of a time, nanoseconds.
pub type Bounds = (u64, u64);

/// The intervals of an [`super::Account`]; `None` of what is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct AccountIntervals {
    /// See [`super::Account::caused_ns`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caused_interval_ns: Option<Bounds>,
    /// See [`super::Account::softirq_ns`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub softirq_interval_ns: Option<Bounds>,
    /// See [`super::Account::made_others_pay_ns`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made_others_pay_interval_ns: Option<Bounds>,
    /// See [`super::Account::others_took_ns`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others_took_interval_ns: Option<Bounds>,
    /// See [`super::Account::stalled_ns`].
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

/// Numbers of independent samples.
#[derive(Debug, Clone, Copy, Default)]
struct Samples {
    of_causes: f64,
    of_payers: f64,
}

/// A share of softirq time, and how its variance splits.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    ratio: f64,
    /// Mean square of the parts of payers' times.
    square: f64,
    /// The variance of the causes of each payer's time.
    within: f64,
}

impl Share {
    /// This part of the time of one payer, who has this share of the whole.
    fn of_payer(payer: f64, part: f64) -> Share {
        let mut share = Share::default();
        share.add(payer, part);
        share
    }

    /// Adds this part of the time of a payer, who has this share of the whole.
    fn add(&mut self, payer: f64, part: f64) {
        self.ratio += payer * part;
        self.square += payer * part * part;
        self.within += payer * part * (1.0 - part);
    }

    /// The number of independent samples: of causes, of payers, or between the two.
    fn samples(self, known: Samples) -> f64 {
        // The variance of payers' shares.
        let between = (self.square - self.ratio * self.ratio).max(0.0);
        let all = between + self.within;
        if all <= 1e-12 {
            return known.of_causes.min(known.of_payers);
        }
        let of_one = |part: f64, samples: f64| match part > 1e-12 {
            true => part / all / samples.max(1e-9),
            false => 0.0,
        };
        let variance = of_one(self.within, known.of_causes) + of_one(between, known.of_payers);
        1.0 / variance.max(1e-9)
    }
}

/// Softirq time by cause and payer, with all that its intervals need.
struct Matrix {
    whole_ns: f64,
    /// By payer: its time, and what it caused of that itself.
    paid_ns: Vec<(f64, f64)>,
    /// By cause: all, and what others paid who lose by it.
    caused: Vec<(Share, Share)>,
    samples: Option<Samples>,
}

impl Matrix {
    fn of(owners: &Owners) -> Matrix {
        let mut paid_ns = vec![(0.0, 0.0); owners.owners.len()];
        for taken in &owners.taken {
            if let Some((all, own)) = paid_ns.get_mut(taken.payer as usize) {
                *all += taken.ns as f64;
                if taken.cause == taken.payer {
                    *own += taken.ns as f64;
                }
            }
        }
        let mut matrix = Matrix {
            whole_ns: paid_ns.iter().map(|(all, _)| all).sum(),
            caused: vec![Default::default(); paid_ns.len()],
            paid_ns,
            samples: samples(owners),
        };
        for taken in &owners.taken {
            let (payer, part) = matrix.part(taken);
            let Some((all, of_others)) = matrix.caused.get_mut(taken.cause as usize) else {
                continue;
            };
            all.add(payer, part);
            let loses = |owner: &Owner| owner.kind.loses();
            let is_other = taken.cause != taken.payer;
            if is_other && owners.owners.get(taken.payer as usize).is_some_and(loses) {
                of_others.add(payer, part);
            }
        }
        matrix
    }

    /// The payer's share of the whole, and the pair's part of that.
    fn part(&self, taken: &Interruption) -> (f64, f64) {
        let paid = self.paid_ns.get(taken.payer as usize);
        let (paid, _) = paid.copied().unwrap_or_default();
        (ratio(paid, self.whole_ns), ratio(taken.ns as f64, paid))
    }

    /// The interval of a share.
    fn bounds(&self, share: Share) -> Option<Bounds> {
        let samples = share.samples(self.samples?) as u64;
        let (low, high) = wilson(share.ratio, samples);
        let [low, own, high] = [low, share.ratio, high].map(|part| part * self.whole_ns);
        Some((low.min(own) as u64, high.max(own).ceil() as u64))
    }
}

/// The numbers of independent samples of softirqs.
fn samples(owners: &Owners) -> Option<Samples> {
    let of_softirqs = |own: &&OwnerBasis| is_softirq(own.component as usize) && own.total_ns() > 0;
    let bases = || owners.basis.iter().filter(of_softirqs);
    let whole_ns = bases().map(|own| own.total_ns() as f64).sum();
    let moment = |of: fn(&OwnerBasis) -> Option<u64>| -> Option<f64> {
        bases().map(|own| of(own).map(|ns| ns as f64)).sum()
    };
    Some(Samples {
        of_causes: independent(whole_ns, moment(|own| own.cause_ns_ms)?),
        of_payers: independent(whole_ns, moment(|own| own.payer_ns_ms)?),
    })
}

/// The number of independent samples of a time with this [`OwnerBasis::cause_ns_ms`].
pub(crate) fn independent(whole_ns: f64, ns_ms: f64) -> f64 {
    match whole_ns > 0.0 {
        true => whole_ns * whole_ns / (ns_ms * 1e6).max(1.0),
        false => 0.0,
    }
}

/// `part / whole`; 0 if both are 0.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
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
        let Some(event) = known.find(|own| own.basis.component as usize == row) else {
            continue;
        };
        let ns = caused.cpu_ns.iter().map(|ns| *ns as f64).sum::<f64>();
        event.whole_ns += ns;
        if let Some(own) = event.caused_ns.get_mut(caused.owner as usize) {
            *own += ns;
        }
    }
    events
}

/// The interval of what an owner with this share of softirqs caused in events. Errors of events are
/// independent, so their squares sum (G. Y. Zou and A. Donner, 2008).
fn caused_bounds<'a>(
    events: impl Iterator<Item = &'a Event<'a>>,
    place: usize,
    share: Share,
) -> Option<Bounds> {
    let (mut sum, mut most) = (0.0, 0.0);
    let (mut below, mut above) = (0.0, 0.0);
    for event in events {
        let (own, whole) = (event.caused_ns[place], event.whole_ns);
        if own <= 0.0 {
            continue;
        }
        let total_ns = event.basis.total_ns() as f64;
        // What is asked of may be a part of the event.
        let part = ratio(whole, total_ns);
        let of = |moment: u64| part * independent(total_ns, moment as f64);
        let of_causes = of(event.basis.cause_ns_ms?);
        let samples = match event.is_softirq {
            true => share.samples(Samples {
                of_causes,
                of_payers: of(event.basis.payer_ns_ms?),
            }),
            false => of_causes,
        };
        let (low, high) = wilson(own / whole, samples as u64);
        sum += own;
        most += whole;
        below += (own - low * whole).powi(2);
        above += (high * whole - own).powi(2);
    }
    let low = (sum - below.sqrt()).max(0.0);
    let high = (sum + above.sqrt()).min(most).max(sum);
    Some((low as u64, high.ceil() as u64))
}

impl Owners {
    /// The intervals of all figures; of those whose samples are not recorded (logs of an older
    /// netto) and of unknown owners, none.
    pub fn intervals(&self) -> Intervals {
        let (matrix, events) = (Matrix::of(self), events(self));
        let is_known = |place: usize| {
            let owner = self.owners.get(place);
            owner.is_some_and(|owner| owner.kind != OwnerKind::Unknown)
        };
        let account = |(place, owner): (usize, &Owner)| {
            if owner.kind == OwnerKind::Unknown {
                return AccountIntervals::default();
            }
            let (all, of_others) = matrix.caused[place];
            let (paid, itself) = matrix.paid_ns[place];
            let payer = ratio(paid, matrix.whole_ns);
            let others = ratio(paid - itself, paid);
            let stalled = Share::of_payer(payer, 1.0);
            let softirqs = events.iter().filter(|event| event.is_softirq);
            AccountIntervals {
                caused_interval_ns: caused_bounds(events.iter(), place, all),
                softirq_interval_ns: caused_bounds(softirqs, place, all),
                made_others_pay_interval_ns: matrix.bounds(of_others),
                others_took_interval_ns: matrix.bounds(Share::of_payer(payer, others)),
                stalled_interval_ns: match owner.kind.loses() {
                    true => matrix.bounds(stalled),
                    false => None,
                },
            }
        };
        let pair = |taken: &Interruption| {
            let (payer, part) = matrix.part(taken);
            let places = [taken.cause, taken.payer].map(|place| place as usize);
            let are_known = places.into_iter().all(is_known);
            are_known.then(|| matrix.bounds(Share::of_payer(payer, part)))?
        };
        Intervals {
            accounts: self.owners.iter().enumerate().map(account).collect(),
            taken: self.taken.iter().map(pair).collect(),
        }
    }
}
