//! Shares of a whole's time, for any number of samples per interval. Pure; knows what it is divided
//! among only by numbers, its rows.
//!
//! An interval with many samples is divided by them alone: the share of each part is its share of
//! the samples. With few samples this would be wrong in two ways: without samples no part gets
//! time, and with one sample the whole interval goes to its part, however long, so that parts with
//! different rates are not treated alike. Below [`ENOUGH`] expected samples, each sample is
//! therefore worth the time between two samples, and the difference to the interval's time is
//! divided by the shares of the recent past, of the CPU and of the host. On average this difference
//! is zero, whatever the shares, so that sums over many intervals converge to the truth even if the
//! past was different.
//!
//! One interval may be too short to pay for all of its samples. The difference is carried to the
//! following intervals: for each part, the time given out stays within some sampling periods of the
//! time found, permanently. No time is held back: all of an interval's time is given out at once.
//!
//! A sample may stand for more time than another of the same CPU: each has a weight, in samples that stand
//! for one period.

use crate::design_effect::Mass;

/// Expected samples from which an interval is divided by its own samples alone: the chance of
/// having none is then 1 in 3,000.
const ENOUGH: f64 = 8.0;
/// Time in which a past sample's weight falls to a third.
pub const MEMORY_NS: f64 = 30e9;
/// Weight of the host's shares, in samples of the CPU's own past.
const HOST_WEIGHT: f64 = 4.0;
/// Weight below which the past is dropped, in samples: one sample is forgotten after 90 s.
const FORGOTTEN: f64 = 0.05;
/// Weight of the nominal sampling period, in samples, against the observed one.
const DOUBT: f64 = 32.0;
/// Most samples that count for the observed period, so that it follows changes.
const DOUBT_MEMORY: f64 = 1024.0;
/// Most time carried over, in samples; reached only if sampler and clock disagree.
const MOST_CARRIED: f64 = 64.0;

/// The basis of the split of an interval's time, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Basis {
    /// The interval's own samples.
    pub stacks_ns: u64,
    /// Recent samples of the same CPU.
    pub past_ns: u64,
    /// Samples of the host's other CPUs, in this interval and recently.
    pub host_ns: u64,
    /// No samples: the remainder gets this time.
    pub nothing_ns: u64,
}

/// Samples of one whole on all CPUs, by row of the component table.
#[derive(Debug, Clone, Default)]
pub struct HostPool {
    /// Of past intervals, with decreasing weight.
    recent: Vec<f64>,
    /// Of this interval.
    now: Vec<f64>,
}

impl HostPool {
    /// Moves this interval's samples into the past, and ages the past by its length.
    pub fn age(&mut self, by_ns: u64) {
        let lighter = (-(by_ns as f64) / MEMORY_NS).exp();
        for (recent, now) in self.recent.iter_mut().zip(&mut self.now) {
            *recent = (*recent + *now) * lighter;
            *now = 0.0;
        }
    }

    /// Adds samples of this interval.
    pub fn add(&mut self, row: usize, samples: Mass) {
        let rows = self.now.len().max(row + 1);
        self.recent.resize(rows, 0.0);
        self.now.resize(rows, 0.0);
        self.now[row] += samples.sum();
    }

    /// Forgets a row, whose number something else will have.
    pub fn forget(&mut self, row: usize) {
        for pool in [&mut self.recent, &mut self.now] {
            if let Some(weight) = pool.get_mut(row) {
                *weight = 0.0;
            }
        }
    }

    /// Weight of a row without these samples of one CPU.
    fn of_others(&self, row: usize, of_cpu: Mass) -> f64 {
        match (self.recent.get(row), self.now.get(row)) {
            (Some(recent), Some(now)) => recent + (now - of_cpu.sum()).max(0.0),
            _ => 0.0,
        }
    }

    /// Rows with a weight.
    fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.now.len()).filter(|&row| self.recent[row] + self.now[row] > 0.0)
    }
}

/// A part of a whole, on one CPU.
#[derive(Debug, Clone, Copy)]
struct Member {
    row: usize,
    /// The value of its samples minus the time given so far; may be negative. Sums to 0 over all
    /// members.
    carried_ns: f64,
    /// Its past samples, with decreasing weight.
    recent: Mass,
    /// Its samples in this interval.
    samples: Mass,
    /// Share of the recent past.
    share: f64,
}

impl Member {
    /// The mean weight of one of its samples; 1 before any.
    fn weight(&self) -> f64 {
        self.recent.mean_or(self.samples.mean_or(1.0))
    }
}

/// The state of one whole's split on one CPU.
#[derive(Debug, Clone, Default)]
pub struct Pool {
    members: Vec<Member>,
    /// Time up to which the past has aged.
    now_ns: u64,
    /// The whole's time, and the nominal time of its samples, with the weights of the past.
    time_ns: f64,
    sampled_ns: f64,
}

