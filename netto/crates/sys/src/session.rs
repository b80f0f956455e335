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
use self::controller::ProbeThread;
pub use self::controller::{AttachedWindow, MeasuredCosts, ProbeController, WindowSampling};
pub use self::probes::Probe;
use super::abi;
use super::alarm::LoadAlarm;
use super::control::Control;
use super::cpu_records::{self, CpuRecords};
use super::cpu_time::CpuClocks;
use super::interrupts::NicInterrupts;
use super::long_softirqs::LongSoftirqs;
use super::mapped::{self, MappedArray, MappedParts};
use super::missed::MissedRuns;
use super::netto_skel::{NettoSkel, NettoSkelBuilder};
use super::perf::{Samplers, WindowSamplers};
use super::stacks::StackBuffer;
use super::system::Roots;
use super::tick::TickSampler;
use super::timer_cost::TimerCost;
use netto_analysis::plan::{Plan, Sockets};
use netto_analysis::tagged::Tags;

mod attached;
mod by_tick;
mod controller;
pub(super) mod probe_set;
pub(super) mod probes;

/// Capacity for one CPU's stacks of one interval, words. A lane takes about 30 words per stack;
/// half of the samples of a busy CPU are in networking. Between these bounds it follows frequency
/// and interval; with short intervals it holds more than one, since reading symbols again takes
/// longer than they do.
const LANE_WORDS_MIN: u64 = 64 * abi::TRACE_WORDS as u64;
const LANE_WORDS_MAX: u64 = 1 << 18;
const WORDS_PER_STACK: u64 = 32;
const SHORTEST_MS: u64 = 500;

/// Probes attached to the kernel, and what failed to.
#[derive(Debug)]
pub struct Session {
    probes: Vec<ProbeInfo>,
    _controller: ProbeThread,
    lane_words: u64,
    has_tags: bool,
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
    /// What they are kept in, for programs of features.
    pub records: Arc<CpuRecords>,
    /// Tells that a load begins; `None` if softirqs are not timed.
    pub alarm: Option<LoadAlarm>,
    /// By which probes come and go.
    pub controller: ProbeController,
    /// What the programs are told while they run.
    pub control: Arc<Control>,
    /// The longest softirqs; `None` if none are timed, or they are preempted: what was charged at the
    /// end of one is then only what it took since it went on.
    pub long_softirqs: Option<LongSoftirqs>,
    /// Sampled stacks; empty if the plan has no stacks.
    pub stacks: StackBuffer,
    /// Clocks of the stack sampler, not yet started on any CPU; `None` if the plan has no stacks.
    pub samplers: Option<Samplers>,
    /// The sampler that the scheduler's tick calls, if it does.
    pub tick: Option<TickSampler>,
    /// What an interrupt of perf's clock costs, or why that is not known.
    pub timer_cost: Result<TimerCost, String>,
    /// Which interrupts are network devices'.
    pub interrupts: NicInterrupts,
    /// What probes missed.
    pub missed: MissedRuns,
    /// Number of CPUs that the kernel can ever have.
    pub possible_cpus: usize,
    /// Whether the kernel can preempt softirqs (PREEMPT_RT).
    pub is_realtime: bool,
    /// Whether programs in softirqs are whole all the same: as in the plan.
    pub tracepoints: Result<(), String>,
    /// Samples of one CPU in one interval, at the most.
    pub most_samples: u64,
}

