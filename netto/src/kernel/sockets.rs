//! The probes on socket calls: `bpf/socket.bpf.c`, with one pair of programs per kernel function.

use std::io::BufRead;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context, anyhow};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, OpenObject};

use super::cpu_time;
use super::missed::MissedRuns;
use super::socket_skel::{OpenSocketSkel, SocketSkelBuilder};
use super::system::Roots;
use crate::analysis::plan::SocketFunction;
use metrics_common::Source;
use metrics_common::component::{COMPONENTS, index_of_source};

/// Maps that the socket probes share with all others.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedMaps<'a> {
    pub(super) cpus: BorrowedFd<'a>,
    pub(super) possible_cpus: usize,
}

/// Links of what is hooked, and for each function the kernel's refusal, if it was refused.
pub(super) type Hooked = (Vec<Link>, Vec<(SocketFunction, Option<String>)>);

/// Hooks begin and end of these functions: the links of those that could be,
/// and for each function the kernel's refusal, if it was refused.
pub(super) fn attach(
    functions: &[SocketFunction],
    maps: SharedMaps<'_>,
    missed: &mut MissedRuns,
) -> Hooked {
    // All at once is one reading of the kernel's types instead of one each.
    // If that fails, each alone shows which of them is to blame.
    if let Ok(links) = attach_together(functions, maps, missed) {
        return (
            links,
            functions.iter().map(|function| (*function, None)).collect(),
        );
    }
    let mut links = Vec::new();
    let mut outcome = Vec::new();
    for function in functions {
        match attach_together(&[*function], maps, missed) {
            Ok(own) => {
                links.extend(own);
                outcome.push((*function, None));
            }
            Err(error) => outcome.push((*function, Some(format!("{error:#}")))),
        }
    }
    (links, outcome)
}

fn attach_together(
    functions: &[SocketFunction],
    maps: SharedMaps<'_>,
    missed: &mut MissedRuns,
) -> anyhow::Result<Vec<Link>> {
    let mut storage = MaybeUninit::uninit();
    let mut open = open(functions, &mut storage)?;
    share_maps(&mut open, maps)?;
    let skel = open.load().context("refused at load")?;
    // The ends first: an end without a beginning is ignored, a beginning without
    // an end would charge its task for ever. Links are dropped in the order in
    // which they stand here, so the beginnings come first again in the result.
    let mut ends = Vec::new();
    let mut beginnings = Vec::new();
    for (wanted, links) in [
        ("netto_fexit_", &mut ends),
        ("netto_fentry_", &mut beginnings),
    ] {
        for program in skel.object().progs_mut() {
            if program.autoload() && program.name().to_string_lossy().starts_with(wanted) {
                links.push(program.attach_trace().context("refused at attaching")?);
            }
        }
    }
    beginnings.append(&mut ends);
    for program in skel.object().progs() {
        if let Some(function) = pair_of(&program.name().to_string_lossy())
            .and_then(|pair| functions.get(pair))
            .filter(|_| program.autoload())
        {
            missed.program(function.name, slug_of(function.source), program.as_fd());
        }
    }
    Ok(beginnings)
}

/// The pair that a program belongs to, by its name.
fn pair_of(program: &str) -> Option<usize> {
    program.rsplit_once('_')?.1.parse().ok()
}

/// Slug of the component that a source's time belongs to.
pub(super) fn slug_of(source: Source) -> &'static str {
    index_of_source(source).map_or("", |index| COMPONENTS[index].slug)
}

/// Where the kernel sends returns that a kretprobe waits for: its name since
/// Linux 5.18, and before.
const RETURN_TRAMPOLINES: [&str; 2] = ["arch_rethook_trampoline", "__kretprobe_trampoline"];

/// The address of the kernel's return trampoline; `None` where symbols cannot be
/// read, or where the return address is not on the stack when a function begins.
fn return_trampoline(roots: &Roots) -> Option<u64> {
    if !cfg!(target_arch = "x86_64") {
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

/// Hooks begin and end of these functions by kprobes and kretprobes; the result is that of [`attach`].
///
/// A kretprobe waits for a limited number of returns. The beginnings look
/// whether theirs is among them, and for that are attached before the ends: the
/// kernel runs what was attached last first. A call that begins in between
/// is seen to have no end, and is not timed.
///
/// # Errors
/// The kernel refuses the programs themselves.
pub(super) fn attach_kprobes(
    functions: &[SocketFunction],
    maps: SharedMaps<'_>,
    roots: &Roots,
    missed: &mut MissedRuns,
) -> anyhow::Result<Hooked> {
    let mut storage = MaybeUninit::uninit();
    let mut open = SocketSkelBuilder::default()
        .open(&mut storage)
        .context("cannot open the embedded BPF object")?;
    let trampoline = return_trampoline(roots);
    if let Some(rodata) = &mut open.maps.rodata_data {
        rodata.netto_return_trampoline = trampoline.unwrap_or(0);
    }
    if trampoline.is_some() {
        // Mostly of receives: those that sleep take up the room.
        let receives = slug_of(Source::SocketReceive);
        missed.records("kretprobe", "no_room", receives, |cpu| cpu.unseen_returns);
    }
    for mut program in open.open_object_mut().progs_mut() {
        let is_kprobe = program.name().to_string_lossy().starts_with("netto_kp_");
        program.set_autoload(is_kprobe);
    }
    share_maps(&mut open, maps)?;
    let skel = open.load().context("the kernel refuses kprobe programs")?;
    let mut links = Vec::new();
    let mut outcome = Vec::new();
    for function in functions {
        let entry = match function.source {
            Source::SocketSend => &skel.progs.netto_kp_send,
            Source::SocketReceive => &skel.progs.netto_kp_recv,
            _ => &skel.progs.netto_kp_ipc,
        };
        let hooked = entry
            .attach_kprobe(false, function.name)
            .and_then(|beginning| {
                let end = &skel.progs.netto_kp_return;
                Ok((beginning, end.attach_kprobe(true, function.name)?))
            });
        match hooked {
            Ok((beginning, end)) => {
                links.splice(0..0, [beginning]);
                links.push(end);
                outcome.push((*function, None));
            }
            Err(error) => outcome.push((*function, Some(error.to_string()))),
        }
    }
    Ok((links, outcome))
}

fn share_maps(open: &mut OpenSocketSkel<'_>, maps: SharedMaps<'_>) -> anyhow::Result<()> {
    let rodata = open.maps.rodata_data.as_mut();
    let rodata = rodata.context("the embedded BPF object has no configuration")?;
    rodata.netto_possible_cpus = maps.possible_cpus as u64;
    let records = cpu_time::records_bytes(maps.possible_cpus);
    open.maps.data_cpus.set_value_size(records)?;
    open.maps.data_cpus.reuse_fd(maps.cpus)?;
    Ok(())
}

/// Whether this kernel takes fentry programs at all, tried on one function.
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

/// Whether this kernel takes kprobes, tried on one function.
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
    // An end without a beginning does nothing.
    let skel = open.load().map_err(|error| anyhow!("{error}"))?;
    let end = &skel.progs.netto_kp_return;
    end.attach_kprobe(true, function.name)
        .map(drop)
        .map_err(|error| anyhow!("{error}"))
}

/// Opens the object with the n-th function served by pair n, and only those pairs in use.
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
