//! What runs of BPF programs cost, by the kernel's own statistics, switched on for a moment.
//!
//! The kernel counts only while a descriptor keeps the statistics on, because each run then costs
//! more.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys::{
    BPF_STATS_RUN_TIME, bpf_enable_stats, bpf_obj_get_info_by_fd, bpf_prog_info,
};

/// How often a program ran while statistics were on, and for how long, nanoseconds: the
/// taking of time is in it, the dispatch into the program is not. Both take about as long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Runs {
    pub(super) count: u64,
    pub(super) ns: u64,
}

impl Runs {
    /// Both together.
    pub(super) fn plus(self, other: Runs) -> Runs {
        Runs {
            count: self.count + other.count,
            ns: self.ns + other.ns,
        }
    }

    /// What has come to it since.
    pub(super) fn since(self, before: Runs) -> Runs {
        Runs {
            count: self.count.saturating_sub(before.count),
            ns: self.ns.saturating_sub(before.ns),
        }
    }
}

/// Keeps the kernel counting until it is dropped.
#[derive(Debug)]
pub(super) struct Statistics {
    _kept: OwnedFd,
}

impl Statistics {
    /// Switches them on.
    ///
    /// # Errors
    /// The kernel has none (before 5.8), or refuses.
    pub(super) fn on() -> io::Result<Self> {
        // SAFETY: the call takes no pointer.
        let fd = unsafe { bpf_enable_stats(BPF_STATS_RUN_TIME) };
        if fd < 0 {
            return Err(io::Error::from_raw_os_error(-fd));
        }
        // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
        let kept = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Statistics { _kept: kept })
    }
}

/// What was counted of a program so far; nothing where the kernel does not say.
pub(super) fn runs_of(program: &OwnedFd) -> Runs {
    information(program).map_or(Runs::default(), |(info, _)| Runs {
        count: info.run_cnt,
        ns: info.run_time_ns,
    })
}

/// What the kernel says of a program, and how many bytes of it.
pub(super) fn information(program: &OwnedFd) -> Option<(bpf_prog_info, usize)> {
    let mut info = bpf_prog_info::default();
    let mut bytes = size_of::<bpf_prog_info>() as u32;
    // SAFETY: the descriptor is open, and the kernel writes at most `bytes` bytes to
    // `info`, which is as large; it holds no pointers, so nothing else is written.
    let result = unsafe {
        bpf_obj_get_info_by_fd(program.as_raw_fd(), (&raw mut info).cast(), &raw mut bytes)
    };
    (result == 0).then_some((info, bytes as usize))
}
