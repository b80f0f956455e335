//! CPU time of netto's own process, from interval to interval.

use netto_sys::system;

/// CPU time, nanoseconds: a total, or a difference.
#[derive(Debug, Clone, Copy)]
pub(super) struct Process {
    pub(super) user_ns: u64,
    pub(super) system_ns: u64,
    /// This thread's part of both.
    pub(super) thread_ns: u64,
}

impl Process {
    /// The total so far.
    pub(super) fn now() -> Self {
        let (user_ns, system_ns) = system::own_cpu_ns();
        Process {
            user_ns,
            system_ns,
            thread_ns: system::thread_cpu_ns(),
        }
    }

    /// Advances to the current total; returns the difference.
    pub(super) fn go_on(&mut self) -> Process {
        let now = Process::now();
        let before = std::mem::replace(self, now);
        Process {
            user_ns: now.user_ns.saturating_sub(before.user_ns),
            system_ns: now.system_ns.saturating_sub(before.system_ns),
            thread_ns: now.thread_ns.saturating_sub(before.thread_ns),
        }
    }
}
