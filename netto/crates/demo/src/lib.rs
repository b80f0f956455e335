//! `netto demo`: a made-up host, so that anyone can see the dashboard without
//! root, and tests know what it must show.
//!
//! It owns the description of that host and the pace of its snapshots; what its CPUs do is
//! `load`'s, in which functions `stacks`', what work that is `traffic`'s, how long packets wait
//! `latency`'s, whose it is `owners`', and what netto costs it `own`'s. Nothing here measures anything, and everything made here is labelled
//! as a demonstration.

mod latency;
mod load;
#[cfg(test)]
mod log_size;
mod own;
mod owners;
mod stacks;
mod traffic;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use metrics_common::history::{History, LEAST_COVERED_NS};
use metrics_common::info::DEMO_NOTE_PREFIX;
use metrics_common::{
    Availability, COMPONENTS, ComponentInfo, Cost, CpuModes, Info, InstrumentInfo, Kind, Modes,
    Power, ProbeInfo, Sections, Snapshot, ZonePower,
};

use self::load::Load;
use self::own::Overhead;
use netto_analysis::flame::Folded;
use netto_pipeline::trace_analyzer::{SnapshotSource, StackSource};

/// Numbers of CPUs that a made-up host can have.
pub const CPUS: std::ops::RangeInclusive<u32> = 1..=1024;

/// The past is made up at least in steps of this length.
const PAST_STEP_MS: u64 = 1_000;
/// What a flame graph covers, nanoseconds.
const FLAME_GRAPH_NS: u64 = 45_000_000_000;
/// The component that this host pretends to lack.
const LACKING: &str = "nf_ingress";
/// Watts of an idle CPU, and what a busy one takes on top.
const IDLE_WATTS: f64 = 0.9;
const BUSY_WATTS: f64 = 2.6;

/// What the made-up host is like. The same settings make the same values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Number of CPUs.
    pub cpus: u32,
    /// Another seed, another host.
    pub seed: u64,
    /// Length of an interval.
    pub period: Duration,
    /// Stack samples that it pretends to take, per second and CPU.
    pub frequency_hz: u64,
    /// Whether its snapshots say whose the time was.
    pub has_owners: bool,
    /// Whether they say how long packets waited.
    pub has_latency: bool,
}

/// A made-up host in the middle of its day.
pub struct Demo {
    /// What the host says of itself.
    pub info: Info,
    /// The quarter of an hour before now.
    pub past: History,
    /// Its snapshots from now on.
    pub source: Source,
}

/// Makes up a host and its past.
pub fn demo(settings: Settings) -> Demo {
    let now_ns = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64);
    let info = info(settings, now_ns);
    let mut source = Source::new(settings);
    let step_ns = (settings.period.as_nanos() as u64).max(PAST_STEP_MS * 1_000_000);
    let steps = LEAST_COVERED_NS.div_ceil(step_ns);
    let mut past = History::new(&info);
    for step in 0..steps {
        let before_ns = (steps - 1 - step) * step_ns;
        past.push(&source.make(step_ns, now_ns.saturating_sub(before_ns)));
    }
    source.past_end_ns = now_ns;
    Demo { info, past, source }
}

/// Number of NUMA nodes of a host of this size.
fn nodes(cpus: u32) -> u32 {
    match cpus {
        0..8 => 1,
        8..64 => 2,
        _ => 4,
    }
}

