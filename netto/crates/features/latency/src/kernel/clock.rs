//! Keeps the programs informed of the offset of CLOCK_REALTIME, the clock of packets' timestamps,
//! from CLOCK_MONOTONIC, which they read. The offset changes only when the clock is set, at a leap
//! second, and after the host was suspended; the kernel then wakes a waiting thread. Between the
//! step and that moment (well below a millisecond on a host that is not overloaded), a packet's
//! latency may be wrong by the step. Leap seconds are announced, so nothing is counted around them.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use std::os::fd::AsFd;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{ClockId as Clock, clock_gettime};

use crate::abi;
use crate::analysis::clock::{Bracket, is_step, offset_ns};
use netto_sys::mapped::MappedArray;

/// Readings of both clocks for one comparison.
const READINGS: usize = 8;
/// Seconds of a day of UTC; leap seconds are at its end.
const DAY_S: i64 = 86_400;
/// How long before the end of a day it is checked for a leap second, seconds.
const EARLY_S: i64 = 1;
/// Time without counting at a leap second: the second before the end of the day, the leap second,
/// and the time until the offset is updated.
const UNKNOWN: Duration = Duration::from_millis(2_500);
/// Interval of checks for the end of the follower meanwhile.
const LOOK: Duration = Duration::from_millis(50);

/// Follows the clock until dropped.
#[derive(Debug)]
pub struct Follower {
    timer: Arc<TimerFd>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// Writes the offset now, and whenever it changes.
    ///
    /// # Errors
    /// If no timer or thread can be created.
    pub fn start(clock: impl AsFd) -> anyhow::Result<Follower> {
        let record = MappedArray::new(clock, abi::LATENCY_CLOCK_BYTES, 1)?;
        let timer = TimerFd::new(ClockId::CLOCK_REALTIME, TimerFlags::TFD_CLOEXEC)
            .context("cannot watch CLOCK_REALTIME for steps")?;
        let timer = Arc::new(timer);
        wait_for_steps(&timer).context("cannot watch CLOCK_REALTIME for steps")?;
        tell(&record);
        let ends = Arc::new(AtomicBool::new(false));
        let (own_timer, own_ends) = (Arc::clone(&timer), Arc::clone(&ends));
        let follow = move || {
            while !own_ends.load(SeqCst) {
                // An error signals a step; otherwise it is the end of a day.
                let _ = own_timer.wait();
                if will_leap() {
                    forget(&record);
                    let begun = Instant::now();
                    while begun.elapsed() < UNKNOWN && !own_ends.load(SeqCst) {
                        std::thread::sleep(LOOK);
                    }
                }
                let is_set = wait_for_steps(&own_timer);
                tell(&record);
                if let Err(error) = is_set {
                    tracing::warn!("steps of CLOCK_REALTIME are no longer detected: {error}");
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
        // Otherwise the thread waits until the process ends, which does no harm.
        let woken = self.timer.set(soon, TimerSetTimeFlags::empty());
        if let (Ok(()), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// Waits until the clock is set, or a day is about to end.
fn wait_for_steps(timer: &TimerFd) -> nix::Result<()> {
    let now_s = clock_gettime(Clock::CLOCK_REALTIME)?.tv_sec();
    // At least a second from now, or the same end of the day would be handled repeatedly.
    let end_s = ((now_s + EARLY_S + 1) / DAY_S + 1) * DAY_S;
    let early = Expiration::OneShot(TimeSpec::new(end_s - EARLY_S, 0));
    let flags = TimerSetTimeFlags::TFD_TIMER_ABSTIME | TimerSetTimeFlags::TFD_TIMER_CANCEL_ON_SET;
    match timer.set(early, flags) {
        // The clock was set in between: the timer runs, and the offset is read afterwards.
        Err(nix::errno::Errno::ECANCELED) => Ok(()),
        other => other,
    }
}

/// Whether there is a leap second at the end of this day, which is near.
fn will_leap() -> bool {
    let now_s = clock_gettime(Clock::CLOCK_REALTIME).map_or(0, |now| now.tv_sec());
    if DAY_S - now_s.rem_euclid(DAY_S) > EARLY_S {
        return false;
    }
    // SAFETY: `timex` is plain numbers, and all zeros is a valid value, which changes nothing.
    let mut state: libc::timex = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: the kernel only writes the structure, which is on this stack.
    let result = unsafe { libc::adjtimex(&raw mut state) };
    result >= 0 && state.status & (libc::STA_INS | libc::STA_DEL) != 0
}

/// Makes the programs count nothing until the offset is written again.
fn forget(record: &MappedArray) {
    if let Some(word) = record.element(0).get(abi::LATENCY_CLOCK_OFFSET_NS) {
        word.store(0, Relaxed);
    }
}

/// Writes the offset if it has changed.
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
