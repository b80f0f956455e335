//! How long something may go on: looked at between two steps of a kind that never take long.

use crate::analysis::allowance::Allowance;
use netto_sys::system::monotonic_ns;

/// A piece of time to look for names in.
#[derive(Debug)]
pub struct Slice {
    begun_ns: u64,
    until_ns: u64,
    /// In tests steps are counted, not time.
    #[cfg(test)]
    steps: Option<u32>,
}

impl Slice {
    /// From now on, so long.
    pub fn of(ns: u64) -> Self {
        let begun_ns = monotonic_ns();
        Slice {
            begun_ns,
            until_ns: begun_ns.saturating_add(ns),
            #[cfg(test)]
            steps: None,
        }
    }

    /// From now on, as long as the allowance lets it.
    pub fn from(allowance: &mut Allowance) -> Self {
        Slice::of(allowance.at(monotonic_ns()))
    }

    /// Ends it: what it took is spent.
    pub fn end(self, allowance: &mut Allowance) {
        allowance.spend(monotonic_ns().saturating_sub(self.begun_ns));
    }

    /// Whether there is time for one more step.
    pub fn goes_on(&mut self) -> bool {
        #[cfg(test)]
        if let Some(steps) = &mut self.steps {
            *steps = steps.saturating_sub(1);
            return *steps > 0;
        }
        monotonic_ns() < self.until_ns
    }

    /// One that goes on for fewer steps than this.
    #[cfg(test)]
    pub fn of_steps(steps: u32) -> Self {
        Slice {
            steps: Some(steps),
            ..Slice::of(0)
        }
    }

    /// One that ends when all is done.
    #[cfg(test)]
    pub fn endless() -> Self {
        Slice::of_steps(u32::MAX)
    }
}
