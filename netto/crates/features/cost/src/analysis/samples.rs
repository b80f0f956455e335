//! Counts an interval's stacks by CPU and owner, and for the flame graph.

use metrics_common::{COMPONENTS, Kind, Source};

use super::attribute::{Request, StackCounts};
use netto_analysis::classify::{Classifier, SampleOwner};
use netto_analysis::flame::Flame;
use netto_analysis::pace;
use netto_estimate::two_clocks::{Clock, Clocks, Ratios, Work};

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
    /// Whether the scheduler's tick took it.
    pub is_by_tick: bool,
    /// Return addresses, innermost first.
    pub frames: &'a [u64],
}

impl Sample<'_> {
    /// Whether it shows what the tick does not come to: the idle task has ticks only now and then, and the TIMER
    /// softirq is raised by the tick, after it.
    fn is_without_ticks(&self, found: Option<SampleOwner>) -> bool {
        let is_timer = |owner: SampleOwner| {
            matches!(COMPONENTS[owner.event].kind, Kind::Carved(Source::TIMER, _))
        };
        self.process == 0 || self.kind == Source::TIMER.clock_kind() || found.is_some_and(is_timer)
    }
}

/// The classification of a stack.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassifiedStack {
    /// The component of the sample.
    pub owner: SampleOwner,
    /// Whether it shows that the packet's socket was known.
    pub has_met_packet: bool,
    /// For how much time it stands, in periods of its CPU.
    pub weight: f64,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Samples {
    /// The stacks of the last 30 to 60 seconds.
    pub flame: Flame,
    /// How often the tick meets each component, relative to perf's clock.
    pub ratios: Ratios,
    /// By CPU, in the interval.
    clocks: Vec<Clocks>,
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
            ratios: Ratios::new(COMPONENTS.len(), COMPONENTS.len()),
            clocks: Vec::new(),
            counts: vec![StackCounts::default(); possible_cpus],
            lost: vec![0; possible_cpus],
            idle: vec![0; possible_cpus],
            nothing: StackCounts::default(),
        }
    }

    /// Begins an interval of this length, in which these clocks have sampled each CPU.
    pub fn begin(&mut self, now_ns: u64, interval_ns: u64, clocks: impl Iterator<Item = Clocks>) {
        self.counts.iter_mut().for_each(StackCounts::clear);
        self.lost.fill(0);
        self.clocks.clear();
        self.clocks.extend(clocks);
        self.ratios.begin_interval(now_ns, interval_ns);
    }

    /// Classifies a stack that stands for no time; `None` if it belongs to no component.
    pub fn classify(classifier: &mut Classifier, sample: Sample<'_>) -> Option<ClassifiedStack> {
        let known = classifier.recognise(sample.kind, sample.frames);
        let owner = classifier.owner_on(sample.cpu, sample.process, known)?;
        Some(ClassifiedStack {
            owner,
            has_met_packet: classifier.has_met_packet(known),
            weight: 1.0,
        })
    }

    /// The weight of a sample; `None` if it counts for nothing, since it is by a clock that only now and then
    /// comes to what it shows. Learns from it.
    fn weigh(&mut self, sample: &Sample<'_>, found: Option<SampleOwner>) -> Option<f64> {
        let clocks = *self.clocks.get(sample.cpu)?;
        let work = found.map(|owner| Work {
            whole: owner.event,
            part: owner.part.unwrap_or(owner.event),
        });
        let (clock, ratio) = match (sample.is_without_ticks(found), sample.is_by_tick) {
            (true, true) => return None,
            (true, false) => (Clock::FreeAlone, 0.0),
            (false, is_by_tick) => {
                let clock = if is_by_tick {
                    Clock::Stepped
                } else {
                    Clock::Free
                };
                (clock, work.map_or(1.0, |work| self.ratios.of(work)))
            }
        };
        let weight = clocks.weight(ratio);
        if let Some(work) = work {
            self.ratios.add(work, clock, clocks, weight);
        }
        Some(weight)
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
        let weight = self.weigh(&sample, found)?;
        let request = if classifier.is_io_thread(known) {
            found.and_then(|owner| Request::of(owner.event))
        } else {
            None
        };
        let is_rx = sample.kind == Source::NET_RX.clock_kind();
        let shows_rx = is_rx && classifier.is_shown(known);
        if let Some(owner) = found
            && self.flame.wants(owner.event)
        {
            let classifier = &mut *classifier;
            self.flame.add(owner.event, known, weight, move || {
                classifier.own_functions(sample.frames)
            });
        }
        if let Some(counts) = self.counts.get_mut(sample.cpu) {
            counts.add(sample.kind, found, weight);
            if shows_rx {
                counts.add_shown(weight);
            }
            if let Some(request) = request {
                counts.add_request(request, weight);
            }
        }
        found.map(|owner| ClassifiedStack {
            owner,
            has_met_packet: classifier.has_met_packet(known),
            weight,
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

    /// The time for which a stack of weight 1 stands on a CPU, nanoseconds.
    pub fn worth_ns(&self, cpu: usize) -> u64 {
        let period_ns = self.clocks.get(cpu).map_or(0.0, Clocks::period_ns) as u64;
        pace::worth_ns(period_ns, self.of_cpu(cpu).taken(), self.lost_on(cpu))
    }

    /// How often perf's clock was due on a CPU in an interval of this length.
    pub fn due(&self, cpu: usize, interval_ns: u64) -> u64 {
        let clocks = self.clocks.get(cpu);
        clocks.map_or(0, |clocks| (interval_ns as f64 / clocks.free_ns) as u64)
    }

    /// The same of both clocks, where tasks run; `None` if the tick takes no samples.
    pub fn due_in_tasks(&self, cpu: usize, interval_ns: u64) -> Option<u64> {
        let clocks = self.clocks.get(cpu)?;
        clocks.stepped_ns?;
        Some((interval_ns as f64 / clocks.period_ns()) as u64)
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

    const PERF: Clocks = Clocks {
        free_ns: 1_000.0,
        stepped_ns: None,
    };

    fn sample(process: u32, is_by_tick: bool) -> Sample<'static> {
        Sample {
            cpu: 0,
            process,
            kind: Source::NET_RX.clock_kind(),
            is_idle_task: false,
            is_by_tick,
            frames: &[],
        }
    }

    #[test]
    fn what_the_tick_does_not_come_to_is_left_to_perfs_clock_alone() {
        let both = Clocks {
            stepped_ns: Some(250.0),
            ..PERF
        };
        let mut samples = Samples::new(1, 0);
        samples.begin(0, 1_000, [both].into_iter());
        let owner = |slug| {
            Some(SampleOwner {
                event: index_of(slug).unwrap(),
                part: None,
            })
        };
        let rx = owner("rx_softirq");
        for is_by_tick in [false, true] {
            assert_eq!(samples.weigh(&sample(1, is_by_tick), rx), Some(1.0));
            assert_eq!(samples.weigh(&sample(1, is_by_tick), None), Some(1.0));
        }
        // Four ticks for each of perf's.
        assert_eq!(samples.weigh(&sample(0, false), rx), Some(5.0));
        assert_eq!(samples.weigh(&sample(0, true), rx), None, "now and then");
        let timer = owner("net_timer");
        assert_eq!(samples.weigh(&sample(1, false), timer), Some(5.0));
        assert_eq!(samples.weigh(&sample(1, true), timer), None);
    }

    #[test]
    fn stacks_that_were_lost_are_made_up_for_on_their_cpu() {
        let mut samples = Samples::new(3, 0);
        samples.begin(0, 1_000, [PERF; 3].into_iter());
        for _ in 0..40 {
            samples.counts[0].add(0, None, 1.0);
            samples.counts[1].add(0, None, 1.0);
        }
        samples.lose(1, 10);
        let worth = [0, 1, 2].map(|cpu| samples.worth_ns(cpu));
        assert_eq!(worth, [1_000, 1_250, 1_000]);
        let taken: Vec<u64> = samples.counts().iter().map(StackCounts::taken).collect();
        assert_eq!(taken, [40, 40, 0]);
        samples.begin(1_000, 1_000, [PERF; 3].into_iter());
        assert_eq!(samples.lost_on(1), 0, "each interval has its own");
    }

    #[test]
    fn a_look_meets_networking_and_threads_that_spin_and_nothing_else() {
        let seen = |slug| {
            let mut samples = Samples::new(1, 0);
            let owner = SampleOwner {
                event: index_of(slug).unwrap(),
                part: None,
            };
            samples.counts[0].add(0, Some(owner), 1.0);
            (samples.forget(0), samples.counts[0].taken())
        };
        assert_eq!(seen("tx_syscall"), (true, 0));
        assert_eq!(seen("io_spin"), (true, 0));
        assert_eq!(seen("io_other"), (false, 0));
    }
}
