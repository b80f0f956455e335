//! Measures the time that one interrupt of the sampler's clock takes from the interrupted program:
//! very little on bare metal, and two exits in a virtual machine.

use std::io;
use std::time::Duration;

use anyhow::Context;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use super::perf::SamplingEvent;
use super::system::monotonic_ns;
use netto_analysis::sampler::Undisturbed;

/// Period of the clock while it is measured.
const PERIOD: Duration = Duration::from_micros(100);
/// CPU time used for the measurement: two hundred interrupts.
const MEASURED: Duration = Duration::from_millis(20);
/// Longest measurement, on a CPU with other load.
const LONGEST: Duration = Duration::from_millis(80);
/// Readings of the time to measure the duration of one.
const QUIET_READINGS: usize = 2000;
/// Most interrupts kept: more than the clock makes.
const MOST_INTERRUPTS: usize = 1024;

/// The cost of an interrupt of the sampler's clock on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerCost {
    /// Time that one takes from the interrupted program, without a BPF program, nanoseconds.
    pub interrupt_ns: u64,
}

/// Keeps this CPU busy for 20 ms by reading the time, while perf's clock interrupts it 10,000 times
/// a second, and evaluates the gaps.
///
/// # Errors
/// Why it cannot be measured: no event, or a CPU with too much other load.
pub fn measure(cpu: u32) -> anyhow::Result<TimerCost> {
    // A separate thread, so that no affinity must be restored.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("netto-timer".to_owned());
        let thread = thread
            .spawn_scoped(scope, || on_this_thread(cpu))
            .context("cannot start a thread")?;
        thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread panicked").into()))
    })
}

fn on_this_thread(cpu: u32) -> anyhow::Result<TimerCost> {
    let mut only = CpuSet::new();
    only.set(cpu as usize).context("no such CPU")?;
    sched_setaffinity(Pid::from_raw(0), &only).context("cannot stay on one CPU")?;
    // Written before use: a page fault would be a gap, too.
    let mut quiet = vec![0; QUIET_READINGS];
    let mut gaps = vec![0; MOST_INTERRUPTS];
    let mut before = monotonic_ns();
    for gap in &mut quiet {
        let now = monotonic_ns();
        *gap = u32::try_from(now - before).unwrap_or(u32::MAX);
        before = now;
    }
    let undisturbed = Undisturbed::new(&mut quiet).context("no time was read")?;
    let event = SamplingEvent::open(cpu, 1).context("cannot open a sampling event")?;
    event
        .count(PERIOD.as_nanos() as u64)
        .context("cannot start a sampling event")?;
    let begin = monotonic_ns();
    let (mut before, mut ran_ns, mut turns) = (begin, 0, 0);
    while ran_ns < MEASURED.as_nanos() as u64 && before - begin < LONGEST.as_nanos() as u64 {
        let now = monotonic_ns();
        let gap_ns = now - before;
        before = now;
        if Undisturbed::is_turn(gap_ns) {
            continue;
        }
        ran_ns += gap_ns;
        if undisturbed.is_interrupt(gap_ns)
            && let Some(gap) = gaps.get_mut(turns)
        {
            *gap = gap_ns as u32;
            turns += 1;
        }
    }
    drop(event);
    let expected = ran_ns / PERIOD.as_nanos() as u64;
    let interrupt_ns = undisturbed
        .interrupt_ns(&mut gaps[..turns], expected)
        .with_context(|| {
            format!("of {expected} interrupts of a clock on CPU {cpu}, {turns} were observed")
        })?;
    Ok(TimerCost { interrupt_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_is_not_there_is_no_place_to_measure() {
        assert!(measure(1 << 20).is_err());
    }
}