/// The time to divide.
#[derive(Debug, Clone, Copy)]
pub struct Whole<'a> {
    /// Nanoseconds.
    pub time_ns: u64,
    /// The time for which a sample of weight 1 stands, nanoseconds.
    pub period_ns: u64,
    /// Samples by row.
    pub samples: &'a [(usize, Mass)],
    /// The row that gets the rest.
    pub rest: usize,
    /// The end of the interval, on a clock of the caller's.
    pub now_ns: u64,
}

/// A row over all CPUs.
#[derive(Debug, Clone, Copy, Default)]
struct Expected {
    time: f64,
    variance: f64,
    /// What it was given.
    given: f64,
}

/// How the CPUs (strata) of a whole were sampled in an interval, and what was expected of its parts.
///
/// A part's variance is Σ T w p (1 − p) over strata, where T is the stratum's time, w that of one of its
/// samples, and p the part's share of it (W. G. Cochran, *Sampling Techniques*, 3rd edition, 1977,
/// theorem 5.3 and section 5.10). Where samples of a stratum stand for unlike times, that of a ratio of sums
/// (section 6.4): T p (w (1 − 2 p) + p W), with w of the part's samples, and W of all. Shares are those of the recent past, to which the host's add some
/// samples: an interval's own are too few for p (1 − p), and a part's samples may all be on CPUs where
/// each stands for little.
#[derive(Debug, Clone, Default)]
pub struct Design {
    whole_ns: f64,
    /// Time by that of a sample.
    moment: f64,
    rows: Vec<Expected>,
}

impl Design {
    /// Begins an interval.
    pub fn clear(&mut self) {
        (self.whole_ns, self.moment) = (0.0, 0.0);
        self.rows.clear();
    }

    fn row(&mut self, row: usize) -> &mut Expected {
        if self.rows.len() <= row {
            self.rows.resize(row + 1, Expected::default());
        }
        &mut self.rows[row]
    }

    /// Adds what is expected of a member in so much time, where a sample of weight 1 stands for `worth_ns`, and
    /// those of all members have this weight on average.
    fn add(&mut self, member: &Member, time_ns: f64, worth_ns: f64, mean: f64, has_past: bool) {
        let (share, weight) = (member.share, member.weight());
        let expected = self.row(member.row);
        expected.time += time_ns * share;
        // The share of few samples says nothing of those that show something else.
        let of_one = if has_past {
            weight * (1.0 - 2.0 * share) + share * mean
        } else {
            weight
        };
        expected.variance += time_ns * worth_ns * share * of_one.max(0.0);
    }

    fn of(&self, row: usize) -> Expected {
        self.rows.get(row).copied().unwrap_or_default()
    }

    /// The variance of a row that was given this much time.
    pub fn variance(&self, row: usize, ns: f64) -> f64 {
        ns * self.weight_ns(row) * (1.0 - ns / self.whole_ns.max(1.0)).max(0.0)
    }

    /// What a row was given, nanoseconds.
    pub fn given_ns(&self, row: usize) -> f64 {
        self.of(row).given
    }

    /// Whether nothing is expected of any other row.
    pub fn is_of(&self, row: usize) -> bool {
        self.of(row).time >= self.whole_ns
    }

    /// The time that one sample of the whole stands for, on average.
    pub fn whole_weight_ns(&self) -> f64 {
        self.moment / self.whole_ns.max(1.0)
    }

    /// The time for which one of so many samples of equal weight would stand that tell as much of a part:
    /// its variance is this × its time × the others' share.
    pub fn weight_ns(&self, row: usize) -> f64 {
        let Expected { time, variance, .. } = self.of(row);
        let binomial = time * (1.0 - time / self.whole_ns.max(1.0));
        if binomial > 1e-9 * self.whole_ns {
            variance / binomial
        } else {
            self.whole_weight_ns()
        }
    }
}

