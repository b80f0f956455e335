//! Softirqs that took long, and the samples that were taken in them. Pure.

use std::cmp::Reverse;

use crate::tagged::SampleTag;

/// A softirq, from its beginning to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongSoftirq {
    /// Its CPU.
    pub cpu: usize,
    /// Its vector.
    pub vector: u8,
    /// Its length, without interrupts of network devices, nanoseconds.
    pub length_ns: u64,
    /// The task that it interrupted, the time at which it ended, and the packet that it met last.
    pub tag: SampleTag,
}

impl LongSoftirq {
    /// When it began, CLOCK_MONOTONIC, nanoseconds.
    pub fn began_ns(&self) -> u64 {
        self.tag.time_ns.saturating_sub(self.length_ns)
    }
}

/// Keeps the longest, so many, in the order that [`place_of`] asks for: by CPU and time.
pub fn keep_longest(all: &mut Vec<LongSoftirq>, most: usize) {
    all.sort_unstable_by_key(|softirq| Reverse(softirq.length_ns));
    all.truncate(most);
    all.sort_unstable_by_key(|softirq| (softirq.cpu, softirq.tag.time_ns));
}

/// Which of these was at work on this CPU at this time.
pub fn place_of(all: &[LongSoftirq], cpu: usize, time_ns: u64) -> Option<usize> {
    let place = all.partition_point(|softirq| (softirq.cpu, softirq.tag.time_ns) < (cpu, time_ns));
    let softirq = all.get(place)?;
    (softirq.cpu == cpu && softirq.began_ns() <= time_ns).then_some(place)
}

/// How often each of some values was met, in few.
#[derive(Debug, Clone)]
pub struct Tally<T>(Vec<(T, u32)>);

impl<T> Default for Tally<T> {
    fn default() -> Self {
        Tally(Vec::new())
    }
}

impl<T: Copy + PartialEq> Tally<T> {
    /// Counts a value.
    pub fn add(&mut self, value: T) {
        match self.0.iter_mut().find(|counted| counted.0 == value) {
            Some(counted) => counted.1 += 1,
            None => self.0.push((value, 1)),
        }
    }

    /// The value that was met most often, of several the first.
    pub fn most(&self) -> Option<T> {
        let most = self.0.iter().rev().max_by_key(|counted| counted.1);
        most.map(|counted| counted.0)
    }

    /// How often any was met.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|counted| counted.1).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn softirq(cpu: usize, ended_ns: u64, length_ns: u64) -> LongSoftirq {
        LongSoftirq {
            cpu,
            vector: 3,
            length_ns,
            tag: SampleTag {
                time_ns: ended_ns,
                ..SampleTag::default()
            },
        }
    }

    #[test]
    fn the_longest_stay_and_a_sample_belongs_to_the_one_that_it_was_taken_in() {
        let mut all = vec![
            softirq(1, 900, 100),
            softirq(0, 500, 200),
            softirq(1, 400, 300),
            softirq(0, 50, 3),
        ];
        keep_longest(&mut all, 3);
        let kept: Vec<_> = all
            .iter()
            .map(|softirq| (softirq.cpu, softirq.length_ns))
            .collect();
        assert_eq!(kept, [(0, 200), (1, 300), (1, 100)]);
        for (cpu, time_ns, place) in [
            (0, 299, None),
            (0, 300, Some(0)),
            (0, 500, Some(0)),
            (0, 501, None),
            (1, 99, None),
            (1, 100, Some(1)),
            (1, 850, Some(2)),
            (1, 901, None),
            (2, 300, None),
        ] {
            assert_eq!(
                place_of(&all, cpu, time_ns),
                place,
                "CPU {cpu} at {time_ns}"
            );
        }
        assert_eq!(place_of(&[], 0, 0), None);
    }

    #[test]
    fn what_was_met_most_often_is_told_and_of_equals_the_first() {
        let mut tally = Tally::default();
        assert_eq!((tally.most(), tally.count()), (None, 0));
        for value in [7, 8, 9, 8, 9] {
            tally.add(value);
        }
        assert_eq!((tally.most(), tally.count()), (Some(8), 5));
    }
}
