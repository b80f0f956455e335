//! The probes on socket calls: `bpf/socket.bpf.c`, with one pair of programs per kernel function.

use std::io::BufRead;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, anyhow};
use libbpf_rs::OpenObject;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};

use super::cpu_records::CpuRecords;
use super::missed::MissedRuns;
use super::session::probe_set::ProbeSet;
use super::session::probes::{Member, Role, Way};
use super::skeleton;
use super::socket_skel::{OpenSocketSkel, SocketSkel, SocketSkelBuilder};
use super::system::Roots;
use metrics_common::Source;
use metrics_common::component::{COMPONENTS, index_of_source};
use netto_analysis::groups::{Group, GroupSet};
use netto_analysis::plan::SocketFunction;

/// Attached probes, and for each function the kernel's refusal, if any.
pub(super) type Hooked = (Vec<Member>, Vec<(SocketFunction, Option<String>)>);

/// Attaches probes at entry and return of these functions; returns the attached ones, and for each
/// function the kernel's refusal, if any.
pub(super) fn attach(
    functions: &[SocketFunction],
    records: &CpuRecords,
    missed: &mut MissedRuns,
) -> Hooked {
    // Together, they need one reading of the kernel's types instead of one each. If that fails,
    // attaching each one alone shows which is refused.
    if let Ok(probes) = attach_together(functions, records, missed) {
        return (
            probes,
            functions.iter().map(|function| (*function, None)).collect(),
        );
    }
    let mut probes = Vec::new();
    let mut outcome = Vec::new();
    for function in functions {
        match attach_together(&[*function], records, missed) {
            Ok(attached) => {
                probes.extend(attached);
                outcome.push((*function, None));
            }
            Err(error) => outcome.push((*function, Some(format!("{error:#}")))),
        }
    }
    (probes, outcome)
}

fn attach_together(
    functions: &[SocketFunction],
    records: &CpuRecords,
    missed: &mut MissedRuns,
) -> anyhow::Result<Vec<Member>> {
    let mut storage = MaybeUninit::uninit();
    let mut open = open(functions, &mut storage)?;
    share_records(&mut open, records)?;
    let skel = open.load().context("refused at load")?;
    // Returns first: a return without an entry is ignored, an entry without a return would charge
    // its task for ever.
    let mut attached = ProbeSet::default();
    for program in skel.object().progs() {
        let name = program.name().to_string_lossy();
        let Some(function) = pair_of(&name)
            .and_then(|pair| functions.get(pair))
            .filter(|_| program.autoload())
        else {
            continue;
        };
        let is_end = name.starts_with("netto_fexit_");
        attached.probes.push(Member::new(
            Group::of(function.source),
            if is_end { Role::End } else { Role::Begin },
            Way::Trace,
            duplicate(program.as_fd())?,
        ));
    }
    attached
        .attach(GroupSet::ALL, false)
        .context("refused at attaching")?;
    for program in skel.object().progs() {
        if let Some(function) = pair_of(&program.name().to_string_lossy())
            .and_then(|pair| functions.get(pair))
            .filter(|_| program.autoload())
        {
            missed.program(function.name, slug_of(function.source), program.as_fd());
        }
    }
    Ok(attached.probes)
}

fn duplicate(program: BorrowedFd<'_>) -> anyhow::Result<OwnedFd> {
    let fd = program.try_clone_to_owned();
    fd.context("cannot duplicate a descriptor")
}

/// The pair that a program belongs to, by its name.
fn pair_of(program: &str) -> Option<usize> {
    program.rsplit_once('_')?.1.parse().ok()
}

/// Slug of the component that a source's time belongs to.
pub(super) fn slug_of(source: Source) -> &'static str {
    index_of_source(source).map_or("", |index| COMPONENTS[index].slug)
}

/// The kernel's return trampoline of kretprobes: its name since Linux 5.18, and before.
const RETURN_TRAMPOLINES: [&str; 2] = ["arch_rethook_trampoline", "__kretprobe_trampoline"];

/// The address of the kernel's return trampoline; `None` if symbols cannot be read, or
/// `bpf/socket.bpf.c` does not know where the return address is at a function's entry.
fn return_trampoline(roots: &Roots) -> Option<u64> {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return None;
    }
    let lines = roots.kallsyms().ok()?.lines().map_while(Result::ok);
    lines
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (address, _, name) = (words.next()?, words.next()?, words.next()?);
            if !RETURN_TRAMPOLINES.contains(&name) {
                return None;
            }
            u64::from_str_radix(address, 16).ok()
        })
        .find(|address| *address != 0)
}

