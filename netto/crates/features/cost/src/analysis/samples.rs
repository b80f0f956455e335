//! Counts an interval's stacks by CPU and owner, and for the flame graph.

use metrics_common::Source;

use super::attribute::{Request, StackCounts};
use netto_analysis::classify::{Classifier, SampleOwner};
use netto_analysis::flame::Flame;
use netto_analysis::pace;

/// One sampled stack.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// CPU on which it was taken.
    pub cpu: usize,
    /// The process that ran.
    pub process: u32,
    /// The kind of the per-CPU clock at that time.
    pub kind: u8,
    /// Whether the idle task was running, and the sampler could not tell what ran on top of it.
    pub is_idle_task: bool,
    /// Return addresses, innermost first.
    pub frames: &'a [u64],
}

/// The classification of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassifiedStack {
    /// The component of the sample.
    pub owner: SampleOwner,
    /// Whether it shows that the packet's socket was known.
    pub has_met_packet: bool,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Samples {
    /// The stacks of the last 30 to 60 seconds.
    pub flame: Flame,
    /// By CPU, in the interval.
    counts: Vec<StackCounts>,
    /// By CPU, lost stacks in the interval.
    lost: Vec<u64>,
    /// By CPU, stacks that only show an idle CPU, since the start.
    idle: Vec<u64>,
    nothing: StackCounts,
}

impl Samples {
    /// Empty, for this many CPUs.
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

    /// Classifies a stack that stands for no time; `None` if it belongs to no component.
    pub fn classify(classifier: &mut Classifier, sample: Sample<'_>) -> Option<ClassifiedStack> {
        let known = classifier.recognise(sample.kind, sample.frames);
        let owner = classifier.owner_on(sample.cpu, sample.process, known)?;
        Some(ClassifiedStack {
            owner,
            has_met_packet: classifier.has_met_packet(known),
        })
    }

    /// Counts a stack, and classifies it; `None` if it belongs to no component.
    pub fn add(
        &mut self,
        classifier: &mut Classifier,
        sample: Sample<'_>,
    ) -> Option<ClassifiedStack> {
        let known = classifier.recognise(sample.kind, sample.frames);
        let found = classifier.owner_on(sample.cpu, sample.process, known);
        // Without a clock, only the stack shows networking on top of the idle task.
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
        found.map(|owner| ClassifiedStack {
            owner,
            has_met_packet: classifier.has_met_packet(known),
        })
    }

    /// Removes a CPU's counts of the interval; returns whether they have a reason to sample it.
    pub fn forget(&mut self, cpu: usize) -> bool {
        let Some(counts) = self.counts.get_mut(cpu) else {
            return false;
        };
        let has_met = counts.has_networking_or_spinning();
        counts.clear();
        has_met
    }

    /// Counts lost stacks.
    pub fn lose(&mut self, cpu: usize, count: u64) {
        if let Some(lost) = self.lost.get_mut(cpu) {
            *lost += count;
        }
    }

    /// By CPU, in the interval.
    pub fn counts(&self) -> &[StackCounts] {
        &self.counts
    }

    /// Counts of one CPU in the interval.
    pub fn of_cpu(&self, cpu: usize) -> &StackCounts {
        self.counts.get(cpu).unwrap_or(&self.nothing)
    }

    /// Lost stacks of a CPU in the interval.
    pub fn lost_on(&self, cpu: usize) -> u64 {
        self.lost.get(cpu).copied().unwrap_or(0)
    }

    /// The time for which a stack of a CPU stands where one is taken each period.
    pub fn worth_ns(&self, cpu: usize, period_ns: u64) -> u64 {
        pace::worth_ns(period_ns, self.of_cpu(cpu).taken(), self.lost_on(cpu))
    }

    /// Stacks of a CPU that only show that it is idle, since the start.
    pub fn idle_on(&self, cpu: usize) -> u64 {
        self.idle.get(cpu).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::component::index_of;

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

    #[test]
    fn a_look_meets_networking_and_threads_that_spin_and_nothing_else() {
        let met = |slug| {
            let mut samples = Samples::new(1, 0);
            let owner = SampleOwner {
                event: index_of(slug).unwrap(),
                part: None,
            };
            samples.counts[0].add(0, Some(owner));
            (samples.forget(0), samples.counts[0].taken())
        };
        assert_eq!(met("tx_syscall"), (true, 0));
        assert_eq!(met("io_spin"), (true, 0));
        assert_eq!(met("io_other"), (false, 0));
    }
}
