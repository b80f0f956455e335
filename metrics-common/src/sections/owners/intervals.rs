//! The 95 % intervals of owners' times: what they caused, paid, and took from each other.
//!
//! An interval is of how time was divided; it takes the time of an event as given. It rests on the
//! number of *independent samples*: those of an event with a known cause, or payer, divided by how
//! much more windows (or intervals) of samples differ than independent samples would
//! ([`OwnerBasis::cause_ns_ms`]). Pure.

use serde::Serialize;

use super::{Owner, OwnerBasis, OwnerKind, Owners, event_of, is_softirq};
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

/// How the variance of an owner's share splits.
#[derive(Debug, Clone, Copy, Default)]
struct Variance {
    /// That of payers' shares.
    between: f64,
    /// That of the causes of each payer's time.
    within: f64,
}

impl Variance {
    /// The number of independent samples of a share: of causes, of payers, or between the two.
    fn samples(self, known: Samples) -> f64 {
        let all = self.between + self.within;
        if all <= 1e-12 {
            return known.of_causes.min(known.of_payers);
        }
        let of_one = |part: f64, samples: f64| match part > 1e-12 {
            true => part / all / samples.max(1e-9),
            false => 0.0,
        };
        let variance = of_one(self.within, known.of_causes) + of_one(self.between, known.of_payers);
        1.0 / variance.max(1e-9)
    }
}

/// Softirq time by cause and payer, with all that its intervals need.
struct Matrix<'a> {
    owners: &'a Owners,
    whole_ns: f64,
    /// By payer.
    paid_ns: Vec<f64>,
    samples: Option<Samples>,
}

impl<'a> Matrix<'a> {
    fn of(owners: &'a Owners) -> Matrix<'a> {
        let mut paid_ns = vec![0.0; owners.owners.len()];
        for taken in &owners.taken {
            if let Some(paid) = paid_ns.get_mut(taken.payer as usize) {
                *paid += taken.ns as f64;
            }
        }
        let of_softirqs = |own: &&OwnerBasis| is_softirq(own.component as usize);
        let bases: Vec<&OwnerBasis> = owners.basis.iter().filter(of_softirqs).collect();
        let moment = |of: fn(&OwnerBasis) -> Option<u64>| -> Option<f64> {
            let known = bases.iter().filter(|own| own.total_ns() > 0);
            known.map(|own| of(own).map(|ns| ns as f64)).sum()
        };
        let samples = || {
            Some(Samples {
                of_causes: independent(owners_ns(&bases), moment(|own| own.cause_ns_ms)?),
                of_payers: independent(owners_ns(&bases), moment(|own| own.payer_ns_ms)?),
            })
        };
        Matrix {
            owners,
            whole_ns: paid_ns.iter().sum(),
            samples: samples(),
            paid_ns,
        }
    }

    /// The variance of the share of all pairs that `is_in` takes, and the share itself.
    fn share(&self, is_in: impl Fn(u32, u32) -> bool) -> (f64, Variance) {
        let mut of_payer = vec![0.0; self.paid_ns.len()];
        for taken in &self.owners.taken {
            if is_in(taken.cause, taken.payer)
                && let Some(own) = of_payer.get_mut(taken.payer as usize)
            {
                *own += taken.ns as f64;
            }
        }
        let (mut share, mut square, mut within) = (0.0, 0.0, 0.0);
        for (own, paid) in of_payer.iter().zip(&self.paid_ns) {
            if *paid > 0.0 {
                let (weight, part) = (paid / self.whole_ns, own / paid);
                share += weight * part;
                square += weight * part * part;
                within += weight * part * (1.0 - part);
            }
        }
        let between = (square - share * share).max(0.0);
        (share, Variance { between, within })
    }

    /// The interval of the sum of all pairs that `is_in` takes.
    fn bounds(&self, is_in: impl Fn(u32, u32) -> bool) -> Option<Bounds> {
        let known = self.samples?;
        let (share, variance) = self.share(is_in);
        let (low, high) = wilson(share, variance.samples(known) as u64);
        let [low, own, high] = [low, share, high].map(|part| part * self.whole_ns);
        Some((low.min(own) as u64, high.max(own).ceil() as u64))
    }
}

fn owners_ns(bases: &[&OwnerBasis]) -> f64 {
    bases.iter().map(|own| own.total_ns() as f64).sum()
}

/// The number of independent samples of a time with this [`OwnerBasis::cause_ns_ms`].
fn independent(whole_ns: f64, ns_ms: f64) -> f64 {
    match whole_ns > 0.0 {
        true => whole_ns * whole_ns / (ns_ms * 1e6).max(1.0),
        false => 0.0,
    }
}

impl Owners {
    /// The intervals of all figures; of those whose samples are not recorded (logs of an older
    /// netto) and of unknown owners, none.
    pub fn intervals(&self) -> Intervals {
        let matrix = Matrix::of(self);
        let is_known = |place: u32| {
            let owner = self.owners.get(place as usize);
            owner.is_some_and(|owner: &Owner| owner.kind != OwnerKind::Unknown)
        };
        let loses = |place: u32| self.owners[place as usize].kind.loses();
        let account = |place: u32| {
            if !is_known(place) {
                return AccountIntervals::default();
            }
            let (_, variance) = matrix.share(|cause, _| cause == place);
            AccountIntervals {
                caused_interval_ns: self.caused_bounds(place, variance, |_| true),
                softirq_interval_ns: self.caused_bounds(place, variance, is_softirq),
                made_others_pay_interval_ns: matrix
                    .bounds(|cause, payer| cause == place && payer != place && loses(payer)),
                others_took_interval_ns: matrix
                    .bounds(|cause, payer| cause != place && payer == place),
                stalled_interval_ns: match loses(place) {
                    true => matrix.bounds(|_, payer| payer == place),
                    false => None,
                },
            }
        };
        let pair = |taken: &super::Interruption| {
            let is_it = |cause, payer| cause == taken.cause && payer == taken.payer;
            let are_known = is_known(taken.cause) && is_known(taken.payer);
            are_known.then(|| matrix.bounds(is_it)).flatten()
        };
        Intervals {
            accounts: (0..self.owners.len() as u32).map(account).collect(),
            taken: self.taken.iter().map(pair).collect(),
        }
    }

    /// The interval of what an owner caused in events that `is_in` takes. Errors of events are
    /// independent, so their squares sum (G. Y. Zou and A. Donner, 2008).
    fn caused_bounds(
        &self,
        place: u32,
        variance: Variance,
        is_in: fn(usize) -> bool,
    ) -> Option<Bounds> {
        let (mut sum, mut most) = (0.0, 0.0);
        let (mut below, mut above) = (0.0, 0.0);
        for basis in &self.basis {
            let event = basis.component as usize;
            if !is_in(event) {
                continue;
            }
            let (mut own, mut whole) = (0.0, 0.0);
            let of_it = |caused: &&super::Caused| event_of(caused.component as usize) == event;
            for caused in self.caused.iter().filter(of_it) {
                let ns = caused.cpu_ns.iter().sum::<u64>() as f64;
                whole += ns;
                own += if caused.owner == place { ns } else { 0.0 };
            }
            if own <= 0.0 {
                continue;
            }
            // What is asked of may be a part of the event.
            let part = whole / (basis.total_ns() as f64).max(1.0);
            let of = |moment: u64| part * independent(basis.total_ns() as f64, moment as f64);
            let of_causes = of(basis.cause_ns_ms?);
            let samples = match is_softirq(event) {
                true => variance.samples(Samples {
                    of_causes,
                    of_payers: of(basis.payer_ns_ms?),
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
}