/// Attaches kprobes and kretprobes at entry and return of these functions; the result is that of
/// [`attach`].
///
/// The kernel tracks a limited number of returns for a kretprobe. The entry probe checks whether
/// its return is tracked, and must be attached before the return probe: the kernel runs the probe
/// that was attached last first. A call that begins in between is found to have no return, and is
/// not timed.
///
/// # Errors
/// The kernel refuses the programs themselves.
pub(super) fn attach_kprobes(
    functions: &[SocketFunction],
    records: &CpuRecords,
    roots: &Roots,
    missed: &mut MissedRuns,
) -> anyhow::Result<Hooked> {
    let mut open = skeleton::open::<SocketSkelBuilder>()?;
    let trampoline = return_trampoline(roots);
    if let Some(rodata) = &mut open.maps.rodata_data {
        rodata.netto_return_trampoline = trampoline.unwrap_or(0);
    }
    if trampoline.is_some() {
        // Mostly of receives: calls that sleep use up the tracked returns.
        let receives = slug_of(Source::SocketReceive);
        missed.records("kretprobe", "no_room", receives, |cpu| cpu.unseen_returns);
    }
    for mut program in open.open_object_mut().progs_mut() {
        let is_kprobe = program.name().to_string_lossy().starts_with("netto_kp_");
        program.set_autoload(is_kprobe);
    }
    share_records(&mut open, records)?;
    let skel = open.load().context("the kernel refuses kprobe programs")?;
    // A kprobe can only be attached through its object, which is therefore leaked: a process has
    // one session in its life.
    let skel: &'static SocketSkel<'static> = Box::leak(Box::new(skel));
    let mut probes = Vec::new();
    let mut outcome = Vec::new();
    for function in functions {
        let beginning = match function.source {
            Source::SocketSend => "netto_kp_send",
            Source::SocketReceive => "netto_kp_recv",
            _ => "netto_kp_ipc",
        };
        let mut pair = Vec::new();
        for (role, program) in [(Role::Begin, beginning), (Role::End, "netto_kp_return")] {
            let mut loaded = skel.object().progs();
            let loaded = loaded.find(|loaded| loaded.name() == program);
            let loaded = loaded.context("the embedded BPF object lacks a program")?;
            let way = Way::Kprobe {
                object: skel.object(),
                program,
                function: function.name,
            };
            let group = Group::of(function.source);
            pair.push(Member::new(group, role, way, duplicate(loaded.as_fd())?));
        }
        match pair.iter_mut().try_for_each(Member::attach) {
            Ok(()) => {
                probes.append(&mut pair);
                outcome.push((*function, None));
            }
            Err(error) => outcome.push((*function, Some(error.to_string()))),
        }
    }
    Ok((probes, outcome))
}

fn share_records(open: &mut OpenSocketSkel<'_>, records: &CpuRecords) -> anyhow::Result<()> {
    let rodata = open.maps.rodata_data.as_mut();
    let rodata = rodata.context("the embedded BPF object has no configuration")?;
    rodata.netto_possible_cpus = records.possible_cpus() as u64;
    records.share_with(&mut open.maps.data_cpus)
}

/// Tries on one function whether this kernel accepts fentry programs.
///
/// # Errors
/// The kernel's refusal.
pub(super) fn try_load(function: SocketFunction) -> anyhow::Result<()> {
    let mut storage = MaybeUninit::uninit();
    open(&[function], &mut storage)?
        .load()
        .map(drop)
        .map_err(|error| anyhow!("{error}"))
}

/// Tries on one function whether this kernel accepts kprobes.
///
/// # Errors
/// The kernel's refusal.
pub(super) fn try_kprobe(function: SocketFunction) -> anyhow::Result<()> {
    let mut storage = MaybeUninit::uninit();
    let mut open = SocketSkelBuilder::default()
        .open(&mut storage)
        .context("cannot open the embedded BPF object")?;
    for mut program in open.open_object_mut().progs_mut() {
        let is_end = program.name() == "netto_kp_return";
        program.set_autoload(is_end);
    }
    // A return without an entry does nothing.
    let skel = open.load().map_err(|error| anyhow!("{error}"))?;
    let end = &skel.progs.netto_kp_return;
    end.attach_kprobe(true, function.name)
        .map(drop)
        .map_err(|error| anyhow!("{error}"))
}

/// Opens the object with the n-th function assigned to pair n, and only the used pairs enabled.
fn open<'a>(
    functions: &[SocketFunction],
    storage: &'a mut MaybeUninit<OpenObject>,
) -> anyhow::Result<OpenSocketSkel<'a>> {
    let mut open = SocketSkelBuilder::default()
        .open(storage)
        .context("cannot open the embedded BPF object")?;
    if let Some(rodata) = &mut open.maps.rodata_data {
        for (kind, function) in rodata.netto_pair_kind.iter_mut().zip(functions) {
            *kind = u64::from(function.source.clock_kind());
        }
    }
    let mut used = 0;
    for mut program in open.open_object_mut().progs_mut() {
        let pair = pair_of(&program.name().to_string_lossy());
        match pair.and_then(|pair| functions.get(pair)) {
            Some(function) => {
                program
                    .set_attach_target(0, Some(function.name.to_owned()))
                    .context("no such function")?;
                used += 1;
            }
            None => program.set_autoload(false),
        }
    }
    anyhow::ensure!(
        used == 2 * functions.len(),
        "netto has no room for {} socket functions",
        functions.len()
    );
    Ok(open)
}
