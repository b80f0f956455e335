//! What the actor that must not wait and the thread that pushes share: exports that wait, in
//! bounded memory, and the end.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Compressed exports that may wait: an hour of one every ten seconds.
const MOST_EXPORTS: usize = 360;
/// The same in bytes.
const MOST_BYTES: usize = 16 << 20;

/// One compressed request.
#[derive(Debug, Clone)]
pub(super) struct Export {
    /// Its place among all exports.
    pub(super) number: u64,
    /// As it goes over the wire.
    pub(super) bytes: Arc<[u8]>,
}

/// Exports that wait, oldest first.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Export>,
    bytes: usize,
    next: u64,
}

impl Queue {
    /// Adds an export; gives how many older ones had to go for it.
    fn push(&mut self, bytes: Arc<[u8]>) -> u64 {
        self.bytes += bytes.len();
        let number = self.next;
        self.next += 1;
        self.waiting.push_back(Export { number, bytes });
        let mut dropped = 0;
        // The newest stays in any case.
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
    /// Until when what waits may still be pushed.
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

    /// Hands an export to the thread; gives how many older ones had to go for it.
    pub(super) fn push(&self, bytes: Arc<[u8]>) -> u64 {
        let dropped = self.state().queue.push(bytes);
        self.changed.notify_all();
        dropped
    }

    /// The oldest export, which stays until it is [`ExportChannel::done`]; `None` at the end.
    pub(super) fn next(&self) -> Option<Export> {
        let is_idle = |state: &mut State| state.queue.waiting.is_empty() && state.ending.is_none();
        let state = self
            .changed
            .wait_while(self.state(), is_idle)
            .unwrap_or_else(PoisonError::into_inner);
        state.queue.waiting.front().cloned()
    }

    /// An export needs no further try. It may have had to go already.
    pub(super) fn done(&self, export: &Export) {
        let queue = &mut self.state().queue;
        if queue.waiting.front().map(|first| first.number) == Some(export.number) {
            queue.pop();
        }
    }

    /// Waits before another try; sooner over at the end.
    pub(super) fn pause(&self, time: Duration) {
        let _ = self
            .changed
            .wait_timeout_while(self.state(), time, |state| state.ending.is_none());
    }

    /// Until when there may be tries, if that is bounded: netto ends.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.state().ending
    }

    /// How many exports wait.
    pub(super) fn waiting(&self) -> usize {
        self.state().queue.waiting.len()
    }

    /// Has what waits pushed, for so long at most, and waits for it.
    pub(super) fn end(&self, limit: Duration) {
        self.state().ending = Some(Instant::now() + limit);
        self.changed.notify_all();
        let _ = self
            .changed
            .wait_timeout_while(self.state(), limit, |state| !state.ended);
    }

    /// The thread has ended.
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
