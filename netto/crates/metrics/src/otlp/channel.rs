//! State shared by the actor, which must not block, and the thread that pushes: queued exports, in
//! bounded memory, and the shutdown.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most queued exports: an hour of one every ten seconds.
const MOST_EXPORTS: usize = 360;
/// The same in bytes.
const MOST_BYTES: usize = 16 << 20;

/// One compressed request.
#[derive(Debug, Clone)]
pub(super) struct Export {
    /// Its number among all exports.
    pub(super) number: u64,
    /// The encoded request.
    pub(super) bytes: Arc<[u8]>,
}

/// Queued exports, oldest first.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Export>,
    bytes: usize,
    next: u64,
}

impl Queue {
    /// Adds an export; returns the number of older ones dropped for it.
    fn push(&mut self, bytes: Arc<[u8]>) -> u64 {
        self.bytes += bytes.len();
        let number = self.next;
        self.next += 1;
        self.waiting.push_back(Export { number, bytes });
        let mut dropped = 0;
        // The newest is always kept.
        while self.waiting.len() > 1
            && (self.waiting.len() > MOST_EXPORTS || self.bytes > MOST_BYTES)
        {
            self.pop();
            dropped += 1;
        }
        dropped
    }

    fn pop(&mut self) {
        if let Some(export) = self.waiting.pop_front() {
            self.bytes -= export.bytes.len();
        }
    }
}

#[derive(Debug, Default)]
struct State {
    queue: Queue,
    /// The deadline for pushing queued exports at shutdown.
    ending: Option<Instant>,
    ended: bool,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct ExportChannel {
    state: Mutex<State>,
    changed: Condvar,
}

impl ExportChannel {
    fn state(&self) -> MutexGuard<'_, State> {
        // No thread panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an export for the thread; returns the number of older ones dropped for it.
    pub(super) fn push(&self, bytes: Arc<[u8]>) -> u64 {
        let dropped = self.state().queue.push(bytes);
        self.changed.notify_all();
        dropped
    }

    /// The oldest export, which stays queued until [`ExportChannel::done`]; `None` at the end.
    pub(super) fn next(&self) -> Option<Export> {
        let is_idle = |state: &mut State| state.queue.waiting.is_empty() && state.ending.is_none();
        let state = self
            .changed
            .wait_while(self.state(), is_idle)
            .unwrap_or_else(PoisonError::into_inner);
        state.queue.waiting.front().cloned()
    }

    /// Removes an export that needs no further try, unless it was dropped already.
    pub(super) fn done(&self, export: &Export) {
        let queue = &mut self.state().queue;
        if queue.waiting.front().map(|first| first.number) == Some(export.number) {
            queue.pop();
        }
    }

    /// Waits before another try; returns early at the end.
    pub(super) fn pause(&self, time: Duration) {
        let _ = self
            .changed
            .wait_timeout_while(self.state(), time, |state| state.ending.is_none());
    }

    /// The deadline for further tries, if netto is shutting down.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.state().ending
    }

    /// Number of queued exports.
    pub(super) fn waiting(&self) -> usize {
        self.state().queue.waiting.len()
    }

    /// Requests that queued exports be pushed within `limit`, and waits for it.
    pub(super) fn end(&self, limit: Duration) {
        self.state().ending = Some(Instant::now() + limit);
        self.changed.notify_all();
        let _ = self
            .changed
            .wait_timeout_while(self.state(), limit, |state| !state.ended);
    }

    /// Records that the thread has ended.
    pub(super) fn ended(&self) {
        self.state().ended = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(bytes: usize) -> Arc<[u8]> {
        vec![0; bytes].into()
    }

    #[test]
    fn the_oldest_goes_when_there_are_too_many_or_too_large_ones() {
        let mut queue = Queue::default();
        for _ in 0..MOST_EXPORTS {
            assert_eq!(queue.push(export(1)), 0);
        }
        assert_eq!(queue.push(export(1)), 1);
        assert_eq!(queue.waiting.front().unwrap().number, 1);
        assert_eq!(queue.push(export(MOST_BYTES)), MOST_EXPORTS as u64);
        assert_eq!((queue.waiting.len(), queue.bytes), (1, MOST_BYTES));
    }

    #[test]
    fn what_had_to_go_during_a_try_takes_no_other_with_it() {
        let channel = ExportChannel::default();
        channel.push(export(1));
        let tried = channel.next().unwrap();
        channel.push(export(MOST_BYTES));
        channel.done(&tried);
        assert_eq!(channel.waiting(), 1);
        let second = channel.next().unwrap();
        assert_eq!(second.number, 1);
        channel.done(&second);
        channel.end(Duration::ZERO);
        assert!(channel.next().is_none());
    }
}
