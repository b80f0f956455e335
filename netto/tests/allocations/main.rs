//! What the analysis of an interval allocates, counted by the allocator itself: recorded stacks
//! are classified and counted, made-up clocks read, and a section is made of both, many times.
//! What the kernel's side of it (reading files, draining the buffer) and the sinks allocate is
//! not looked at here.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod counting;

use metrics_common::component::CLOCK_KINDS;
use metrics_common::{COMPONENTS, Cost, Kind, Snapshot, Source};
use netto_analysis::classify::Classifier;
use netto_analysis::plan::Capabilities;
use netto_analysis::proc_stat::{self, ProcStat};
use netto_cost::analysis::attribute::{Attribution, Interval};
use netto_cost::analysis::delta::Deltas;
use netto_cost::analysis::samples::{Sample, Samples};
use netto_cost::analysis::section::{Cpu, Filling};
use netto_estimate::two_clocks::Clocks;
use netto_judges::advice::{RULES, Watch, fixture};
use netto_judges::anomalies::{Detector, fixture::Host};

const CPUS: usize = 4;
/// Of perf and of the tick.
const CLOCKS: Clocks = Clocks {
    free_ns: 1e8,
    stepped_ns: Some(4e6),
};
const INTERVAL_NS: u64 = 500_000_000;
/// Stacks of each CPU in an interval.
const STACKS: usize = 500;
/// Long enough for the flame graph to drop its stacks twice.
const INTERVALS: u64 = 200;

/// A kernel's symbols, and stacks that were taken there: clock kind and frames.
fn recorded() -> (Classifier, Vec<(u8, Vec<u64>)>) {
    let text = include_str!("../data/udp4-routed-nat.stacks");
    let (head, lines) = text.split_once("\n\n").unwrap();
    let (_, symbols) = head.split_once('\n').unwrap();
    let stack = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let kind = words.next().unwrap().parse().unwrap();
        let frames = words.map(|word| u64::from_str_radix(word, 16).unwrap());
        (kind, frames.collect())
    };
    let classifier = Classifier::new(symbols.as_bytes()).unwrap();
    (classifier, lines.lines().map(stack).collect())
}

/// The state of the instrument, without the kernel's side.
struct Analysis {
    classifier: Classifier,
    stacks: Vec<(u8, Vec<u64>)>,
    next: usize,
    samples: Samples,
    capabilities: Capabilities,
    deltas: Deltas,
    attribution: Attribution,
    filling: Filling,
    clock: [u64; CLOCK_KINDS],
    interval: u64,
    stat: ProcStat,
}

impl Analysis {
    fn new() -> Analysis {
        let (classifier, stacks) = recorded();
        Analysis {
            classifier,
            stacks,
            next: 0,
            samples: Samples::new(CPUS, 0),
            capabilities: Capabilities {
                available: vec![true; COMPONENTS.len()],
                counted: COMPONENTS
                    .iter()
                    .map(|component| matches!(component.kind, Kind::Timed(..)))
                    .collect(),
                timed: vec![true; COMPONENTS.len()],
            },
            deltas: Deltas::default(),
            attribution: Attribution::default(),
            filling: Filling::default(),
            clock: [0; CLOCK_KINDS],
            interval: 0,
            stat: ProcStat::default(),
        }
    }

    /// An interval of every CPU; `make` gets the results.
    fn pass(&mut self, make: impl FnOnce(&mut Self)) {
        self.interval += 1;
        for source in [Source::TIMER, Source::NET_RX, Source::SocketSend] {
            self.clock[usize::from(source.clock_kind())] += INTERVAL_NS / 5;
        }
        let text = "cpu  10 1 20 300 4 0 5 6 7 8\ncpu0 4 0 9 150 1 0 2 3 0 0\nctxt 77\n";
        proc_stat::parse_into(text, &mut self.stat).unwrap();
        self.samples.flame.pass(self.interval * INTERVAL_NS);
        self.samples.begin(
            self.interval * INTERVAL_NS,
            INTERVAL_NS,
            [CLOCKS; CPUS].into_iter(),
        );
        for cpu in 0..CPUS {
            for _ in 0..STACKS {
                let (kind, frames) = &self.stacks[self.next % self.stacks.len()];
                self.next += 1;
                self.samples.add(
                    &mut self.classifier,
                    Sample {
                        cpu,
                        process: 1,
                        kind: *kind,
                        is_idle_task: false,
                        is_by_tick: !self.next.is_multiple_of(8),
                        frames,
                    },
                );
            }
        }
        self.attribution.begin(INTERVAL_NS, self.samples.counts());
        make(self);
    }