fn info(settings: Settings, now_ns: u64) -> Info {
    let cpus = settings.cpus;
    let probe = |name: &str, method: &str, purpose: &str| ProbeInfo {
        name: name.to_owned(),
        method: method.into(),
        purpose: purpose.to_owned(),
        failure: None,
    };
    Info {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: "6.18.0-demo".to_owned(),
        hostname: format!("demo-{cpus}"),
        boot_id: String::new(),
        started_unix_ns: now_ns,
        user_period_ms: settings.period.as_millis() as u64,
        frequency_hz: settings.frequency_hz,
        sampler: Some("tick".to_owned()),
        max_overhead_ratio: Some(own::MAX_OVERHEAD),
        possible_cpus: cpus,
        numa_nodes: match nodes(cpus) {
            1 => Vec::new(),
            nodes => (0..cpus).map(|cpu| cpu * nodes / cpus).collect(),
        },
        components: ComponentInfo::table(|index| {
            let component = &COMPONENTS[index];
            match component.kind {
                _ if component.slug == LACKING => Availability::missing(
                    "this kernel was built without CONFIG_NETFILTER_INGRESS (made up, like all of this)",
                ),
                Kind::Timed(..) => Availability::by("demonstration of tp_btf"),
                Kind::Sampled(_) | Kind::Estimated(_) | Kind::Carved(..) => {
                    Availability::by("demonstration of sampling")
                }
                Kind::Sum | Kind::Remainder => Availability::by("derived"),
            }
        }),
        probes: vec![
            probe("softirq_entry", "tp_btf", "every softirq"),
            probe("softirq_exit", "tp_btf", "every softirq"),
            probe("sched_switch", "tp_btf", "tasks that share a CPU"),
            probe("inet_sendmsg", "fentry", "tx_syscall"),
            probe("inet_recvmsg", "fentry", "rx_syscall"),
            probe("cpu-clock", "perf_event", "stacks"),
        ],
        missable: Vec::new(),
        power: Availability::by("demonstration of RAPL"),
        instruments: Sections::NAMES
            .iter()
            .map(|name| InstrumentInfo {
                name: (*name).to_owned(),
                availability: match *name {
                    "latency" if !settings.has_latency => Availability::missing("not asked for"),
                    _ => Availability::by("demo"),
                },
            })
            .collect(),
        notes: vec![format!(
            "{DEMO_NOTE_PREFIX} a made-up host of {cpus} CPUs. Nothing here is measured; \
             `netto run` measures this host."
        )],
    }
}

/// What a flame graph of the made-up host is made from.
struct Stacks {
    settings: Settings,
    /// CPU time of the last interval, by component.
    last_ns: Mutex<Vec<u64>>,
}

impl Stacks {
    fn last_ns(&self) -> MutexGuard<'_, Vec<u64>> {
        // Replacing a list cannot be left half done.
        self.last_ns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StackSource for Stacks {
    fn folded(&self) -> anyhow::Result<Folded> {
        let last_ns = self.last_ns().clone();
        let interval_ns = self.settings.period.as_nanos() as u64;
        let frequency_hz = self.settings.frequency_hz;
        Ok(stacks::folded(
            &last_ns,
            interval_ns,
            frequency_hz,
            FLAME_GRAPH_NS,
        ))
    }
}

/// The snapshots of a made-up host.
pub struct Source {
    settings: Settings,
    load: Load,
    overhead: Overhead,
    sequence: u64,
    elapsed_ns: u64,
    stacks: Arc<Stacks>,
    /// Where the past ends, nanoseconds since the Unix epoch, and when the
    /// present began: making up the past takes a moment that must not be a gap.
    past_end_ns: u64,
    began: Option<Instant>,
}

impl SnapshotSource for Source {
    fn stacks(&self) -> Arc<dyn StackSource> {
        self.stacks.clone()
    }

    fn next_snapshot(&mut self) -> anyhow::Result<Snapshot> {
        let period_ns = self.settings.period.as_nanos() as u64;
        let since_ns = self
            .began
            .get_or_insert_with(Instant::now)
            .elapsed()
            .as_nanos() as u64;
        Ok(self.make(period_ns, self.past_end_ns + period_ns + since_ns))
    }
}

impl Source {
    fn new(settings: Settings) -> Self {
        Source {
            settings,
            load: Load::new(settings.cpus, nodes(settings.cpus), settings.seed),
            overhead: Overhead::default(),
            sequence: 0,
            elapsed_ns: 0,
            stacks: Arc::new(Stacks {
                settings,
                last_ns: Mutex::default(),
            }),
            past_end_ns: 0,
            began: None,
        }
    }

