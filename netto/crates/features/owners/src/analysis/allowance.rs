//! How much time looking for names may take: a twentieth of all time, and little at once.

/// Of so much time, names may take one part.
const SHARE: u64 = 20;
/// What is saved at most, nanoseconds: an interval waits no longer for names.
const MOST_NS: i64 = 25_000_000;

/// Time that looking for names may take: it grows with time, and is spent.
#[derive(Debug, Clone)]
pub struct Allowance {
    /// What is there, nanoseconds; below 0 after something took longer than it was given.
    saved_ns: i64,
    /// Until when it has grown, on the clock that never goes back.
    until_ns: u64,
}

impl Allowance {
    /// From now on, with as much as is ever saved.
    pub fn new(now_ns: u64) -> Self {
        Allowance {
            saved_ns: MOST_NS,
            until_ns: now_ns,
        }
    }

    /// What may be spent at this time, nanoseconds.
    pub fn at(&mut self, now_ns: u64) -> u64 {
        let grown = now_ns.saturating_sub(self.until_ns) / SHARE;
        let grown = i64::try_from(grown).unwrap_or(MOST_NS);
        self.saved_ns = self.saved_ns.saturating_add(grown).min(MOST_NS);
        self.until_ns = self.until_ns.max(now_ns);
        u64::try_from(self.saved_ns).unwrap_or(0)
    }

    /// So much was spent, nanoseconds.
    pub fn spend(&mut self, ns: u64) {
        let ns = i64::try_from(ns).unwrap_or(i64::MAX);
        self.saved_ns = self.saved_ns.saturating_sub(ns);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn what_took_too_long_is_paid_back_before_anything_is_spent_again() {
        let mut allowance = Allowance::new(SECOND);
        allowance.spend(allowance.clone().at(SECOND) + SECOND / 20);
        assert_eq!(allowance.at(2 * SECOND), 0);
        assert_eq!(allowance.at(2 * SECOND + 20), 1);
    }

    #[test]
    fn a_long_rest_allows_no_long_work() {
        let mut allowance = Allowance::new(0);
        assert_eq!(allowance.at(u64::MAX), MOST_NS as u64);
    }

    proptest! {
        #[test]
        fn no_more_than_a_twentieth_of_the_time_is_ever_handed_out(
            steps in proptest::collection::vec((0..SECOND, 0..MOST_NS as u64), 1..60),
        ) {
            let mut allowance = Allowance::new(0);
            let (mut now_ns, mut spent_ns) = (0, 0);
            for (later, wish) in steps {
                now_ns += later;
                let ns = wish.min(allowance.at(now_ns));
                allowance.spend(ns);
                spent_ns += ns;
                prop_assert!(spent_ns <= now_ns / SHARE + MOST_NS as u64);
            }
        }
    }
}
