//! The clock of the day, which packets are stamped by, against the one that never goes back: the
//! programs read the latter, and are told here what the former is ahead. That changes only when
//! somebody sets the clock, at a leap second, and when the host has slept; the kernel wakes who
//! asks to be told. Between the step and that moment, well below a millisecond on a host that is
//! not overloaded, a packet may be counted with a latency that is wrong by the step.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use std::os::fd::AsFd;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{ClockId as Clock, clock_gettime};

use crate::instruments::latency::analysis::clock::{Bracket, is_step, offset_ns};
use crate::kernel::abi;
use crate::kernel::mapped::MappedArray;

/// So often both clocks are read for one comparison.
const READINGS: usize = 8;
/// When the timer would ring if nobody set the clock: seconds since the Unix epoch, in the year
/// 2200. Then it is set again.
const NEVER_S: i64 = 7_258_118_400;

/// Follows the clock as long as it lives.
#[derive(Debug)]
pub struct Follower {
    timer: Arc<TimerFd>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// Tells the programs the offset now, and whenever it changes.
    ///
    /// # Errors
    /// If there is no timer or no thread for it.
    pub fn start(clock: impl AsFd) -> anyhow::Result<Follower> {
        let record = MappedArray::new(clock, abi::LATENCY_CLOCK_BYTES, 1)?;
        let timer = TimerFd::new(ClockId::CLOCK_REALTIME, TimerFlags::TFD_CLOEXEC)
            .context("cannot follow the clock of the day")?;
        let timer = Arc::new(timer);
        wait_for_steps(&timer).context("cannot follow the clock of the day")?;
        tell(&record);
        let ends = Arc::new(AtomicBool::new(false));
        let (own_timer, own_ends) = (Arc::clone(&timer), Arc::clone(&ends));
        let follow = move || {
            while !own_ends.load(SeqCst) {
                // An error is what a step gives.
                let _ = own_timer.wait();
                let is_set = wait_for_steps(&own_timer);
                tell(&record);
                if let Err(error) = is_set {
                    tracing::warn!("steps of the clock are not followed any more: {error}");
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("clock".to_owned());
        let thread = thread.spawn(follow).context("cannot start a thread")?;
        Ok(Follower {
            timer,
            ends,
            thread: Some(thread),
        })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.ends.store(true, SeqCst);
        let soon = Expiration::OneShot(Duration::from_nanos(1).into());
        // Otherwise the thread waits until the process ends, which hurts nobody.
        let woken = self.timer.set(soon, TimerSetTimeFlags::empty());
        if let (Ok(()), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

fn wait_for_steps(timer: &TimerFd) -> nix::Result<()> {
    let never = Expiration::OneShot(TimeSpec::new(NEVER_S, 0));
    let flags = TimerSetTimeFlags::TFD_TIMER_ABSTIME | TimerSetTimeFlags::TFD_TIMER_CANCEL_ON_SET;
    match timer.set(never, flags) {
        // The clock was set in between: the timer runs, and the offset is read after this.
        Err(nix::errno::Errno::ECANCELED) => Ok(()),
        other => other,
    }
}

/// Writes the offset, if it is another one.
fn tell(record: &MappedArray) {
    let Some(word) = record.element(0).get(abi::LATENCY_CLOCK_OFFSET_NS) else {
        return;
    };
    let Some(now) = offset_ns((0..READINGS).filter_map(|_| bracket())) else {
        return;
    };
    if is_step(word.load(Relaxed), now) {
        word.store(now, Relaxed);
    }
}

fn bracket() -> Option<Bracket> {
    let read = |clock| {
        let time = clock_gettime(clock).ok()?;
        let seconds = u64::try_from(time.tv_sec()).ok()?;
        Some(seconds * 1_000_000_000 + time.tv_nsec() as u64)
    };
    Some(Bracket {
        before_ns: read(Clock::CLOCK_MONOTONIC)?,
        of_day_ns: read(Clock::CLOCK_REALTIME)?,
        after_ns: read(Clock::CLOCK_MONOTONIC)?,
    })
}