impl Pool {
    /// Divides a whole's time among its rows: calls `hand_out` with nanoseconds that sum exactly to
    /// it. What the division rests on is added to the design.
    pub fn divide(
        &mut self,
        whole: Whole<'_>,
        host: &HostPool,
        design: &mut Design,
        mut hand_out: impl FnMut(usize, u64),
    ) -> Basis {
        let samples: f64 = whole.samples.iter().map(|(_, mass)| mass.sum()).sum();
        if whole.time_ns == 0 && samples == 0.0 {
            return Basis::default();
        }
        self.age(whole.now_ns);
        self.meet(whole, host);
        let past = self.weigh(whole, samples, host);

        let time_ns = whole.time_ns as f64;
        let worth_ns = self.worth_ns(whole.period_ns);
        let shares = self.members.iter();
        let mean: f64 = shares.map(|member| member.share * member.weight()).sum();
        // Heavy samples are few.
        let sample_ns = worth_ns * mean;
        let expected = time_ns / sample_ns;
        let missing = (ENOUGH - expected).max(0.0);
        let mut weights = 0.0;
        for member in &mut self.members {
            let of_it = member.samples.sum();
            member.carried_ns += if missing > 0.0 || samples == 0.0 {
                worth_ns * of_it + member.share * (time_ns - worth_ns * samples)
            } else {
                time_ns * of_it / samples
            };
            weights += (member.carried_ns + member.share * missing * sample_ns).max(0.0);
        }
        design.whole_ns += time_ns;
        design.moment += time_ns * sample_ns;
        for member in &self.members {
            design.add(member, time_ns, worth_ns, mean, past.is_some());
        }
        let mut left_ns = whole.time_ns;
        for member in &mut self.members {
            let weight = (member.carried_ns + member.share * missing * sample_ns).max(0.0);
            if member.row != whole.rest && weights > 0.0 {
                // Rounded down, except for rounding errors of floating point.
                let part_ns = ((time_ns * (weight / weights) + 1e-3) as u64).min(left_ns);
                member.carried_ns -= part_ns as f64;
                left_ns -= part_ns;
                design.row(member.row).given += part_ns as f64;
                hand_out(member.row, part_ns);
            }
        }
        if let Some(rest) = self.members.iter_mut().find(|m| m.row == whole.rest) {
            rest.carried_ns -= left_ns as f64;
        }
        design.row(whole.rest).given += left_ns as f64;
        hand_out(whole.rest, left_ns);
        self.remember(whole, sample_ns);
        let number = samples / mean;
        let by_samples = match (samples > 0.0, past.is_some()) {
            (true, true) => number / (number + missing),
            (true, false) => 1.0,
            (false, _) => 0.0,
        };
        basis(whole.time_ns, by_samples, past)
    }

    /// Forgets a row, whose number something else will have; what is carried of it goes to `rest`.
    pub fn forget(&mut self, row: usize, rest: usize) {
        if let Some(at) = self.members.iter().position(|member| member.row == row) {
            let carried_ns = self.members.swap_remove(at).carried_ns;
            self.member(rest).carried_ns += carried_ns;
        }
    }

    fn age(&mut self, now_ns: u64) {
        let lighter = (-(now_ns.saturating_sub(self.now_ns) as f64) / MEMORY_NS).exp();
        self.now_ns = now_ns;
        for member in &mut self.members {
            member.recent.fade(lighter);
            member.samples = Mass::default();
        }
    }

    /// Adds a member for each row that may get time, and records this interval's samples.
    fn meet(&mut self, whole: Whole<'_>, host: &HostPool) {
        for row in std::iter::once(whole.rest).chain(host.rows()) {
            self.member(row);
        }
        for &(row, samples) in whole.samples {
            self.member(row).samples = samples;
        }
    }

    fn member(&mut self, row: usize) -> &mut Member {
        let at = self.members.iter().position(|member| member.row == row);
        let at = at.unwrap_or_else(|| {
            self.members.push(Member {
                row,
                carried_ns: 0.0,
                recent: Mass::default(),
                samples: Mass::default(),
                share: 0.0,
            });
            self.members.len() - 1
        });
        &mut self.members[at]
    }

    /// Computes each member's share of the recent past. Returns the CPU's own part of the weight, 0
    /// to 1, or `None` without a past. This CPU's samples of this interval are excluded, because
    /// the shares correct for them and must be independent.
    fn weigh(&mut self, whole: Whole<'_>, samples: f64, host: &HostPool) -> Option<f64> {
        let others = |member: &Member| host.of_others(member.row, member.samples);
        let of_host: f64 = self.members.iter().map(others).sum();
        let of_cpus: f64 = self.members.iter().map(|m| m.recent.sum()).sum();
        let has_past = of_host.max(of_cpus) >= FORGOTTEN;
        let host_weight = if of_host > 0.0 { HOST_WEIGHT } else { 0.0 };
        for member in &mut self.members {
            member.share = if has_past {
                let of_host =
                    host.of_others(member.row, member.samples) / of_host.max(f64::MIN_POSITIVE);
                (member.recent.sum() + host_weight * of_host) / (of_cpus + host_weight)
            } else if samples > 0.0 {
                member.samples.sum() / samples
            } else {
                f64::from(u8::from(member.row == whole.rest))
            };
        }
        has_past.then(|| of_cpus / (of_cpus + host_weight))
    }

    /// The time that a sample stands for: the sampler's period, unless this whole was sampled at
    /// another rate for long.
    fn worth_ns(&self, period_ns: u64) -> f64 {
        let period_ns = period_ns.max(1) as f64;
        let doubt_ns = DOUBT * period_ns;
        period_ns * (self.time_ns + doubt_ns) / (self.sampled_ns + doubt_ns)
    }

