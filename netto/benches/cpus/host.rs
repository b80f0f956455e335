//! A made-up host, as its kernel would show it, and what is done with that in an interval.

use std::fmt::Write as _;

use metrics_common::component::{CLOCK_KINDS, children_of, index_of};
use metrics_common::{
    Availability, COMPONENTS, ComponentInfo, Info, Kind, Modes, Sections, Snapshot, Source,
};
use netto_analysis::classify::Owner;
use netto_analysis::plan::Capabilities;
use netto_analysis::proc_stat::{self, ProcStat};
use netto_cost::analysis::attribute::{Attribution, Interval, StackCounts};
use netto_cost::analysis::delta::Deltas;
use netto_cost::analysis::section::{Cpu, Filling};

const INTERVAL_NS: u64 = 500_000_000;
const PERIOD_NS: u64 = 1_000_000;
const TICK_NS: u64 = 10_000_000;

/// What its CPUs do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Timers and what goes with them, on every CPU; no networking, no stacks.
    Idle,
    /// Half of the time in networking, with a stack of each millisecond.
    Busy,
}

/// See the head of this file.
pub struct Host {
    cpus: Vec<u32>,
    load: Load,
    sequence: u64,
    text: String,
    stat: ProcStat,
    previous: ProcStat,
    clock: [u64; CLOCK_KINDS],
    counts: Vec<StackCounts>,
    capabilities: Capabilities,
    deltas: Deltas,
    attribution: Attribution,
    filling: Filling,
}

impl Host {
    /// A host with so many CPUs.
    pub fn new(cpus: u32, load: Load) -> Host {
        let mut text = "cpu  10 1 20 300 4 0 5 6 7 8\n".to_owned();
        for cpu in 0..cpus {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "cpu{cpu} 74123 31 90232 1500123 1234 0 2123 3 0 0");
        }
        text.push_str("intr 5 0 0\nctxt 77\nbtime 1700000000\nprocesses 12\n");
        let mut counts = StackCounts::default();
        if load == Load::Busy {
            busy(&mut counts);
        }
        Host {
            previous: ProcStat::default(),
            stat: ProcStat::default(),
            text,
            cpus: (0..cpus).collect(),
            load,
            sequence: 0,
            clock: [0; CLOCK_KINDS],
            counts: vec![counts; cpus as usize],
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
        }
    }

    /// What it says of itself.
    pub fn info(&self) -> Info {
        Info {
            version: String::new(),
            kernel: String::new(),
            hostname: String::new(),
            boot_id: String::new(),
            started_unix_ns: 0,
            user_period_ms: INTERVAL_NS / 1_000_000,
            frequency_hz: 1000,
            sampler: None,
            max_overhead_ratio: None,
            possible_cpus: self.cpus.len() as u32,
            numa_nodes: Vec::new(),
            components: ComponentInfo::table(|_| Availability::by("made up")),
            probes: Vec::new(),
            missable: Vec::new(),
            power: Availability::missing("made up"),
            instruments: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// What the ground and the instruments do in an interval but for reading it from the kernel.
    ///
    /// # Errors
    /// If the made-up `/proc/stat` cannot be read.
    pub fn tick(&mut self) -> anyhow::Result<Snapshot> {
        self.sequence += 1;
        self.pass();
        proc_stat::parse_into(&self.text, &mut self.stat)?;
        let growth = |(_, before): &(u32, [u64; 8]), (_, after): &(u32, [u64; 8])| {
            proc_stat::growth(before, after, TICK_NS, INTERVAL_NS, 1)
        };
        let modes = Modes {
            cpus: self
                .previous
                .cpus
                .iter()
                .zip(&self.stat.cpus)
                .map(|(before, after)| growth(before, after))
                .collect(),
            host: proc_stat::growth(
                &self.previous.host,
                &self.stat.host,
                TICK_NS,
                INTERVAL_NS,
                self.cpus.len(),
            ),
        };
        self.previous.clone_from(&self.stat);

        self.attribution.begin(INTERVAL_NS, &self.counts);
        self.filling.begin(&self.capabilities, self.cpus.len());
        let interval = Interval {
            length_ns: INTERVAL_NS,
            sample_period_ns: PERIOD_NS,
        };
        for (&cpu, counts) in self.cpus.iter().zip(&self.counts) {
            let cpu = cpu as usize;
            let clock = self.deltas.growth(cpu, &self.clock, INTERVAL_NS);
            let capabilities = &self.capabilities;
            let split = self
                .attribution
                .attribute(cpu, capabilities, interval, &clock, counts);
            let of_cpu = Cpu {
                entries: [3; CLOCK_KINDS],
                ksoftirqd_rx_ns: Some(0),
                taken: counts.taken(),
                lost: 0,
                due: Some(INTERVAL_NS / PERIOD_NS),
            };
            self.filling.add(split, &of_cpu);
        }
        Ok(Snapshot {
            sequence: self.sequence,
            time_unix_ns: self.sequence * INTERVAL_NS,
            interval_ns: INTERVAL_NS,
            cpus: self.cpus.clone(),
            sections: Sections {
                cost: Some(self.filling.end(Vec::new())),
                modes: Some(modes),
                ..Sections::default()
            },
        })
    }

    /// An interval passes on the clocks.
    fn pass(&mut self) {
        let mut charge = |source: Source, ns: u64| {
            self.clock[usize::from(source.clock_kind())] += ns;
        };
        for source in [Source::TIMER, Source::SCHED, Source::RCU] {
            charge(source, 12_345);
        }
        if self.load == Load::Busy {
            charge(Source::NET_RX, 123_456_789);
            charge(Source::SocketSend, 87_654_321);
            charge(Source::SocketReceive, 45_678_912);
        }
    }
}

/// A sample of each millisecond of the above, spread over all parts.
fn busy(counts: &mut StackCounts) {
    for (slug, source, samples) in [
        ("rx_softirq", Source::NET_RX, 123),
        ("tx_syscall", Source::SocketSend, 88),
        ("rx_syscall", Source::SocketReceive, 46),
    ] {
        let is_part = |row: &usize| matches!(COMPONENTS[*row].kind, Kind::Sampled(_));
        let parts: Vec<usize> = children_of(slug).filter(is_part).collect();
        for sample in 0..samples {
            let event = index_of(slug).unwrap_or_default();
            let part = parts.get(sample % (parts.len() + 1)).copied();
            counts.add(source.clock_kind(), Some(Owner { event, part }));
        }
    }
}