    fn make(&mut self, interval_ns: u64, time_unix_ns: u64) -> Snapshot {
        self.sequence += 1;
        self.elapsed_ns += interval_ns;
        let cpus = self.settings.cpus as usize;
        let stacks = self.settings.frequency_hz * interval_ns / 1_000_000_000;
        let work = self
            .load
            .interval(self.elapsed_ns as f64 / 1e9, interval_ns, stacks);
        let own = self.overhead.interval(&work, interval_ns, stacks);
        let seconds = self.elapsed_ns as f64 / 1e9;
        // Whose the past was is asked of snapshots, of which it has none.
        let owners = (self.settings.has_owners && self.past_end_ns > 0)
            .then(|| owners::section(&work, seconds));
        let traffic = traffic::traffic(&work, interval_ns, seconds);
        let drops = traffic::drops(&traffic, seconds);
        let has_latency = self.settings.has_latency;
        let latency = has_latency.then(|| latency::latency(&traffic, seconds));
        let mut host = [0_u64; CpuModes::NAMES.len()];
        for modes in &work.modes {
            for (sum, ns) in host.iter_mut().zip(modes.values()) {
                *sum += ns;
            }
        }
        let host_modes = CpuModes::from_values(host);
        let sum = |row: &Option<Vec<u64>>| row.iter().flatten().sum();
        *self.stacks.last_ns() = work.components.iter().map(sum).collect();
        let mut components = work.components;
        for (row, component) in components.iter_mut().zip(COMPONENTS) {
            if component.slug == LACKING {
                *row = None;
            }
        }
        let sections = Sections {
            power: Some(power(
                self.settings.cpus,
                interval_ns,
                &host_modes,
                components[0].iter().flatten().sum(),
            )),
            cost: Some(Cost {
                components,
                samples: work.samples,
                entries: work.entries,
                stacks_taken: vec![stacks; cpus],
                stacks_lost: vec![0; cpus],
                ..Cost::default()
            }),
            modes: Some(Modes {
                cpus: work.modes,
                host: host_modes,
            }),
            traffic: Some(traffic),
            drops: Some(drops),
            latency,
            own: Some(own),
            ..Sections::default()
        };
        Snapshot {
            sequence: self.sequence,
            time_unix_ns,
            interval_ns,
            cpus: (0..self.settings.cpus).collect(),
            sections: Sections { owners, ..sections },
        }
    }
}

fn power(cpus: u32, interval_ns: u64, modes: &CpuModes, network_ns: u64) -> Power {
    let interval = interval_ns as f64;
    let busy_ns = modes.busy_ns().max(network_ns).max(1) as f64;
    let host_watts = f64::from(cpus) * IDLE_WATTS + busy_ns / interval * BUSY_WATTS;
    let network_watts = host_watts * network_ns as f64 / busy_ns;
    Power {
        host_watts,
        network_watts,
        network_energy_joules: network_watts * interval / 1e9,
        zones: vec![ZonePower {
            zone: "package-0".to_owned(),
            energy_joules: host_watts * interval / 1e9,
        }],
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::codec;
    use metrics_common::component::{children_of, index_of};

    use super::*;

    fn settings(cpus: u32) -> Settings {
        Settings {
            cpus,
            seed: 1,
            period: Duration::from_millis(500),
            frequency_hz: 1000,
            has_owners: false,
            has_latency: false,
        }
    }

    fn some(cpus: u32, count: usize) -> Vec<Snapshot> {
        let mut source = Source::new(settings(cpus));
        (0..count)
            .map(|_| source.next_snapshot().unwrap())
            .collect()
    }

    #[test]
    fn the_same_settings_make_the_same_values() {
        let plain = |mut snapshot: Snapshot| {
            snapshot.time_unix_ns = 0;
            snapshot
        };
        let runs = [(); 2].map(|()| some(4, 3).into_iter().map(plain).collect::<Vec<_>>());
        assert_eq!(runs[0], runs[1]);
        let mut source = Source::new(Settings {
            seed: 2,
            ..settings(4)
        });
        assert_ne!(plain(source.next_snapshot().unwrap()), runs[0][0]);
    }

    #[test]
    fn everything_adds_up_on_every_cpu() {
        for snapshot in some(16, 40) {
            for component in COMPONENTS {
                let row = |index: usize| snapshot.cost().cpu_ns(index);
                let Some(whole) = row(index_of(component.slug).unwrap()) else {
                    assert_eq!(component.slug, LACKING);
                    continue;
                };
                let parts: Vec<_> = children_of(component.slug).filter_map(row).collect();
                for (cpu, &ns) in whole.iter().enumerate() {
                    assert!(ns <= snapshot.interval_ns, "{} on {cpu}", component.slug);
                    let sum: u64 = parts.iter().map(|part| part[cpu]).sum();
                    assert!(parts.is_empty() || sum == ns, "{} on {cpu}", component.slug);
                }
            }
        }
    }

    #[test]
    fn modes_fill_the_time_in_ticks_and_hold_networking() {
        let snapshots = some(8, 60);
        let mut kernel_ns = 0;
        let mut network_ns = 0;
        for snapshot in &snapshots {
            let modes = snapshot.sections.modes.as_ref().unwrap();
            for modes in &modes.cpus {
                assert!(modes.total_ns().abs_diff(snapshot.interval_ns) <= 80_000_000);
                assert!(modes.values().iter().all(|ns| ns % 10_000_000 == 0));
            }
            let modes = &modes.host;
            kernel_ns += modes.system_ns + modes.irq_ns + modes.softirq_ns;
            network_ns += snapshot.total_ns(0).unwrap();
        }
        assert!(kernel_ns > network_ns);
    }

    #[test]
    fn netto_costs_no_cpu_more_than_it_may() {
        for snapshot in some(16, 40) {
            let own = snapshot.sections.own.as_ref().unwrap();
            let costliest = own.costliest.unwrap();
            assert!(costliest.ratio > 0.001 && costliest.ratio < own::MAX_OVERHEAD);
            let total: u64 = (0..16).filter_map(|cpu| own.cpu_taken_ns(cpu)).sum();
            assert_eq!(own.taken_total_ns(), Some(total));
        }
    }

    #[test]
    fn one_core_is_hot() {
        let rx = index_of("rx_softirq").unwrap();
        for snapshot in some(128, 20) {
            let mut sorted = snapshot.cost().cpu_ns(rx).unwrap().to_vec();
            sorted.sort_unstable();
            assert!(sorted[127] > snapshot.interval_ns / 2, "hot");
            assert!(sorted[126] < sorted[127], "and alone");
        }
    }

    #[test]
    fn the_past_covers_a_quarter_of_an_hour_and_leads_up_to_now() {
        for (cpus, period_ms) in [(2, 50), (8, 500), (2, 7_000)] {
            let mut demo = demo(Settings {
                period: Duration::from_millis(period_ms),
                ..settings(cpus)
            });
            let (begin, end) = (
                demo.past.point_ms(0).0,
                demo.past.point_ms(demo.past.points() - 1).1,
            );
            assert!(end - begin >= 15.0 * 60_000.0);
            let next = demo.source.next_snapshot().unwrap();
            assert_eq!(next.sequence, demo.past.last_sequence() + 1);
        }
    }

    #[test]
    fn a_frame_of_128_cpus_is_at_most_25_kilobytes() {
        let largest = some(128, 60)
            .iter()
            .map(|snapshot| codec::encode_snapshot(snapshot).unwrap().len())
            .max();
        assert!(largest <= Some(25_000), "{largest:?} bytes");
    }

    #[test]
    fn it_is_labelled() {
        assert!(demo(settings(2)).info.is_demonstration());
    }
}