impl Session {
    /// Attaches everything that the plan asks for. `tags`: what samples, of which there must be some
    /// then, carry.
    ///
    /// A socket function that cannot be hooked is noted in [`Session::probes`]
    /// and left out; without softirqs, and context switches where they are needed, there is
    /// no session.
    ///
    /// # Errors
    /// What failed, what it was needed for, what to do.
    pub fn start(
        plan: &Plan,
        roots: &Roots,
        frequency_hz: u64,
        interval_ms: u64,
        tags: Tags,
    ) -> anyhow::Result<(Session, Readers)> {
        let possible_cpus = libbpf_rs::num_possible_cpus()
            .context("cannot tell how many CPUs this kernel can have")?;
        let lane_words = lane_words(frequency_hz, interval_ms);
        let skel = load(plan, possible_cpus, lane_words, tags)?;
        let records = skel.maps.data_cpus.as_fd();
        let records = CpuRecords::new(records, possible_cpus, tags == Tags::Ends)?;
        let records = Arc::new(records);
        let clocks = Arc::new(CpuClocks::new(records.clone()));
        clocks.start(&roots.ksoftirqd_threads(possible_cpus));
        let control = MappedArray::new(skel.maps.data_control.as_fd(), abi::CONTROL_BYTES, 1)?;
        let control = Arc::new(Control::new(control));
        control.set_softirqs_timed(plan.has_clock);

        let mut attached = AttachedProbes::default();
        let mut missed = MissedRuns::default();
        if plan.has_clock {
            attached.clock(&skel, plan.parks_states(), &mut missed)?;
        }
        if let Sockets::Timed(hook, functions) = &plan.sockets {
            attached.sockets(*hook, functions, &records, roots, &mut missed)?;
        }
        let controller = ProbeThread::start(
            attached.groups(),
            attached.set,
            plan.stacks.is_ok().then(|| sampler_of(&skel)).transpose()?,
            (tags != Tags::None)
                .then(|| window_sampler_of(&skel))
                .transpose()?,
            clocks.clone(),
            control.clone(),
            plan.is_realtime,
        )?;
        let lanes = skel.maps.netto_lanes.as_fd();
        let lanes = lanes
            .try_clone_to_owned()
            .context("cannot duplicate a descriptor")?;
        let lanes = MappedParts::new(lanes, lane_bytes(lane_words), 2 * possible_cpus)?;
        let samplers = match &plan.stacks {
            Ok(()) => Some(Samplers::new(sampler_of(&skel)?, frequency_hz)),
            Err(_) => None,
        };
        let are_whole = plan.has_clock && !plan.is_realtime;
        let alarm = plan
            .has_clock
            .then(|| LoadAlarm::new(&skel.maps.netto_alarms, records.clone(), control.clone()))
            .transpose()?;
        let readers = Readers {
            alarm,
            long_softirqs: are_whole.then(|| LongSoftirqs::new(records.clone(), control.clone())),
            clocks,
            records,
            controller: controller.controller(),
            stacks: StackBuffer::new(lanes, control.clone(), possible_cpus),
            control,
            samplers,
            tick: None,
            timer_cost: Err("not measured".to_owned()),
            interrupts: NicInterrupts::new(MapHandle::try_from(&skel.maps.netto_nic_interrupts)?),
            missed,
            possible_cpus,
            is_realtime: plan.is_realtime,
            tracepoints: plan.tracepoints.clone(),
            most_samples: frequency_hz * interval_ms.max(SHORTEST_MS) / 1000,
        };
        let session = Session {
            probes: attached.probes,
            _controller: controller,
            lane_words,
            has_tags: tags != Tags::None,
            object: LoadedObject(skel),
        };
        Ok((session, readers))
    }

    /// Every probe, attached or not.
    pub fn probes(&self) -> &[ProbeInfo] {
        &self.probes
    }
}

fn sampler_of(skel: &NettoSkel<'_>) -> anyhow::Result<OwnedFd> {
    let program = skel.progs.netto_sample.as_fd().try_clone_to_owned();
    program.context("cannot duplicate a descriptor")
}

fn window_sampler_of(skel: &NettoSkel<'_>) -> anyhow::Result<WindowSamplers> {
    let program = skel.progs.netto_sample_w.as_fd().try_clone_to_owned();
    let program = program.context("cannot duplicate a descriptor")?;
    Ok(WindowSamplers::new(program))
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
    possible_cpus: usize,
    lane_words: u64,
    tags: Tags,
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
    rodata.netto_parks_softirqs = u64::from(plan.is_realtime);
    rodata.netto_tags = u64::from(tags != Tags::None);
    rodata.netto_tells_ends = u64::from(tags == Tags::Ends);
    cpu_records::make_room(&mut open.maps.data_cpus, possible_cpus)?;
    let lanes = &mut open.maps.netto_lanes;
    lanes.set_max_entries(2 * possible_cpus as u32)?;
    lanes.set_value_size(lane_bytes(lane_words) as u32)?;
    for clock in [
        &mut open.progs.netto_sirq_in,
        &mut open.progs.netto_sirq_out,
        &mut open.progs.netto_irq_entry,
        &mut open.progs.netto_irq_exit,
    ] {
        clock.set_autoload(plan.has_clock);
    }
    let has_switches = plan.has_clock && plan.parks_states();
    open.progs.netto_switch.set_autoload(has_switches);
    open.progs.netto_sample.set_autoload(plan.stacks.is_ok());
    open.progs.netto_sample_w.set_autoload(tags != Tags::None);
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
