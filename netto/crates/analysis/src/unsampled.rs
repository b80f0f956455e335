//! CPUs that are online but cannot be sampled: reports each cause only once.
//!
//! The sampler retries such a CPU in every interval, since most causes are temporary. The same
//! refusal of the same CPU is not reported again.

use std::collections::{BTreeMap, BTreeSet};

/// Current and reported refusals.
#[derive(Debug, Default)]
pub struct Unsampled {
    /// Current refusal of each CPU.
    now: BTreeMap<u32, String>,
    /// All reported pairs of CPU and cause.
    reported: BTreeSet<(u32, String)>,
}

/// Most pairs of CPU and cause reported; no host has as many.
const MOST_TOLD: usize = 1 << 16;

impl Unsampled {
    /// Records the refusals of an interval; returns those not yet reported.
    pub fn observe(&mut self, refused: impl IntoIterator<Item = (u32, String)>) -> Vec<String> {
        self.now = refused.into_iter().collect();
        let mut news: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for (cpu, cause) in &self.now {
            if self.reported.len() < MOST_TOLD && self.reported.insert((*cpu, cause.clone())) {
                news.entry(cause).or_default().push(*cpu);
            }
        }
        news.into_iter()
            .map(|(cause, cpus)| sentence(cause, &cpus))
            .collect()
    }

    /// Remarks on this interval for the user, one sentence for each cause.
    pub fn notes(&self) -> Vec<String> {
        let mut causes: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for (cpu, cause) in &self.now {
            causes.entry(cause).or_default().push(*cpu);
        }
        causes
            .into_iter()
            .map(|(cause, cpus)| sentence(cause, &cpus))
            .collect()
    }
}

fn sentence(cause: &str, cpus: &[u32]) -> String {
    let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
    format!(
        "These CPUs are not sampled, so the work on them is not broken down: {} ({cause}).",
        list.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(list: &[(u32, &str)]) -> Vec<(u32, String)> {
        list.iter()
            .map(|(cpu, cause)| (*cpu, (*cause).to_owned()))
            .collect()
    }

    #[test]
    fn a_cpu_is_told_of_once_for_each_cause() {
        let mut unsampled = Unsampled::default();
        let news = unsampled.observe(refused(&[(3, "no such device"), (5, "no such device")]));
        assert_eq!(news.len(), 1, "{news:?}");
        assert!(news[0].contains("3, 5 (no such device)"), "{news:?}");
        for _ in 0..100 {
            assert!(
                unsampled
                    .observe(refused(&[(3, "no such device")]))
                    .is_empty()
            );
        }
        assert!(unsampled.observe(refused(&[])).is_empty());
        let news = unsampled.observe(refused(&[
            (3, "too many open files"),
            (5, "no such device"),
        ]));
        assert!(
            news.len() == 1 && news[0].contains(": 3 (too many"),
            "{news:?}"
        );
    }

    #[test]
    fn the_notes_are_of_this_interval() {
        let mut unsampled = Unsampled::default();
        unsampled.observe(refused(&[(1, "a"), (2, "b")]));
        assert_eq!(unsampled.notes().len(), 2);
        unsampled.observe(refused(&[]));
        assert!(unsampled.notes().is_empty());
    }
}
