//! Limits a thread to a share of one CPU.

use std::thread::sleep;
use std::time::Duration;

use netto_sys::system::thread_cpu_ns;

/// The thread may use one part in this many of a CPU.
const SHARE: u64 = 20;
/// CPU time between two pauses, nanoseconds.
const AT_ONCE_NS: u64 = 5_000_000;

/// CPU time of the calling thread since its last pause.
#[derive(Debug)]
pub(super) struct Pace {
    paused_at_ns: u64,
}

impl Pace {
    /// Starts now.
    pub(super) fn new() -> Self {
        Pace {
            paused_at_ns: thread_cpu_ns(),
        }
    }

    /// Called between short steps: pauses when due.
    pub(super) fn step(&mut self) {
        let now_ns = thread_cpu_ns();
        if let Some(pause) = pause_after(now_ns.saturating_sub(self.paused_at_ns)) {
            sleep(pause);
            self.paused_at_ns = now_ns;
        }
    }
}

/// The pause after this much CPU time that keeps the share.
fn pause_after(taken_ns: u64) -> Option<Duration> {
    let pause_ns = taken_ns.saturating_mul(SHARE - 1);
    (taken_ns >= AT_ONCE_NS).then(|| Duration::from_nanos(pause_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_makes_what_was_taken_a_twentieth_and_what_is_little_is_saved_up() {
        assert_eq!(pause_after(AT_ONCE_NS - 1), None);
        for taken_ns in [AT_ONCE_NS, 80_000_000] {
            let pause_ns = pause_after(taken_ns).unwrap().as_nanos() as u64;
            assert_eq!((taken_ns + pause_ns) / taken_ns, SHARE);
        }
    }

    #[test]
    fn work_without_end_is_paused() {
        let mut pace = Pace::new();
        let before_ns = pace.paused_at_ns;
        while pace.paused_at_ns == before_ns {
            pace.step();
        }
        assert!(pace.paused_at_ns - before_ns >= AT_ONCE_NS);
    }
}
