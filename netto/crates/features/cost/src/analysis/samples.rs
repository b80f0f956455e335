//! An interval's stacks, counted by CPU and owner, and for the flame graph.

use metrics_common::Source;

use super::attribute::{Request, StackCounts};
use netto_analysis::classify::{Classifier, Owner};
use netto_analysis::flame::Flame;

/// One sampled stack.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// CPU on which it was taken.
    pub cpu: usize,
    /// What the per-CPU clock said the CPU was doing.
    pub kind: u8,
    /// Whether the idle task was running, and the sampler could not tell what was on top of it.
    pub is_idle_task: bool,
    /// Return addresses, innermost first.
    pub frames: &'a [u64],
}

/// What a stack was found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Whose time it is.
    pub owner: Owner,
    /// Whether it shows that the packet at hand has met its socket.
    pub has_met_socket: bool,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Samples {
    /// The stacks of the last half to whole minute.
    pub flame: Flame,
    /// By CPU, of the interval.
    counts: Vec<StackCounts>,
    /// By CPU, stacks that were lost in the interval.
    lost: Vec<u64>,
    /// By CPU, stacks that turned out to show nothing but an idle CPU, since the start.
    idle: Vec<u64>,
    nothing: StackCounts,
}

impl Samples {
    /// Nothing yet, of so many CPUs.
    pub fn new(possible_cpus: usize, now_ns: u64) -> Self {
        Samples {
            flame: Flame::new(now_ns),
            counts: vec![StackCounts::default(); possible_cpus],
            lost: vec![0; possible_cpus],
            idle: vec![0; possible_cpus],
            nothing: StackCounts::default(),
        }
    }

    /// Begins an interval.
    pub fn begin(&mut self) {
        self.counts.iter_mut().for_each(StackCounts::clear);
        self.lost.fill(0);
    }

    /// Counts a stack, and tells whose it is; `None` if it is nobody's in the table.
    pub fn add(&mut self, classifier: &mut Classifier, sample: Sample<'_>) -> Option<Found> {
        let known = classifier.recognise(sample.kind, sample.frames);
        let found = classifier.owner_on(sample.cpu, known);
        // Without a clock, networking on top of the idle task is told by the stack alone.
        if found.is_none() && sample.is_idle_task {
            if let Some(count) = self.idle.get_mut(sample.cpu) {
                *count += 1;
            }
            return None;
        }
        let request = match classifier.is_io_thread(known) {
            true => found.and_then(|owner| Request::of(owner.event)),
            false => None,
        };
        let is_rx = sample.kind == Source::NET_RX.clock_kind();
        let shows_rx = is_rx && classifier.is_shown(known);
        if let Some(owner) = found
            && self.flame.wants(owner.event)
        {
            let classifier = &mut *classifier;
            self.flame.add(owner.event, known, move || {
                classifier.own_functions(sample.frames)
            });
        }
        if let Some(counts) = self.counts.get_mut(sample.cpu) {
            counts.add(sample.kind, found);
            if shows_rx {
                counts.add_shown();
            }
            if let Some(request) = request {
                counts.add_request(request);
            }
        }
        found.map(|owner| Found {
            owner,
            has_met_socket: classifier.has_met_socket(known),
        })
    }

    /// Forgets what was counted of a CPU in the interval; whether networking was among it.
    pub fn forget(&mut self, cpu: usize) -> bool {
        let Some(counts) = self.counts.get_mut(cpu) else {
            return false;
        };
        let has_met = counts.has_networking();
        counts.clear();
        has_met
    }

    /// Counts stacks that were lost.
    pub fn lose(&mut self, cpu: usize, count: u64) {
        if let Some(lost) = self.lost.get_mut(cpu) {
            *lost += count;
        }
    }

    /// By CPU, of the interval.
    pub fn counts(&self) -> &[StackCounts] {
        &self.counts
    }

    /// Of one CPU, of the interval.
    pub fn of_cpu(&self, cpu: usize) -> &StackCounts {
        self.counts.get(cpu).unwrap_or(&self.nothing)
    }

    /// Stacks of a CPU that were lost in the interval.
    pub fn lost_on(&self, cpu: usize) -> u64 {
        self.lost.get(cpu).copied().unwrap_or(0)
    }

    /// The time that a stack of a CPU stands for, where one is taken each period: those that were
    /// lost are made up for by those that were not.
    pub fn worth_ns(&self, cpu: usize, period_ns: u64) -> u64 {
        let taken = self.of_cpu(cpu).taken();
        period_ns * (taken + self.lost_on(cpu)) / taken.max(1)
    }

    /// Stacks of a CPU that turned out to show nothing but that it is idle, since the start.
    pub fn idle_on(&self, cpu: usize) -> u64 {
        self.idle.get(cpu).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_that_were_lost_are_made_up_for_on_their_cpu() {
        let mut samples = Samples::new(3, 0);
        samples.begin();
        for _ in 0..40 {
            samples.counts[0].add(0, None);
            samples.counts[1].add(0, None);
        }
        samples.lose(1, 10);
        let worth = [0, 1, 2].map(|cpu| samples.worth_ns(cpu, 1_000));
        assert_eq!(worth, [1_000, 1_250, 0]);
        let taken: Vec<u64> = samples.counts().iter().map(StackCounts::taken).collect();
        assert_eq!(taken, [40, 40, 0]);
        samples.begin();
        assert_eq!(samples.lost_on(1), 0, "each interval has its own");
    }
}