    fn remember(&mut self, whole: Whole<'_>, sample_ns: f64) {
        let mut samples = 0.0;
        let mut owed_ns = 0.0;
        for member in &mut self.members {
            member.recent += member.samples;
            samples += member.samples.sum();
            owed_ns += member.carried_ns.max(0.0);
        }
        let most_ns = MOST_CARRIED * sample_ns;
        if owed_ns > most_ns {
            for member in &mut self.members {
                member.carried_ns *= most_ns / owed_ns;
            }
        }
        self.time_ns += whole.time_ns as f64;
        self.sampled_ns += samples * whole.period_ns as f64;
        if self.time_ns.max(self.sampled_ns) > DOUBT_MEMORY * whole.period_ns as f64 {
            self.time_ns /= 2.0;
            self.sampled_ns /= 2.0;
        }
    }
}

/// Divides the time by the basis of its split; the parts sum to it.
fn basis(time_ns: u64, by_samples: f64, past: Option<f64>) -> Basis {
    let part = |ratio: f64, of_ns: u64| ((of_ns as f64 * ratio) as u64).min(of_ns);
    let stacks_ns = part(by_samples, time_ns);
    let other_ns = time_ns - stacks_ns;
    match past {
        Some(past) => {
            let past_ns = part(past, other_ns);
            Basis {
                stacks_ns,
                past_ns,
                host_ns: other_ns - past_ns,
                nothing_ns: 0,
            }
        }
        None => Basis {
            stacks_ns,
            nothing_ns: other_ns,
            ..Basis::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: usize = 9;
    const PERIOD_NS: u64 = 1_000;

    /// Divides an interval of a CPU alone; returns what rows 1 and 2 got, too.
    fn divide(pool: &mut Pool, time_ns: u64, counts: &[(usize, u32)]) -> (Basis, [u64; 2]) {
        let samples: Vec<(usize, Mass)> = counts
            .iter()
            .map(|&(row, count)| (row, Mass::of(count)))
            .collect();
        let whole = Whole {
            time_ns,
            period_ns: PERIOD_NS,
            samples: &samples,
            rest: REST,
            now_ns: 0,
        };
        let mut parts = [0; 2];
        let basis = pool.divide(
            whole,
            &HostPool::default(),
            &mut Design::default(),
            |row, ns| {
                if let Some(part) = parts.get_mut(row - 1) {
                    *part += ns;
                }
            },
        );
        (basis, parts)
    }

    #[test]
    fn a_split_rests_on_its_own_samples_as_far_as_it_has_enough() {
        let mut pool = Pool::default();
        divide(&mut pool, 100 * PERIOD_NS, &[(1, 100)]);
        let (basis, _) = divide(&mut pool, 100 * PERIOD_NS, &[(1, 100)]);
        assert_eq!(basis.stacks_ns, 100 * PERIOD_NS);
        let (basis, _) = divide(&mut pool, 4 * PERIOD_NS, &[(1, 4)]);
        assert_eq!((basis.stacks_ns, basis.past_ns), (2_000, 2_000));
    }

    #[test]
    fn enough_samples_divide_the_time_whatever_the_past_was() {
        let mut pool = Pool::default();
        divide(&mut pool, 100 * PERIOD_NS, &[(1, 100)]);
        let (_, parts) = divide(&mut pool, 100 * PERIOD_NS, &[(1, 20), (2, 20)]);
        assert_eq!(parts, [50 * PERIOD_NS, 50 * PERIOD_NS]);
    }

    #[test]
    fn a_row_that_is_forgotten_leaves_nothing_to_the_next_of_its_number() {
        let (mut pool, mut host) = (Pool::default(), HostPool::default());
        host.add(1, Mass::of(100));
        divide(&mut pool, PERIOD_NS, &[(1, 40), (2, 10)]);
        pool.forget(1, REST);
        host.forget(1);
        assert_eq!(host.rows().count(), 0);
        let carried: f64 = pool.members.iter().map(|member| member.carried_ns).sum();
        assert!(carried.abs() < 1e-6, "{carried}");
        let (_, parts) = divide(&mut pool, 100 * PERIOD_NS, &[(2, 100)]);
        assert_eq!(parts[0], 0);
    }

    #[test]
    fn samples_at_odds_with_the_clock_are_forgotten_but_for_some() {
        let mut pool = Pool::default();
        divide(&mut pool, 100 * PERIOD_NS, &[(2, 100)]);
        divide(&mut pool, PERIOD_NS, &[(1, 10_000)]);
        let (_, parts) = divide(&mut pool, 1_000 * PERIOD_NS, &[(2, 1_000)]);
        assert!(parts[0] <= 2 * MOST_CARRIED as u64 * PERIOD_NS, "{parts:?}");
    }
}
