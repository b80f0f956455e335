//! The probes at the points of a packet's way (`latency.bpf.c`), and their counts.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, bail};
use libbpf_rs::skel::{OpenSkel, Skel};
use libbpf_rs::{MapCore, MapFlags};
use metrics_common::latency::{BUCKETS, Point};

use super::clock::Follower;
use super::names;
use super::stamps::Stamps;
use crate::abi;
use crate::analysis::growth::Counts;
use crate::analysis::plan::{Attachment, Means, PROGRAMS, Plan, Program};
use crate::latency_skel::{LatencySkel, LatencySkelBuilder};
use crate::request::{Grouping, Request};
use netto_sys::btf;
use netto_sys::mapped::MappedArray;
use netto_sys::session::Probe;
use netto_sys::skeleton;
use netto_sys::system::Roots;

/// Group records on each CPU: the last is for packets without a group of their own.
pub const GROUPS: usize = abi::LATENCY_GROUPS + 1;

/// The kinds of filters: see `latency_counts.bpf.h`.
const KINDS: [&str; 5] = ["interface", "netns", "cgroup", "pid", "port"];
const BY_QUEUE: u64 = 5;

/// The probes, attached.
pub struct Probes {
    _skel: LatencySkel<'static>,
    counts: MappedArray,
    groups: MappedArray,
    possible_cpus: usize,
    plan: Plan,
    _clock: Follower,
    _stamps: Stamps,
}

impl Probes {
    /// Loads and attaches them by the best hooks that the kernel allows; also returns the programs.
    ///
    /// # Errors
    /// The kernel's refusal of the last set of hooks, or a filter with an unknown name.
    pub fn start(
        roots: &Roots,
        possible_cpus: usize,
        request: &Request,
    ) -> anyhow::Result<(Self, Vec<Probe>)> {
        let wanted = wanted(roots, request)?;
        let found = hookable()?;
        let root = names::cgroup_mount(roots).and_then(|mount| Ok(File::open(mount)?));
        let root = root.ok();
        let mut refusals = Vec::new();
        for means in Means::ALL {
            if means == Means::Sockets && root.is_none() {
                continue;
            }
            let plan = Plan::new(request, means, |program| found.contains(program.name));
            if plan.points.is_empty() {
                refusals.extend(plan.missing.first().map(|(_, reason)| reason.clone()));
                continue;
            }
            let open = Open {
                possible_cpus,
                request,
                wanted: &wanted,
                root: root.as_ref(),
            };
            match open.load(&plan) {
                Ok((skel, hooks, counts, groups, clock)) => {
                    let probes = Probes {
                        _skel: skel,
                        counts,
                        groups,
                        possible_cpus,
                        plan,
                        _clock: clock,
                        _stamps: Stamps::ask()?,
                    };
                    return Ok((probes, hooks));
                }
                Err(error) => {
                    tracing::debug!("latencies cannot be taken by {means:?}: {error:#}");
                    refusals.push(format!("{error:#}"));
                }
            }
        }
        bail!(
            "{}",
            refusals
                .pop()
                .unwrap_or_else(|| "no point was asked for".to_owned())
        )
    }

    /// The measured points and their methods, and the missing ones.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The record of a CPU.
    pub fn of_cpu(&self, cpu: usize) -> Record<'_> {
        Record(self.counts.element(cpu))
    }

    /// The identity of the group with this index; `None` if it is unused.
    pub fn group(&self, place: usize) -> Option<u64> {
        let words = &self.groups.element(0)[abi::LATENCY_GROUPS_KEY..];
        let key = words.get(place)?.load(Relaxed);
        (key != 0).then_some(key)
    }

    /// The record of a group on a CPU.
    pub fn of_group(&self, cpu: usize, place: usize) -> Record<'_> {
        Record(
            self.counts
                .element(self.possible_cpus + cpu * GROUPS + place),
        )
    }
}

/// Counts since the start, on one CPU, of all packets or of one group.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a>(&'a [AtomicU64]);

