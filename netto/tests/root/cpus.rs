//! CPUs of this host: which there are, who runs where, and what is left over of their time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Steps between two looks at whether to end: a fraction of a microsecond.
const BATCH: u64 = 256;

/// How many CPUs there are.
pub fn count() -> Result<usize> {
    Ok(std::thread::available_parallelism()?.get())
}

/// Keeps this thread, and what it starts, on one CPU.
pub fn pin_to(cpu: usize) -> Result<()> {
    let mut one = CpuSet::new();
    one.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &one).with_context(|| format!("no CPU {cpu} to stay on"))
}

/// A counter on a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

/// A thread on each CPU that takes what nobody else wants (`SCHED_IDLE`), and counts how far it
/// gets: what it does not get any more, somebody else has taken.
pub struct LeftOver {
    counters: Arc<Vec<Counter>>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl LeftOver {
    /// Starts the threads.
    pub fn begin() -> Result<Self> {
        let cpus = count()?;
        let counters: Arc<Vec<Counter>> = Arc::new((0..cpus).map(|_| Counter::default()).collect());
        let is_over = Arc::new(AtomicBool::new(false));
        let threads = (0..cpus)
            .map(|cpu| {
                let (counters, is_over) = (Arc::clone(&counters), Arc::clone(&is_over));
                std::thread::spawn(move || take(cpu, &counters[cpu].0, &is_over))
            })
            .collect();
        Ok(LeftOver {
            counters,
            is_over,
            threads,
        })
    }

    /// Steps so far, by CPU.
    pub fn steps(&self) -> Vec<u64> {
        let read = |counter: &Counter| counter.0.load(Ordering::Relaxed);
        self.counters.iter().map(read).collect()
    }
}

impl Drop for LeftOver {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that could not begin has said so by counting nothing.
            let _ = thread.join();
        }
    }
}

fn take(cpu: usize, steps: &AtomicU64, is_over: &AtomicBool) -> Result<()> {
    pin_to(cpu)?;
    let nothing = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads one structure, which lives; 0 means this thread.
    Errno::result(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const nothing) })?;
    let mut count = 0;
    while !is_over.load(Ordering::Relaxed) {
        for step in 0..BATCH {
            std::hint::black_box(step);
        }
        count += BATCH;
        steps.store(count, Ordering::Relaxed);
    }
    Ok(())
}
