//! What is said of a host that is judged again and again: loads change by the second, what advice is
//! about does not. Pure.

use super::adviser::{Advice, Adviser, Holds, Unjudged};
use super::figures::Figures;
use super::rules::RULES;
use crate::steady::Steady;
use crate::verdict::{InUnit, of_host};
use metrics_common::snapshot::Snapshot;

/// Advice begins once so much time was measured, nanoseconds.
pub const LEAST_NS: u64 = 3_000_000_000;
/// A rule is said once it has held for so long, nanoseconds.
const BEGINS_NS: u64 = 10_000_000_000;
/// It is said for so long after it held last.
const ENDS_NS: u64 = 300_000_000_000;
/// A rule that is said again within this time after it ended comes and goes with the load: each time it is
/// said twice as long after it held last, up to [`MOST_ENDS_NS`].
const RETURNS_NS: u64 = 3_600_000_000_000;
const MOST_ENDS_NS: u64 = 1_200_000_000_000;

/// Which rules hold, and which are said.
#[derive(Debug, Clone)]
struct Lasting {
    adviser: Adviser,
    begins_ns: u64,
    rules: [Said; RULES.len()],
}

/// Times are of the clock of intervals.
#[derive(Debug, Clone, Copy, Default)]
struct Said {
    is_said: bool,
    /// Since when it holds.
    since_ns: Option<u64>,
    held_last_ns: u64,
    /// It is said for so long after it held last.
    ends_ns: u64,
    /// When it was said last.
    ended_ns: Option<u64>,
}

impl Default for Lasting {
    fn default() -> Self {
        Lasting::after(BEGINS_NS)
    }
}

impl Lasting {
    fn after(begins_ns: u64) -> Lasting {
        Lasting {
            adviser: Adviser::default(),
            begins_ns,
            rules: Default::default(),
        }
    }

    /// Takes the judgement of now.
    fn go_on(&mut self, now_ns: u64) {
        for (rule, holds) in self.rules.iter_mut().zip(self.adviser.holds()) {
            rule.go_on(now_ns, *holds, self.begins_ns);
        }
    }
}

impl Said {
    fn go_on(&mut self, now_ns: u64, holds: Holds, begins_ns: u64) {
        if holds == Holds::Yes {
            let since_ns = *self.since_ns.get_or_insert(now_ns);
            self.held_last_ns = now_ns;
            if !self.is_said && now_ns.abs_diff(since_ns) >= begins_ns {
                self.is_said = true;
                let ended_ns = self.ended_ns.take();
                self.ends_ns =
                    if ended_ns.is_some_and(|ended_ns| now_ns.abs_diff(ended_ns) < RETURNS_NS) {
                        (2 * self.ends_ns).min(MOST_ENDS_NS)
                    } else {
                        ENDS_NS
                    };
            }
            return;
        }
        self.since_ns = None;
        if self.is_said && now_ns.abs_diff(self.held_last_ns) > self.ends_ns {
            self.is_said = false;
            self.ended_ns = Some(now_ns);
        }
    }
}

/// Advice that is said, in the words of when its rule held last.
#[derive(Debug, Clone, Default)]
pub struct LastingAdvice {
    lasting: Lasting,
    /// By rule, once one was judged.
    words: Vec<Option<Advice>>,
}

impl LastingAdvice {
    /// Says what holds at once, for a reader who asks once.
    pub fn at_once() -> LastingAdvice {
        LastingAdvice {
            lasting: Lasting::after(0),
            words: Vec::new(),
        }
    }

    /// Takes over what somebody who has judged for longer says now, by the rules' names.
    pub fn take_over(&mut self, rules: &[String], now_ns: u64) {
        for (rule, said) in RULES.iter().zip(&mut self.lasting.rules) {
            if rules.iter().any(|name| name == rule.slug) && !said.is_said {
                said.is_said = true;
                (said.held_last_ns, said.ends_ns) = (now_ns, ENDS_NS);
            }
        }
    }

    /// Whether anything is said.
    pub fn says_anything(&self) -> bool {
        self.lasting.rules.iter().any(|rule| rule.is_said)
    }

    /// Judges the last seconds, which end now. Returns the rules that cannot be judged.
    pub fn judge(&mut self, sum: &Snapshot) -> Vec<Unjudged> {
        self.judge_in(sum, &of_host)
    }

    /// The same, with CPU time in the reader's unit.
    pub fn judge_in(&mut self, sum: &Snapshot, in_unit: InUnit) -> Vec<Unjudged> {
        let judged = self.lasting.adviser.judge_in(sum, in_unit);
        self.lasting.go_on(sum.time_unix_ns);
        self.words.resize_with(RULES.len(), || None);
        for advice in judged.advice {
            let place = RULES.iter().position(|rule| rule.slug == advice.rule);
            if let Some(words) = place.and_then(|place| self.words.get_mut(place)) {
                *words = Some(advice);
            }
        }
        judged.unjudged
    }

    /// What is said, in the order of [`RULES`], and when each rule held last.
    pub fn said(&self) -> impl Iterator<Item = (&Advice, u64)> {
        let all = self.lasting.rules.iter().zip(&self.words);
        all.filter_map(|(rule, words)| {
            let words = words.as_ref().filter(|_| rule.is_said)?;
            Some((words, rule.held_last_ns))
        })
    }
}

/// Seconds without the rule are told in steps, so that a list is not written anew each second.
const STEP_S: u64 = 10;

