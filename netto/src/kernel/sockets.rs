//! The probes on socket calls: `bpf/socket.bpf.c`, with one slot per kernel function.

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use anyhow::{Context, anyhow};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, OpenObject};

use super::socket_skel::{OpenSocketSkel, SocketSkelBuilder};
use crate::analysis::support::SocketFunction;

/// Maps that the socket probes share with all others.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedMaps<'a> {
    pub(super) cpus: BorrowedFd<'a>,
    pub(super) tasks: BorrowedFd<'a>,
    pub(super) possible_cpus: u32,
}

/// Hooks begin and end of these functions: the links of those that could be,
/// and for each function the kernel's refusal, if it was refused.
pub(super) fn attach(
    functions: &[SocketFunction],
    maps: SharedMaps<'_>,
) -> (Vec<Link>, Vec<(SocketFunction, Option<String>)>) {
    // All at once is one reading of the kernel's types instead of one each.
    // If that fails, each alone shows which of them is to blame.
    if let Ok(links) = attach_together(functions, maps) {
        return (
            links,
            functions.iter().map(|function| (*function, None)).collect(),
        );
    }
    let mut links = Vec::new();
    let mut outcome = Vec::new();
    for function in functions {
        match attach_together(&[*function], maps) {
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
) -> anyhow::Result<Vec<Link>> {
    let mut storage = MaybeUninit::uninit();
    let mut open = open(functions, &mut storage)?;
    open.maps.netto_cpus.set_max_entries(maps.possible_cpus)?;
    open.maps.netto_cpus.reuse_fd(maps.cpus)?;
    open.maps.netto_tasks.reuse_fd(maps.tasks)?;
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
    Ok(beginnings)
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

/// Opens the object with the n-th function in slot n, and only those slots in use.
fn open<'a>(
    functions: &[SocketFunction],
    storage: &'a mut MaybeUninit<OpenObject>,
) -> anyhow::Result<OpenSocketSkel<'a>> {
    let mut open = SocketSkelBuilder::default()
        .open(storage)
        .context("the embedded BPF object is damaged")?;
    if let Some(rodata) = &mut open.maps.rodata_data {
        for (kind, function) in rodata.netto_slot_kind.iter_mut().zip(functions) {
            *kind = u64::from(function.source.clock_kind());
        }
    }
    let mut used = 0;
    for mut program in open.open_object_mut().progs_mut() {
        let slot = program
            .name()
            .to_string_lossy()
            .rsplit_once('_')
            .and_then(|(_, slot)| slot.parse::<usize>().ok());
        match slot.and_then(|slot| functions.get(slot)) {
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
