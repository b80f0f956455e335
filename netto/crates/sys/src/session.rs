//! From a plan to running probes: open → configure → load → attach, in this
//! order. Dropping the session detaches everything.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{ErrorKind, MapHandle, PrintLevel};
use metrics_common::ProbeInfo;

use self::attached::AttachedProbes;
use self::probes::ProbeSet;
use self::switcher::Switcher;
pub use self::switcher::{MeasuredCosts, Panel};
use super::abi;
use super::control::Control;
use super::cpu_time::{self, CpuClocks};
use super::interrupts::NicInterrupts;
use super::mapped::{self, MappedArray, MappedParts};
use super::missed::MissedRuns;
use super::netto_skel::{NettoSkel, NettoSkelBuilder};
use super::owners::Causes;
use super::perf::Samplers;
use super::sockets::SharedMaps;
use super::stacks::StackBuffer;
use super::system::Roots;
use super::tick::TickSampler;
use super::timer_cost::TimerCost;
use netto_analysis::plan::{Plan, Sockets};

mod attached;
mod by_tick;
pub(super) mod probes;
mod switcher;

/// Room for one CPU's stacks of one interval, words. A lane takes about 30
/// words per stack; half of the samples of a busy CPU fall into networking.
/// Between these bounds it follows frequency and interval; short intervals have
/// room for more than one, since reading symbols anew takes longer than they do.
const LANE_WORDS_MIN: u64 = 64 * abi::TRACE_WORDS as u64;
const LANE_WORDS_MAX: u64 = 1 << 18;
const WORDS_PER_STACK: u64 = 32;
const SHORTEST_MS: u64 = 500;

/// Probes attached to the kernel, and what failed to.
#[derive(Debug)]
pub struct Session {
    probes: Vec<ProbeInfo>,
    _switcher: Option<Switcher>,
    // Probes that nothing switches, where there is no clock.
    _owners: ProbeSet,
    lane_words: u64,
    wants_owners: bool,
    object: LoadedObject,
}

/// The skeleton has no `Debug` of its own.
struct LoadedObject(NettoSkel<'static>);

impl std::fmt::Debug for LoadedObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedObject")
            .field("name", &self.0.object().name())
            .finish()
    }
}

/// The ends of a running session that are read once per interval.
#[derive(Debug)]
pub struct Readers {
    /// The per-CPU clocks.
    pub clocks: Arc<CpuClocks>,
    /// By which probes come and go; `None` if the plan has none.
    pub panel: Option<Panel>,
    /// What the programs are told while they run.
    pub control: Arc<Control>,
    /// Sampled stacks; nobody fills it if the plan has no stacks.
    pub stacks: StackBuffer,
    /// Clocks of the stack sampler, not yet started on any CPU; `None` if the plan has no stacks, or
    /// the scheduler's tick calls the sampler.
    pub samplers: Option<Samplers>,
    /// The sampler that the scheduler's tick calls, if it is that one.
    pub tick: Option<TickSampler>,
    /// What an interrupt of perf's clock costs, or why that is not known.
    pub timer_cost: Result<TimerCost, String>,
    /// Which interrupts are network devices'.
    pub interrupts: NicInterrupts,
    /// Whose work softirqs do, or why nobody tells.
    pub causes: Result<Causes, String>,
    /// What probes missed.
    pub missed: MissedRuns,
    /// Number of CPUs that the kernel can ever have.
    pub possible_cpus: usize,
}

impl Session {
    /// Attaches everything that the plan asks for.
    ///
    /// A socket function that cannot be hooked is noted in [`Session::probes`]
    /// and left out; without softirqs and context switches there is no session.
    ///
    /// # Errors
    /// What failed, what it was needed for, what to do.
    pub fn start(
        plan: &Plan,
        roots: &Roots,
        frequency_hz: u64,
        interval_ms: u64,
        wants_owners: bool,
    ) -> anyhow::Result<(Session, Readers)> {
        let possible_cpus = libbpf_rs::num_possible_cpus()
            .context("cannot tell how many CPUs this kernel can have")?;
        let calls_are_timed = matches!(plan.sockets, Sockets::Timed(..));
        let parks = u64::from(calls_are_timed) + 2 * u64::from(roots.is_realtime());
        let states_are_parked = parks != 0;
        let lane_words = lane_words(frequency_hz, interval_ms);
        let skel = load(plan, parks, possible_cpus, lane_words, wants_owners)?;
        let mut readers = Readers::new(&skel, plan, frequency_hz, possible_cpus, lane_words)?;
        readers
            .clocks
            .start(&roots.ksoftirqd_threads(possible_cpus));

        let mut attached = AttachedProbes::default();
        if plan.has_clock {
            attached.clock(&skel, states_are_parked, &mut readers.missed)?;
        }
        if let Sockets::Timed(hook, functions) = &plan.sockets {
            let maps = SharedMaps {
                cpus: skel.maps.data_cpus.as_fd(),
                possible_cpus,
            };
            attached.sockets(*hook, functions, maps, roots, &mut readers.missed)?;
        }
        let mut owners = ProbeSet::default();
        if wants_owners {
            let samples = frequency_hz * interval_ms.max(SHORTEST_MS) / 1000;
            match attached.owners(&skel, possible_cpus, 2 * samples) {
                Ok((causes, probes)) => {
                    readers.causes = Ok(causes);
                    let set = match plan.has_clock {
                        true => &mut attached.set,
                        false => &mut owners,
                    };
                    set.probes.extend(probes);
                }
                Err(error) => readers.causes = Err(format!("{error:#}")),
            }
        }
        let switcher = match plan.has_clock {
            false => None,
            true => Some(Switcher::start(
                attached.groups(),
                attached.set,
                plan.stacks.is_ok().then(|| sampler_of(&skel)).transpose()?,
                readers.clocks.clone(),
                readers.control.clone(),
            )?),
        };
        readers.panel = switcher.as_ref().map(Switcher::panel);
        let session = Session {
            probes: attached.probes,
            _switcher: switcher,
            _owners: owners,
            lane_words,
            wants_owners,
            object: LoadedObject(skel),
        };
        Ok((session, readers))
    }

