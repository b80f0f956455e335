//! Clocks of the system.

use nix::sys::time::TimeValLike;
use nix::time::ClockId;
use nix::unistd::{SysconfVar, sysconf};

/// CLOCK_MONOTONIC, which BPF's `bpf_ktime_get_ns` reads too.
pub fn monotonic_ns() -> u64 {
    clock_ns(ClockId::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// The CPU on which the calling thread is running; `None` if the operating system does not tell.
pub fn current_cpu() -> Option<u32> {
    nix::sched::sched_getcpu().ok()?.try_into().ok()
}

fn clock_ns(clock: ClockId) -> u64 {
    // Cannot fail for these clocks.
    clock.now().map_or(0, |time| time.num_nanoseconds() as u64)
}

/// Length of a scheduler tick, nanoseconds: the resolution of the clock that advances with it.
pub fn scheduler_tick_ns() -> Option<u64> {
    let length = ClockId::CLOCK_MONOTONIC_COARSE.res().ok()?;
    let length_ns = u64::try_from(length.num_nanoseconds()).ok()?;
    Some(length_ns).filter(|ns| *ns > 1)
}

/// Length of one tick of `/proc/stat`, nanoseconds.
pub fn tick_ns() -> u64 {
    let hz = sysconf(SysconfVar::CLK_TCK).ok().flatten();
    let hz = hz.and_then(|hz| u64::try_from(hz).ok());
    1_000_000_000 / hz.filter(|&hz| hz > 0).unwrap_or(100)
}
