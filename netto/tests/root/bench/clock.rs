//! Clocks: CPU time of a process, and the cost of perf's software clock alone.

use std::os::fd::{FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use libbpf_rs::libbpf_sys;
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

use super::{Options, figure};
use crate::child::Owned;

/// CPU time of a process so far, with all threads it ever had, nanoseconds.
pub fn cpu_ns(process: &Owned) -> Result<u64> {
    let clock = clock_getcpuclockid(Pid::from_raw(process.pid() as i32))?;
    Ok(Duration::from(clock.now()?).as_nanos() as u64)
}

/// perf's clock on each CPU, like the sampler's, but without program and reader.
pub struct Bare(Vec<OwnedFd>);

impl Bare {
    /// Begins to interrupt every CPU, until dropped.
    pub fn open(frequency_hz: u64) -> Result<Self> {
        let cpus = crate::cpus::count()?;
        let opened: Result<Vec<OwnedFd>> = (0..cpus).map(|cpu| open(cpu, frequency_hz)).collect();
        opened.map(Bare)
    }
}

fn open(cpu: usize, frequency_hz: u64) -> Result<OwnedFd> {
    const SOFTWARE: u32 = 1;
    const CPU_CLOCK: u64 = 0;
    let mut attributes = libbpf_sys::perf_event_attr {
        type_: SOFTWARE,
        size: size_of::<libbpf_sys::perf_event_attr>() as u32,
        config: CPU_CLOCK,
        ..Default::default()
    };
    attributes.set_freq(1);
    attributes.__bindgen_anon_1.sample_freq = frequency_hz;
    // SAFETY: the kernel reads one structure, which lives and tells its own size.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            -1,
            cpu as i32,
            -1,
            0,
        )
    };
    ensure!(
        descriptor >= 0,
        "no perf clock on CPU {cpu}: {}",
        std::io::Error::last_os_error()
    );
    // SAFETY: the descriptor is new, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

const FREQUENCY_HZ: u64 = 10_000;
const MEASURED: Duration = Duration::from_millis(500);

/// The cost of one interrupt of the bare clock: by how much it slows down a loop.
pub fn timer(options: &Options) -> Result<()> {
    let mut each_ns = Vec::new();
    for _ in 0..options.rounds {
        let without = pace();
        let clock = Bare::open(FREQUENCY_HZ)?;
        let with = [pace(), pace()];
        ensure!(!clock.0.is_empty(), "no CPU");
        drop(clock);
        let without = (without + pace()) / 2.0;
        each_ns.extend(with.map(|with| (1.0 - with / without) * 1e9 / FREQUENCY_HZ as f64));
    }
    figure("bare_timer_ns", &each_ns);
    Ok(())
}

/// Steps a second of a loop that does nothing else.
fn pace() -> f64 {
    const BATCH: u64 = 10_000;
    let (begun, mut steps) = (Instant::now(), 0_u64);
    while begun.elapsed() < MEASURED {
        for step in 0..BATCH {
            std::hint::black_box(step);
        }
        steps += BATCH;
    }
    steps as f64 / begun.elapsed().as_secs_f64()
}

/// Timer interrupts in `/proc/interrupts`, on all CPUs together.
pub fn timer_interrupts() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/interrupts")?;
    let row = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("LOC:"))
        .context("no local timer interrupts in /proc/interrupts")?;
    let counts = row
        .split_whitespace()
        .map_while(|word| word.parse::<u64>().ok());
    Ok(counts.sum())
}
