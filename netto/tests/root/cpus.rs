//! CPUs of this host: their number, pinning to them, and their idle time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Steps of a burst: some microseconds, and a tenth of a millisecond where a nanosecond is one
/// instruction.
const BURST: u64 = 1_000;
/// Bursts of which the middle one tells how fast the CPU is at the moment. The time left over is
/// known to the time that all of them take.
const BURSTS: usize = 64;

/// How many CPUs there are.
pub fn count() -> Result<usize> {
    Ok(std::thread::available_parallelism()?.get())
}

/// Pins this thread, and its children, to one CPU.
pub fn pin_to(cpu: usize) -> Result<()> {
    let mut one = CpuSet::new();
    one.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &one).with_context(|| format!("no CPU {cpu} to stay on"))
}

/// Keeps every thread that a process has now on one CPU.
pub fn pin_process(pid: u32, cpu: usize) -> Result<()> {
    let mut one = CpuSet::new();
    one.set(cpu)?;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let name = thread?.file_name();
        let number = name.to_str().and_then(|name| name.parse().ok());
        let number = number.context("a thread without a number")?;
        sched_setaffinity(Pid::from_raw(number), &one)
            .with_context(|| format!("no CPU {cpu} for thread {number}"))?;
    }
    Ok(())
}

/// How often CPUs have gone to sleep so far; none where the kernel has no idle states to tell of.
pub fn halts() -> Result<Option<u64>> {
    let mut sum = None;
    for cpu in 0..count()? {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
        for state in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = state?.path().join("usage");
            let text = std::fs::read_to_string(&path)?;
            let times: u64 = text.trim().parse().context("no number of halts")?;
            *sum.get_or_insert(0) += times;
        }
    }
    Ok(sum)
}

/// Interrupts that CPUs have sent each other so far: to wake (`RES`), and to call a function (`CAL`).
pub fn interrupts_of_cpus() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/interrupts")?;
    let lines = text.lines().filter_map(|line| {
        let (name, counts) = line.split_once(':')?;
        matches!(name.trim(), "RES" | "CAL").then_some(counts)
    });
    let counts = lines.flat_map(str::split_whitespace);
    Ok(counts.filter_map(|count| count.parse::<u64>().ok()).sum())
}

/// Has its CPU before all others that are not urgent, also before those that serve a softirq where
/// these can be preempted.
pub fn be_urgent() -> Result<()> {
    let urgent = libc::sched_param { sched_priority: 60 };
    // SAFETY: the call reads the parameter, which is valid, and keeps nothing of it.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &urgent) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()).context("cannot be urgent"),
    }
}

/// Has less of its CPU than another one that wants it: two fifths as much (`sched_prio_to_weight`).
pub fn be_modest() -> Result<()> {
    const NICE: i32 = 4;
    // SAFETY: the call takes three numbers and touches no memory of ours.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()).context("cannot be modest"),
    }
}

/// A counter on a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

/// A thread on each CPU that takes what nobody else wants (`SCHED_IDLE`), and counts the time
/// that it has for itself: what it does not get any more, somebody else has taken.
///
/// It works in bursts, and each counts as long as the middle one of those around it took: what
/// interrupts a burst is not in it, however the kernel accounts for it. How fast the CPU is,
/// which other machines on the same hardware change all the time, makes no difference.
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

    /// Time left over so far, by CPU, nanoseconds.
    pub fn left_ns(&self) -> Vec<u64> {
        let read = |counter: &Counter| counter.0.load(Ordering::Relaxed);
        self.counters.iter().map(read).collect()
    }
}

impl Drop for LeftOver {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that could not start has reported it by counting nothing.
            let _ = thread.join();
        }
    }
}

fn take(cpu: usize, left_ns: &AtomicU64, is_over: &AtomicBool) -> Result<()> {
    pin_to(cpu)?;
    let nothing = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads one structure, which lives; 0 means this thread.
    Errno::result(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const nothing) })?;
    let mut took_ns = [0_u64; BURSTS];
    let mut all_ns = 0;
    while !is_over.load(Ordering::Relaxed) {
        let mut begun = Instant::now();
        for took_ns in &mut took_ns {
            for step in 0..BURST {
                std::hint::black_box(step);
            }
            let now = Instant::now();
            *took_ns = (now - begun).as_nanos() as u64;
            begun = now;
        }
        let (_, middle_ns, _) = took_ns.select_nth_unstable(BURSTS / 2);
        all_ns += *middle_ns * BURSTS as u64;
        left_ns.store(all_ns, Ordering::Relaxed);
    }
    Ok(())
}
