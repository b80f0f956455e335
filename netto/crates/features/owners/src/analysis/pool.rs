//! What is known of owners: weights of causes and payers, of the interval and of the past.

use netto_analysis::fading::fade;

use super::owner_table::UNKNOWN;

/// The owner that caused a time, and the one that was interrupted: numbers given by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair {
    /// The owner that caused it.
    pub cause: u32,
    /// The interrupted owner; the same one if it was its own work.
    pub payer: u32,
}

/// How an owner was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Evidence {
    /// By the task that ran.
    Task,
    /// By a socket.
    Socket,
    /// By an interface.
    Interface,
    /// In proportion to other samples.
    Proportion,
    /// The work met neither.
    Nothing,
    /// The owner was not looked for: its probes were detached.
    Unknown,
}

/// A cause and a payer, and how they were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Known {
    /// The owners.
    pub pair: Pair,
    /// How they were found.
    pub found: Evidence,
}

impl Known {
    /// Work for packets that were handed to another CPU: who receives there is the cause.
    pub fn handed_on(payer: u32) -> Known {
        Known {
            pair: Pair {
                cause: UNKNOWN,
                payer,
            },
            found: Evidence::Nothing,
        }
    }

    /// Whether it is [`Known::handed_on`].
    pub fn is_handed_on(&self) -> bool {
        *self == Known::handed_on(self.pair.payer)
    }
}

/// A sample whose cause is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// The interrupted owner; `None` if the cause pays itself.
    pub payer: Option<u32>,
    /// Whether its work serves all others, so that it has the causes of other samples, whoever
    /// paid for them.
    pub is_shared: bool,
    /// The cause without other evidence.
    pub otherwise: u32,
}

impl Open {
    /// Known with the same payer.
    pub fn of_its_payer(&self, evidence: &[(Known, f64)]) -> Weights {
        let of_it = |known: &Known| self.payer.is_none_or(|payer| payer == known.pair.payer);
        let mut evidence = self.of_owners(evidence);
        evidence.retain(|(known, _)| of_it(known));
        evidence
    }

    /// Evidence that may stand for it: work for all packets is caused by those with an owner.
    pub fn of_owners(&self, evidence: &[(Known, f64)]) -> Weights {
        let may_stand = |known: &Known| {
            !self.is_shared || known.found != Evidence::Nothing || known.is_handed_on()
        };
        let evidence = evidence.iter().filter(|(known, _)| may_stand(known));
        evidence.copied().collect()
    }
}

/// Weights of evidence.
pub type Weights = Vec<(Known, f64)>;

/// Most pairs kept; above that, the lightest is forgotten.
const MOST: usize = 256;

/// Weights of evidence; those of the past decay, and have no open samples.
#[derive(Debug, Clone, Default)]
pub struct Pool {
    now: Weights,
    /// Those, and samples that stand for no time.
    evidence: Weights,
    past: Weights,
    open: Vec<(Open, f64)>,
}

impl Pool {
    /// Starts an interval of this length: earlier weights move to the past.
    pub fn begin(&mut self, interval_ns: u64) {
        self.open.clear();
        self.now.clear();
        if self.evidence.is_empty() && self.past.is_empty() {
            return;
        }
        for (known, weight) in std::mem::take(&mut self.evidence) {
            add(&mut self.past, known, weight);
        }
        fade(&mut self.past, interval_ns, MOST);
    }

    /// Adds a sample of the interval to those that stand for time.
    pub fn add(&mut self, known: Known, weight: f64) {
        add(&mut self.now, known, weight);
    }

    /// Adds a sample of the interval, or charged time, to what tells causes.
    pub fn add_evidence(&mut self, known: Known, weight: f64) {
        add(&mut self.evidence, known, weight);
    }

    /// Adds a sample of the interval whose cause is not known.
    pub fn add_open(&mut self, open: Open, weight: f64) {
        add(&mut self.open, open, weight);
    }

    /// Weights of the interval; none without a sample.
    pub fn now(&self) -> &[(Known, f64)] {
        &self.now
    }

    /// Weights of the interval's evidence: its samples, and those that stand for no time.
    pub fn evidence(&self) -> &[(Known, f64)] {
        &self.evidence
    }

    /// Weights of the interval's open samples.
    pub fn open(&self) -> &[(Open, f64)] {
        &self.open
    }