impl Record<'_> {
    /// Number of latencies taken. If it is unchanged, so are all counts.
    pub fn runs(&self) -> u64 {
        let word = self.0.get(abi::LATENCY_RUNS);
        word.map_or(0, |word| word.load(Relaxed))
    }

    /// The counts at a point.
    pub fn counts(&self, point: Point) -> Counts {
        let words = self.0;
        let word = |at: usize| words.get(at).map_or(0, |word| word.load(Relaxed));
        let first = abi::LATENCY_BUCKETS + point.index() * BUCKETS;
        Counts {
            buckets: (first..first + BUCKETS).map(word).collect(),
            sum_ns: word(abi::LATENCY_SUM_NS + point.index()),
            negative: word(abi::LATENCY_NEGATIVE + point.index()),
            too_long: word(abi::LATENCY_TOO_LONG + point.index()),
            lost: word(abi::LATENCY_LOST + point.index()),
        }
    }
}

/// The function that calls a program: if a kernel has it, it has the hook.
fn in_btf(program: &Program) -> String {
    match program.by {
        Attachment::Tracepoint => format!("__traceiter_{}", program.hook),
        Attachment::Function | Attachment::Cgroup => program.hook.to_owned(),
    }
}

/// Names of the programs whose hooks the running kernel has.
///
/// # Errors
/// If its type information cannot be read.
pub fn hookable() -> anyhow::Result<BTreeSet<&'static str>> {
    let hooks: Vec<String> = PROGRAMS.iter().map(in_btf).collect();
    let hooks: Vec<&str> = hooks.iter().map(String::as_str).collect();
    let found = btf::functions_among(&hooks)?;
    let both = PROGRAMS.iter().zip(&hooks);
    let hookable =
        both.filter(|(program, hook)| program.by == Attachment::Cgroup || found.contains(*hook));
    Ok(hookable.map(|(program, _)| program.name).collect())
}

/// The values that pass the filters, by kind.
fn wanted(roots: &Roots, request: &Request) -> anyhow::Result<[Vec<u64>; KINDS.len()]> {
    let all = |names: &[String], number: &dyn Fn(&str) -> anyhow::Result<u64>| {
        let numbers = names.iter().map(|name| number(name.trim()));
        numbers.collect::<anyhow::Result<Vec<u64>>>()
    };
    let processes = request.pids.iter().map(|pid| names::process(roots, *pid));
    Ok([
        all(&request.interfaces, &|name| names::interface(roots, name))?,
        all(&request.netns, &names::netns)?,
        all(&request.cgroups, &|path| names::cgroup(roots, path))?,
        processes.collect::<anyhow::Result<_>>()?,
        request.ports.iter().map(|port| u64::from(*port)).collect(),
    ])
}

/// The inputs of an attempt.
struct Open<'a> {
    possible_cpus: usize,
    request: &'a Request,
    wanted: &'a [Vec<u64>; KINDS.len()],
    root: Option<&'a File>,
}

type Loaded = (
    LatencySkel<'static>,
    Vec<Probe>,
    MappedArray,
    MappedArray,
    Follower,
);

