//! The run time of BPF programs from the kernel's own statistics, enabled for short times.
//!
//! The kernel counts only while a descriptor keeps the statistics enabled, because each run then
//! costs more.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys::{
    BPF_STATS_RUN_TIME, bpf_enable_stats, bpf_obj_get_info_by_fd, bpf_prog_info,
};

/// Fewer runs than this say nothing of what one costs.
pub(super) const ENOUGH_RUNS: u64 = 100;

/// Runs of a program while statistics were enabled, and their time, nanoseconds. The time includes
/// reading the clock, but not the dispatch into the program; both take about as long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Runs {
    pub(super) count: u64,
    pub(super) ns: u64,
}

impl Runs {
    /// The sum of both.
    pub(super) fn plus(self, other: Runs) -> Runs {
        Runs {
            count: self.count + other.count,
            ns: self.ns + other.ns,
        }
    }

    /// The increase since `before`.
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
    /// Enables them.
    ///
    /// # Errors
    /// The kernel has no statistics (before 5.8), or refuses.
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

/// The counts of a program so far; zero if the kernel does not report them.
pub(super) fn runs_of(program: &OwnedFd) -> Runs {
    information(program).map_or(Runs::default(), |(info, _)| Runs {
        count: info.run_cnt,
        ns: info.run_time_ns,
    })
}

/// The kernel's information on a program, and its length in bytes.
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