    fn attribute(
        &mut self,
        mut each: impl FnMut(&mut Filling, usize, &Samples, &netto_cost::analysis::attribute::Split),
    ) {
        let interval = Interval {
            length_ns: INTERVAL_NS,
            sample_period_ns: 1_000_000,
            received: None,
        };
        for cpu in 0..CPUS {
            let clock = self.deltas.growth(cpu, &self.clock, INTERVAL_NS);
            let counts = self.samples.of_cpu(cpu);
            let split =
                self.attribution
                    .attribute(cpu, &self.capabilities, interval, &clock, counts);
            each(&mut self.filling, cpu, &self.samples, split);
        }
    }

    /// All of an interval but the section that is handed on.
    fn without_section(&mut self) {
        self.pass(|analysis| analysis.attribute(|_, _, _, _| ()));
    }

    /// An interval as a section.
    fn section(&mut self) -> Cost {
        let mut cost = None;
        self.pass(|analysis| {
            analysis.filling.begin(&analysis.capabilities, CPUS);
            analysis.attribute(|filling, cpu, samples, split| {
                let of_cpu = Cpu {
                    entries: [1; CLOCK_KINDS],
                    ksoftirqd_rx_ns: Some(0),
                    taken: samples.of_cpu(cpu).taken(),
                    lost: 0,
                    due: None,
                    due_in_tasks: None,
                };
                filling.add(split, &of_cpu);
            });
            cost = Some(analysis.filling.end(Vec::new()));
        });
        cost.unwrap()
    }
}

#[test]
fn to_classify_count_and_attribute_allocates_nothing_once_the_stacks_are_known() {
    let mut analysis = Analysis::new();
    let all = counting::allocations(|| analysis.without_section());
    assert!(all > 0, "whoever counts sees what is learnt");
    (0..INTERVALS).for_each(|_| analysis.without_section());
    let later = counting::allocations(|| {
        (0..INTERVALS).for_each(|_| analysis.without_section());
    });
    assert_eq!(later, 0, "in {INTERVALS} intervals");
}

/// One for each measured row, and the lists of them.
#[test]
fn a_section_is_one_allocation_for_each_row_however_many_cpus_there_are() {
    let mut analysis = Analysis::new();
    (0..INTERVALS).for_each(|_| drop(analysis.section()));
    let mut cost = None;
    let all = counting::allocations(|| cost = Some(analysis.section()));
    let cost = cost.unwrap();
    let rows = |present: usize| present as u64;
    let components = rows(cost.components.iter().flatten().count());
    let samples = rows(cost.samples.iter().flatten().count());
    let entries = rows(cost.entries.iter().flatten().count());
    assert_eq!(components, rows(COMPONENTS.len()));
    assert!(samples > 0 && entries > 0);
    let lists = 3;
    // Stacks taken and lost, ksoftirqd's time, and the basis of the splits.
    let others = 4;
    assert_eq!(
        all,
        components + samples + entries + lists + others,
        "for {components} + {samples} + {entries} rows"
    );
}

/// A sum begins every three seconds, which takes its rows.
#[test]
fn to_judge_what_the_last_seconds_advise_copies_no_interval() {
    let mut watch = Watch::default();
    let mut newest = Snapshot {
        interval_ns: INTERVAL_NS,
        ..fixture::calm()
    };
    let mut pass = || {
        newest.sequence += 1;
        newest.time_unix_ns += INTERVAL_NS;
        watch.push(&newest);
        watch.judge();
    };
    pass();
    (0..12).for_each(|_| pass());
    let counts = (0..24).map(|_| counting::allocations(&mut pass));
    let counts: Vec<u64> = counts.collect();
    // The figures of each rule are a list, and so is the idle time of CPUs.
    let begun = counts
        .iter()
        .filter(|count| **count > RULES.len() as u64 + 1);
    assert_eq!(begun.count(), 4, "in 12 s: {counts:?}");
}

/// Of a host on which nothing is unusual.
#[test]
fn to_look_for_anomalies_allocates_nothing_while_none_begins() {
    let (mut host, mut detector) = (Host::new(3), Detector::default());
    host.pass(&mut detector, 240);
    let newest: Vec<Snapshot> = (0..40).map(|_| host.next_interval()).collect();
    let all = counting::allocations(|| newest.iter().for_each(|snapshot| detector.push(snapshot)));
    assert_eq!(all, 0, "in {} intervals", newest.len());
}