    /// Weights of the past; none if nothing is remembered.
    pub fn past(&self) -> &[(Known, f64)] {
        &self.past
    }

    /// Renumbers owners by `renamed`. Owners that share a number are merged, with the sum of their
    /// weights.
    pub fn rename(&mut self, renamed: impl Fn(u32) -> u32) {
        for list in [&mut self.now, &mut self.evidence, &mut self.past] {
            for (known, weight) in std::mem::take(list) {
                let [cause, payer] = [known.pair.cause, known.pair.payer].map(&renamed);
                let pair = Pair { cause, payer };
                add(list, Known { pair, ..known }, weight);
            }
        }
        for (open, weight) in std::mem::take(&mut self.open) {
            let payer = open.payer.map(&renamed);
            add(&mut self.open, Open { payer, ..open }, weight);
        }
    }
}

fn add<K: PartialEq>(list: &mut Vec<(K, f64)>, key: K, weight: f64) {
    match list.iter_mut().find(|(known, _)| *known == key) {
        Some((_, known)) => *known += weight,
        None => list.push((key, weight)),
    }
}

/// Divides a whole by weights, so that the parts sum to it: each part is rounded down, and the
/// heaviest gets the remainder. Without weights nothing is divided.
pub fn divide(whole: u64, weights: &[(Known, f64)], mut part: impl FnMut(Known, u64)) {
    let all: f64 = weights.iter().map(|(_, weight)| weight).sum();
    let Some(heaviest) = weights.iter().max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return;
    };
    let mut left = whole;
    for (known, weight) in weights {
        let share = ((whole as f64 * (weight / all)) as u64).min(left);
        left -= share;
        if share > 0 {
            part(*known, share);
        }
    }
    if left > 0 {
        part(heaviest.0, left);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn caused_by(cause: u32) -> Known {
        Known {
            pair: Pair { cause, payer: 0 },
            found: Evidence::Socket,
        }
    }

    fn of((cause, weight): (u32, f64)) -> (Known, f64) {
        (caused_by(cause), weight)
    }

    proptest! {
        #[test]
        fn parts_sum_to_their_whole_to_the_nanosecond(
            whole in any::<u64>(),
            weights in prop::collection::vec(0.01_f64..1e9, 1..20),
        ) {
            let weights: Vec<_> = weights.into_iter().enumerate().map(|(at, weight)| (caused_by(at as u32), weight)).collect();
            let mut sum = 0_u128;
            divide(whole, &weights, |_, ns| sum += u128::from(ns));
            prop_assert_eq!(sum, u128::from(whole));
        }
    }

    #[test]
    fn an_interval_has_its_own_samples_and_the_past_those_before() {
        let mut pool = Pool::default();
        (0..100).for_each(|_| pool.add_evidence(caused_by(1), 1.0));
        pool.begin(1);
        pool.add(caused_by(2), 1.0);
        assert_eq!(pool.now(), [(caused_by(2), 1.0)]);
        pool.add_evidence(caused_by(2), 1.0);
        assert!(pool.past()[0].0 == caused_by(1) && pool.past()[0].1 > 99.0);
        pool.begin(1);
        assert_eq!((pool.now().len(), pool.past().len()), (0, 2));
    }

    #[test]
    fn the_past_fades_and_takes_bounded_memory() {
        let mut pool = Pool::default();
        for cause in 0..10_000 {
            pool.add_evidence(caused_by(cause), 1.0);
            if cause % 100 == 0 {
                pool.begin(1_000_000);
            }
        }
        pool.begin(1_000_000);
        assert_eq!(pool.past.len(), MOST);
        pool.begin(60_000_000_000);
        assert!(pool.now().is_empty() && pool.past().is_empty());
    }

    #[test]
    fn who_shares_a_number_weighs_what_all_of_them_did() {
        let mut pool = Pool::default();
        (0..2).for_each(|cause| pool.add_evidence(caused_by(cause), 1.0));
        pool.begin(0);
        (0..4).for_each(|cause| pool.add(caused_by(cause), 1.0));
        pool.rename(|who| if who == 0 { 0 } else { who / 3 + 1 });
        assert_eq!(pool.past, [(0, 1.0), (1, 1.0)].map(of));
        assert_eq!(pool.now, [(0, 1.0), (1, 2.0), (2, 1.0)].map(of));
    }
}