impl Open<'_> {
    fn load(&self, plan: &Plan) -> anyhow::Result<Loaded> {
        let mut open = skeleton::open::<LatencySkelBuilder>()?;
        let is_planned = |name: &str| plan.programs.iter().any(|program| program.name == name);
        for mut program in open.open_object_mut().progs_mut() {
            let is_planned = is_planned(&program.name().to_string_lossy());
            program.set_autoload(is_planned);
        }
        let rodata = skeleton::constants(&mut open.maps.rodata_data)?;
        rodata.netto_points = plan.mask();
        rodata.netto_chosen_to = u64::MAX / self.request.one_in.max(1);
        rodata.netto_includes_hol = self.request.includes_hol.into();
        rodata.netto_min_queue = self.request.min_queue.into();
        rodata.netto_latency_cpus = self.possible_cpus as u32;
        rodata.netto_grouping = match self.request.grouping {
            Grouping::None => 0,
            Grouping::Interface => 1,
            Grouping::Owner => 2,
        };
        let kinds = self.wanted.iter().enumerate();
        let filters = kinds.filter(|(_, numbers)| !numbers.is_empty());
        rodata.netto_filters = filters.fold(0, |bits, (kind, _)| bits | 1 << kind);
        if self.request.min_queue > 0 {
            rodata.netto_filters |= 1 << BY_QUEUE;
        }
        let groups = match self.request.grouping {
            Grouping::None => 0,
            Grouping::Interface | Grouping::Owner => GROUPS,
        };
        let elements = self.possible_cpus * (1 + groups);
        open.maps.netto_latencies.set_max_entries(elements as u32)?;
        let has_any = |points: &[Point]| {
            let mut planned = plan.points.iter();
            planned.any(|(point, _)| points.contains(point))
        };
        let maps = &mut open.maps;
        use Point::{DriverToIp, Qdisc, TcpReadWait, TcpSocketRead, UdpReadWait};
        if has_any(&[TcpReadWait, UdpReadWait, DriverToIp, Qdisc]) {
            let waiting = &mut maps.netto_waiting;
            waiting.set_max_entries(abi::LATENCY_WAITING as u32)?;
        }
        if is_planned("netto_arrives") {
            let sets = abi::LATENCY_ARRIVALS;
            maps.netto_arrivals.set_max_entries(sets as u32)?;
            let delays = abi::LATENCY_WAITING;
            maps.netto_delays.set_max_entries(delays as u32)?;
        }
        if has_any(&[TcpReadWait, TcpSocketRead]) {
            let places = abi::LATENCY_DISORDERS;
            maps.netto_disorders.set_max_entries(places as u32)?;
            let sets = &mut maps.netto_disorder_sets;
            sets.set_max_entries((places / abi::LATENCY_WAYS) as u32)?;
        }
        if is_planned("netto_udp_read_near") {
            let places = abi::LATENCY_SOCKETS;
            maps.netto_datagrams.set_max_entries(places as u32)?;
            let sets = &mut maps.netto_datagram_sets;
            sets.set_max_entries((places / abi::LATENCY_WAYS) as u32)?;
        }
        let skel = open
            .load()
            .context("the kernel refuses the probes at points of packets")?;
        for (kind, numbers) in self.wanted.iter().enumerate() {
            for number in numbers {
                let key = (kind as u64) << 56 | (number & !(0xff << 56));
                skel.maps
                    .netto_wanted
                    .update(&key.to_ne_bytes(), &[0; 8], MapFlags::ANY)
                    .with_context(|| format!("cannot filter by {}", KINDS[kind]))?;
            }
        }
        let counts = &skel.maps.netto_latencies;
        let counts = MappedArray::new(counts, abi::LATENCY_BYTES, elements)?;
        let groups = MappedArray::new(&skel.maps.netto_group_keys, abi::LATENCY_GROUPS_BYTES, 1)?;
        let clock = Follower::start(&skel.maps.netto_clock)?;
        let hooks = attach(&skel, &plan.programs, self.root)?;
        Ok((skel, hooks, counts, groups, clock))
    }
}

fn attach(
    skel: &LatencySkel<'static>,
    programs: &[Program],
    root: Option<&File>,
) -> anyhow::Result<Vec<Probe>> {
    let mut hooks = Vec::with_capacity(programs.len());
    for planned in programs {
        let mut all = skel.object().progs();
        let program = all
            .find(|program| program.name() == planned.name)
            .context("the embedded BPF object lacks a program")?;
        let cgroup = match (planned.by, root) {
            (Attachment::Cgroup, None) => bail!("version 2 of control groups is not mounted"),
            (Attachment::Cgroup, root) => root,
            (Attachment::Function | Attachment::Tracepoint, _) => None,
        };
        let hook = Probe::new(&program, cgroup);
        let mut hook = hook.context("cannot duplicate a descriptor")?;
        let attached = hook.attach();
        attached.with_context(|| format!("cannot attach to {}", planned.hook))?;
        hooks.push(hook);
    }
    Ok(hooks)
}