    /// Every probe, attached or not.
    pub fn probes(&self) -> &[ProbeInfo] {
        &self.probes
    }
}

impl Readers {
    fn new(
        skel: &NettoSkel<'_>,
        plan: &Plan,
        frequency_hz: u64,
        possible_cpus: usize,
        lane_words: u64,
    ) -> anyhow::Result<Readers> {
        let cpus = skel.maps.data_cpus.as_fd();
        let lanes = skel.maps.netto_lanes.as_fd();
        let lanes = lanes
            .try_clone_to_owned()
            .context("cannot duplicate a descriptor")?;
        let lanes = MappedParts::new(lanes, lane_bytes(lane_words), 2 * possible_cpus)?;
        let control = MappedArray::new(skel.maps.data_control.as_fd(), abi::CONTROL_BYTES, 1)?;
        let control = Arc::new(Control::new(control));
        control.set_softirqs_timed(plan.has_clock);
        Ok(Readers {
            clocks: Arc::new(CpuClocks::new(MappedArray::new(
                cpus,
                abi::CPU_BYTES,
                possible_cpus,
            )?)),
            panel: None,
            stacks: StackBuffer::new(lanes, control.clone(), possible_cpus),
            control,
            samplers: match &plan.stacks {
                Ok(()) => Some(Samplers::new(sampler_of(skel)?, frequency_hz)),
                Err(_) => None,
            },
            tick: None,
            timer_cost: Err("not measured".to_owned()),
            interrupts: NicInterrupts::new(MapHandle::try_from(&skel.maps.netto_nic_interrupts)?),
            causes: Err("not asked for".to_owned()),
            missed: MissedRuns::default(),
            possible_cpus,
        })
    }
}

fn sampler_of(skel: &NettoSkel<'_>) -> anyhow::Result<OwnedFd> {
    let program = skel.progs.netto_sample.as_fd().try_clone_to_owned();
    program.context("cannot duplicate a descriptor")
}

/// Room for the stacks of one lane.
fn lane_words(frequency_hz: u64, interval_ms: u64) -> u64 {
    (frequency_hz * interval_ms.max(SHORTEST_MS) * WORDS_PER_STACK / 1000)
        .clamp(LANE_WORDS_MIN, LANE_WORDS_MAX)
}

/// A lane with so much room, and what stands before its stacks; whole pages, so that lanes can
/// be mapped one by one.
fn lane_bytes(lane_words: u64) -> usize {
    let bytes = abi::LANE_WORDS * 8 + lane_words as usize * 8;
    bytes.next_multiple_of(mapped::page_bytes())
}

/// The object with all programs that the plan asks for, sized for this host and loaded.
fn load(
    plan: &Plan,
    parks: u64,
    possible_cpus: usize,
    lane_words: u64,
    wants_owners: bool,
) -> anyhow::Result<NettoSkel<'static>> {
    // The skeleton borrows its storage. A process has one session in its
    // life, so these few bytes may stay for as long as that.
    let storage = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = NettoSkelBuilder::default()
        .open(storage)
        .context("cannot open the embedded BPF object")?;
    let rodata = open
        .maps
        .rodata_data
        .as_mut()
        .context("the embedded BPF object has no configuration")?;
    rodata.netto_possible_cpus = possible_cpus as u64;
    rodata.netto_lane_words = lane_words as u32;
    rodata.netto_sampled_kinds = plan.sampled_kinds();
    rodata.netto_parks = parks;
    rodata.netto_owners = u64::from(wants_owners);
    let records = cpu_time::records_bytes(possible_cpus);
    open.maps.data_cpus.set_value_size(records)?;
    let lanes = &mut open.maps.netto_lanes;
    lanes.set_max_entries(2 * possible_cpus as u32)?;
    lanes.set_value_size(lane_bytes(lane_words) as u32)?;
    for clock in [
        &mut open.progs.netto_sirq_in,
        &mut open.progs.netto_sirq_out,
        &mut open.progs.netto_switch,
        &mut open.progs.netto_irq_entry,
        &mut open.progs.netto_irq_exit,
    ] {
        clock.set_autoload(plan.has_clock);
    }
    open.progs.netto_sample.set_autoload(plan.stacks.is_ok());
    open.load().map_err(explain_load)
}

/// Sends libbpf's messages to the log; it would print them to standard error.
pub fn quieten_libbpf() {
    libbpf_rs::set_print(Some((PrintLevel::Debug, |level, text| match level {
        PrintLevel::Warn | PrintLevel::Info => {
            tracing::debug!(target: "libbpf", "{}", text.trim_end())
        }
        PrintLevel::Debug => tracing::trace!(target: "libbpf", "{}", text.trim_end()),
    })));
}

fn explain_load(error: libbpf_rs::Error) -> anyhow::Error {
    let what = "the kernel refuses netto's BPF programs, without which nothing can be timed";
    match error.kind() {
        ErrorKind::PermissionDenied => {
            anyhow!("{what}: {error}; run as root, or with CAP_BPF and CAP_PERFMON")
        }
        _ => anyhow!(error).context(what),
    }
}
