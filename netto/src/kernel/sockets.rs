//! The probes on socket calls: `bpf/socket.bpf.c`, loaded once per kernel
//! function, so that a function that cannot be hooked takes only itself away.

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use anyhow::{Context, anyhow};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
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

/// Hooks begin and end of one function. The probes live as long as the links.
///
/// # Errors
/// The kernel's refusal to load or attach.
pub(super) fn attach(function: SocketFunction, maps: SharedMaps<'_>) -> anyhow::Result<[Link; 2]> {
    let mut storage = MaybeUninit::uninit();
    let mut open = open(function, &mut storage)?;
    open.maps.netto_cpus.set_max_entries(maps.possible_cpus)?;
    open.maps.netto_cpus.reuse_fd(maps.cpus)?;
    open.maps.netto_tasks.reuse_fd(maps.tasks)?;
    let skel = open.load().context("refused at load")?;
    // The end first: an end without a beginning is ignored, a beginning without
    // an end would charge its task for ever.
    let fexit = skel
        .progs
        .netto_fexit
        .attach_trace()
        .context("fexit refused")?;
    let fentry = skel
        .progs
        .netto_fentry
        .attach_trace()
        .context("fentry refused")?;
    Ok([fentry, fexit])
}

/// Whether this kernel takes fentry programs at all, tried on one function.
///
/// # Errors
/// The kernel's refusal.
pub(super) fn try_load(function: SocketFunction) -> anyhow::Result<()> {
    let mut storage = MaybeUninit::uninit();
    open(function, &mut storage)?
        .load()
        .map(drop)
        .map_err(|error| anyhow!("{error}"))
}

fn open(
    function: SocketFunction,
    storage: &mut MaybeUninit<OpenObject>,
) -> anyhow::Result<OpenSocketSkel<'_>> {
    let mut open = SocketSkelBuilder::default()
        .open(storage)
        .context("the embedded BPF object is damaged")?;
    if let Some(rodata) = &mut open.maps.rodata_data {
        rodata.netto_socket_kind = u64::from(function.source.clock_kind());
    }
    for program in [&mut open.progs.netto_fentry, &mut open.progs.netto_fexit] {
        program
            .set_attach_target(0, Some(function.name.to_owned()))
            .context("no such function")?;
    }
    Ok(open)
}
