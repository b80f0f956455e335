//! `netto demo`: a made-up host, so that anyone can see the dashboard without root, and tests have
//! known values.
//!
//! Defines that host's description and the pace of its snapshots. [`load`] makes up the work of its
//! CPUs, `stacks` the functions; each feature makes up its own section from that. Nothing is
//! measured, and everything is labelled as a demonstration.

mod fleet;
pub mod load;
mod stacks;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use metrics_common::component::index_of;
use metrics_common::history::{History, LEAST_COVERED_NS};
use metrics_common::info::DEMO_NOTE_PREFIX;
use metrics_common::{
    Availability, COMPONENTS, ComponentInfo, Folded, Info, InstrumentInfo, Kind, ProbeInfo,
    Sections, Snapshot,
};

pub use self::fleet::{Fleet, HOSTS};
use self::load::Load;
use netto_feature::demo::{Generator, Interval, MAX_OVERHEAD};
use netto_feature::instruments::Feature;
use netto_pipeline::profile::{OpenProfile, Profile};
use netto_pipeline::trace_analyzer::{SnapshotSource, StackSource};

/// Possible numbers of CPUs of a made-up host.
pub const CPUS: std::ops::RangeInclusive<u32> = 1..=1024;

/// Least step of the made-up past.
const PAST_STEP_MS: u64 = 1_000;
/// Length of a flame graph, nanoseconds.
const FLAME_GRAPH_NS: u64 = 45_000_000_000;
/// The component reported as unavailable.
const LACKING: &str = "nf_ingress";

/// The settings of a made-up host. The same settings give the same values.
#[derive(Clone, Copy)]
pub struct Settings {
    /// Number of CPUs.
    pub cpus: u32,
    /// The seed of the random values.
    pub seed: u64,
    /// Length of an interval.
    pub period: Duration,
    /// Assumed sampling rate, samples per second and CPU.
    pub frequency_hz: u64,
    /// The available features.
    pub features: &'static [Feature],
    /// The features that are not enabled, by name.
    pub without: &'static [&'static str],
}

impl Settings {
    fn is_wanted(&self, feature: &Feature) -> bool {
        !self.without.contains(&feature.name)
    }
}

/// A made-up host in the middle of its day.
pub struct Demo {
    /// The host's description.
    pub info: Info,
    /// The last quarter of an hour.
    pub past: History,
    /// Its future snapshots.
    pub source: Source,
}

/// Makes up a host and its past.
pub fn demo(settings: Settings) -> Demo {
    let now_ns = since_epoch_ns();
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

/// Nanoseconds since the Unix epoch.
fn since_epoch_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_nanos() as u64
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
        max_overhead_ratio: Some(MAX_OVERHEAD),
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
        instruments: settings
            .features
            .iter()
            .map(|feature| InstrumentInfo {
                name: feature.name.to_owned(),
                availability: if settings.is_wanted(feature) {
                    Availability::by("demo")
                } else {
                    Availability::missing(feature.turned_off)
                },
            })
            .collect(),
        notes: vec![format!(
            "{DEMO_NOTE_PREFIX} a made-up host of {cpus} CPUs. Nothing here is measured; \
             `netto run` measures this host."
        )],
    }
}

/// The inputs of a made-up flame graph.
struct Stacks {
    settings: Settings,
    /// CPU time of the last interval, by component.
    last_ns: Mutex<Vec<u64>>,
}

impl Stacks {
    fn last_ns(&self) -> MutexGuard<'_, Vec<u64>> {
        // A panic elsewhere cannot leave the list half replaced.
        self.last_ns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stacks {
    /// The stacks of so much time, as those of the last interval.
    fn of(&self, window_ns: u64) -> Folded {
        let last_ns = self.last_ns().clone();
        let interval_ns = self.settings.period.as_nanos() as u64;
        stacks::folded(&last_ns, interval_ns, self.settings.frequency_hz, window_ns)
    }
}

impl StackSource for Stacks {
    fn folded(&self) -> anyhow::Result<Folded> {
        Ok(self.of(FLAME_GRAPH_NS))
    }

    fn begin_profile(self: Arc<Self>) -> anyhow::Result<Box<dyn OpenProfile>> {
        Ok(Box::new(MadeUp {
            stacks: self,
            begun: Instant::now(),
            begun_unix_ns: since_epoch_ns(),
        }))
    }
}

/// A profile of the made-up host.
struct MadeUp {
    stacks: Arc<Stacks>,
    begun: Instant,
    begun_unix_ns: u64,
}

impl OpenProfile for MadeUp {
    fn end(self: Box<Self>) -> anyhow::Result<Profile> {
        let folded = self.stacks.of(self.begun.elapsed().as_nanos() as u64);
        let worth_ns = 1_000_000_000 / self.stacks.settings.frequency_hz.max(1);
        Ok(Profile::of_folded(&folded, self.begun_unix_ns, worth_ns))
    }
}

/// The snapshots of a made-up host.
pub struct Source {
    settings: Settings,
    load: Load,
    generators: Vec<Generator>,
    sequence: u64,
    elapsed_ns: u64,
    stacks: Arc<Stacks>,
    /// End of the past, nanoseconds since the Unix epoch, and start of the present: making up the
    /// past takes a moment that must not be a gap.
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
    /// A host that starts now, without a past.
    pub fn new(settings: Settings) -> Self {
        Source {
            settings,
            load: Load::new(settings.cpus, nodes(settings.cpus), settings.seed),
            generators: settings
                .features
                .iter()
                .filter(|feature| settings.is_wanted(feature))
                .map(|feature| (feature.demo)())
                .collect(),
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

    fn make(&mut self, length_ns: u64, time_unix_ns: u64) -> Snapshot {
        self.sequence += 1;
        self.elapsed_ns += length_ns;
        let stacks = self.settings.frequency_hz * length_ns / 1_000_000_000;
        let seconds = self.elapsed_ns as f64 / 1e9;
        let mut work = self.load.interval(seconds, length_ns, stacks);
        if let Some(row) = index_of(LACKING) {
            work.components[row] = None;
        }
        let sum = |row: &Option<Vec<u64>>| row.iter().flatten().sum();
        *self.stacks.last_ns() = work.components.iter().map(sum).collect();
        let interval = Interval {
            work: &work,
            length_ns,
            seconds,
            time_unix_ns,
            stacks,
            is_past: self.past_end_ns == 0,
        };
        let mut sections = Sections::default();
        for generator in &mut self.generators {
            generator(&interval, &mut sections);
        }
        Snapshot {
            sequence: self.sequence,
            time_unix_ns,
            interval_ns: length_ns,
            cpus: (0..self.settings.cpus).collect(),
            sections,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(cpus: u32) -> Settings {
        Settings {
            cpus,
            seed: 1,
            period: Duration::from_millis(500),
            frequency_hz: 1000,
            features: &[],
            without: &[],
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
    fn it_is_labelled() {
        assert!(demo(settings(2)).info.is_demonstration());
    }
}
