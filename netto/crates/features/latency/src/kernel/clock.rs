//! The clock of the day, which packets are stamped by, against the one that never goes back: the
//! programs read the latter, and are told here what the former is ahead. That changes only when
//! somebody sets the clock, at a leap second, and when the host has slept; the kernel wakes who
//! asks to be told. Between the step and that moment, well below a millisecond on a host that is
//! not overloaded, a packet may be counted with a latency that is wrong by the step. A leap second
//! is announced, so that around it nothing is counted.

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

/// So often both clocks are read for one comparison.
const READINGS: usize = 8;
/// Seconds of a day of UTC, at whose end a second is inserted or left out.
const DAY_S: i64 = 86_400;
/// So long before the end of a day it is asked whether one will be, seconds.
const EARLY_S: i64 = 1;
/// From then on the clock is not known for so long, if one is: the second before the end of the
/// day, the one that is inserted, and until everybody has heard of it.
const UNKNOWN: Duration = Duration::from_millis(2_500);
/// How often it is looked meanwhile whether nobody wants to know any more.
const LOOK: Duration = Duration::from_millis(50);

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
                // An error is what a step gives; else it is the end of a day.
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

/// Until the clock is set, or a day is about to end.
fn wait_for_steps(timer: &TimerFd) -> nix::Result<()> {
    let now_s = clock_gettime(Clock::CLOCK_REALTIME)?.tv_sec();
    // A second later than now, or the day that ends would end again and again.
    let end_s = ((now_s + EARLY_S + 1) / DAY_S + 1) * DAY_S;
    let early = Expiration::OneShot(TimeSpec::new(end_s - EARLY_S, 0));
    let flags = TimerSetTimeFlags::TFD_TIMER_ABSTIME | TimerSetTimeFlags::TFD_TIMER_CANCEL_ON_SET;
    match timer.set(early, flags) {
        // The clock was set in between: the timer runs, and the offset is read after this.
        Err(nix::errno::Errno::ECANCELED) => Ok(()),
        other => other,
    }
}

/// Whether a second is to be inserted or left out, and the day is about to end.
fn will_leap() -> bool {
    let now_s = clock_gettime(Clock::CLOCK_REALTIME).map_or(0, |now| now.tv_sec());
    if DAY_S - now_s.rem_euclid(DAY_S) > EARLY_S {
        return false;
    }
    // SAFETY: `timex` is plain numbers, of which all zeros is a valid value: it changes nothing.
    let mut state: libc::timex = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: the kernel writes the structure, which lives on this stack, and nothing else.
    let result = unsafe { libc::adjtimex(&raw mut state) };
    result >= 0 && state.status & (libc::STA_INS | libc::STA_DEL) != 0
}

/// Has the programs count nothing until they are told again.
fn forget(record: &MappedArray) {
    if let Some(word) = record.element(0).get(abi::LATENCY_CLOCK_OFFSET_NS) {
        word.store(0, Relaxed);
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