/// For how long a rule that is said has not held, for people: empty if it does.
pub fn silent_words(now_ns: u64, held_unix_ns: u64) -> String {
    match now_ns.abs_diff(held_unix_ns) / (STEP_S * 1_000_000_000) {
        0 => String::new(),
        steps => format!(" (not for {} s)", steps * STEP_S),
    }
}

/// Which rules are said of a host that is being measured, by its last seconds. Kept for each interval,
/// and seldom read: it copies nothing, and words are left to whoever asks for advice.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    steady: Steady,
    lasting: Lasting,
}

impl Watch {
    /// Adds the newest interval.
    pub fn push(&mut self, snapshot: &Snapshot) {
        self.steady.push(snapshot, |sum, later| {
            super::add_without_owners(sum, later);
            // Of owners, rules look at who takes from whom.
            if let Some(owners) = &later.sections.owners {
                sum.sections
                    .owners
                    .get_or_insert_default()
                    .add_pairs(owners);
            }
        });
    }

    /// Judges the last seconds, once there are enough.
    pub fn judge(&mut self) {
        let sum = self.steady.sum();
        if let Some(sum) = sum.filter(|sum| sum.interval_ns >= LEAST_NS) {
            let figures = Figures::of(sum);
            self.lasting.adviser.find(figures, |_, _, _| ());
            self.lasting.go_on(sum.time_unix_ns);
        }
    }

    #[cfg(test)]
    pub(super) fn sum(&self) -> Option<&Snapshot> {
        self.steady.sum()
    }

    #[cfg(test)]
    pub(super) fn holds(&self) -> &[Holds] {
        self.lasting.adviser.holds()
    }

    /// A copy that knows which rules are said, and no interval.
    pub fn without_past(&self) -> Watch {
        Watch {
            steady: Steady::default(),
            lasting: self.lasting.clone(),
        }
    }

    /// Whether each rule of [`RULES`] is said; unknown if it is not, and cannot be judged.
    pub fn said(&self) -> impl Iterator<Item = Holds> {
        let all = self.lasting.rules.iter().zip(self.lasting.adviser.holds());
        all.map(|(rule, holds)| match (rule.is_said, holds) {
            (true, _) => Holds::Yes,
            (false, Holds::Unknown) => Holds::Unknown,
            (false, _) => Holds::No,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::fixture;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_rule_that_comes_and_goes_is_said_until_it_has_not_held_for_five_minutes() {
        let mut said = Said::default();
        let mut said_at = |second: u64, holds: Holds| {
            said.go_on(second * S, holds, BEGINS_NS);
            said.is_said
        };
        // Seven seconds of each ten.
        let holds = |second: u64| {
            if second % 10 < 7 {
                Holds::Yes
            } else {
                Holds::No
            }
        };
        assert!((0..100).all(|second| !said_at(second, holds(second))));
        let long = (100..112).map(|second| said_at(second, Holds::Yes));
        assert_eq!(long.filter(|is_said| *is_said).count(), 2);
        let often = (112..500).map(|second| said_at(second, holds(second)));
        assert!({ often }.all(|is_said| is_said));
        // It held last at 496 s; one that is not known does not hold.
        assert!(said_at(796, Holds::Unknown));
        assert!(!said_at(797, Holds::No));
        assert!(!said_at(798, Holds::Yes));
        assert!(said_at(3, Holds::Yes), "another time of day");
    }

    #[test]
    fn a_rule_that_returns_with_the_load_is_said_longer_each_time_and_after_an_hour_as_at_first() {
        let mut said = Said::default();
        let mut now = 1_000;
        // For how long it is said after it held, if it holds again after so many seconds without.
        let mut said_for = |silent: u64| {
            now += silent;
            for _ in 0..12 {
                now += 1;
                said.go_on(now * S, Holds::Yes, BEGINS_NS);
            }
            let held = now;
            while said.is_said {
                now += 1;
                said.go_on(now * S, Holds::No, BEGINS_NS);
            }
            now - held - 1
        };
        let minutes = [0, 100, 100, 100, 100, 3_700].map(|silent| said_for(silent) / 60);
        assert_eq!(minutes, [5, 10, 20, 20, 20, 5]);
    }

    #[test]
    fn who_asks_once_is_told_at_once_and_words_stay_as_long_as_they_are_said() {
        let mut held = fixture::fires("spinning");
        held.time_unix_ns = 100 * S;
        let calm = |second: u64| Snapshot {
            time_unix_ns: second * S,
            ..fixture::calm()
        };
        let mut lasting = LastingAdvice::default();
        lasting.judge(&held);
        assert_eq!(lasting.said().count(), 0, "it has not held for long");
        let mut lasting = LastingAdvice::at_once();
        lasting.judge(&held);
        lasting.judge(&calm(140));
        let said: Vec<(&str, u64)> = lasting
            .said()
            .map(|(advice, at)| (advice.rule, at))
            .collect();
        assert_eq!(said, [("spinning", 100 * S)]);
        lasting.judge(&calm(401));
        assert_eq!(lasting.said().count(), 0);
    }

    #[test]
    fn how_long_a_rule_has_not_held_is_told_in_steps_of_ten_seconds() {
        assert_eq!(silent_words(109 * S, 100 * S), "");
        assert_eq!(silent_words(149 * S, 100 * S), " (not for 40 s)");
    }
}
