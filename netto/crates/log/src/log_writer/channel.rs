//! The state shared by the log's thread and the actor that must not wait: the queue, and messages
//! in both directions.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::log_queue::{Missing, Queue, QueuedSnapshot};

/// Time before a failed write is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// State shared by the actor and the thread.
#[derive(Default)]
pub struct WriterChannel {
    state: Mutex<State>,
    changed: Condvar,
}

/// The shared state, under the lock.
#[derive(Default)]
pub(super) struct State {
    pub(super) queue: Queue,
    /// A message other than a snapshot, the newest only.
    other: Option<Vec<u8>>,
    reopen: bool,
    pub(super) ending: Option<String>,
    /// Start of the write in progress.
    busy_since: Option<Instant>,
    pub(super) ended: bool,
}

/// The thread's next task.
pub(super) enum Task {
    Write(QueuedSnapshot),
    /// A message other than a snapshot.
    WriteOther(Vec<u8>),
    /// The pending block is due.
    Close,
    Reopen,
    End(String),
}

impl WriterChannel {
    /// Locks the shared state.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // No thread panics while it holds the lock.
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Changes the state, and wakes the threads that wait for a change.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let value = change(&mut self.state());
        self.changed.notify_all();
        value
    }

    /// Queues a snapshot for the thread; returns the number of older ones dropped for it.
    pub fn push(&self, entry: QueuedSnapshot) -> u64 {
        self.change(|state| state.queue.push(entry, Instant::now()))
    }

    /// Records a snapshot that will never be written.
    pub fn skip(&self, missing: Missing) {
        self.change(|state| state.queue.skip(missing));
    }

    /// Queues a message other than a snapshot; replaces one that is still queued.
    pub fn push_other(&self, message: Vec<u8>) {
        self.change(|state| state.other = Some(message));
    }

    /// Requests a check of the path now.
    pub fn reopen(&self) {
        self.change(|state| state.reopen = true);
    }

    /// Duration of the write in progress.
    pub fn busy_for(&self) -> Option<Duration> {
        Some(self.state().busy_since?.elapsed())
    }

    /// Number of queued snapshots.
    pub fn queued(&self) -> usize {
        self.state().queue.len()
    }

    /// Requests that everything be written and the log ended; waits for it up to `limit`.
    pub fn end(&self, reason: String, limit: Duration) {
        self.change(|state| state.ending = Some(reason));
        let state = self.state();
        let _ = self
            .changed
            .wait_timeout_while(state, limit, |state| !state.ended);
    }

    /// Waits until there is a task, or until the deadline.
    pub(super) fn next(&self, deadline: Option<Instant>) -> Task {
        let mut state = self.state();
        loop {
            if std::mem::take(&mut state.reopen) {
                return Task::Reopen;
            }
            if let Some(message) = state.other.take() {
                return Task::WriteOther(message);
            }
            if let Some(entry) = state.queue.pop() {
                return Task::Write(entry);
            }
            if let Some(reason) = state.ending.take() {
                // Checked again by `is_ending`.
                state.ending = Some(reason.clone());
                return Task::End(reason);
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            state = match left {
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(|poisoned| poisoned.into_inner()),
                Some(Duration::ZERO) => return Task::Close,
                Some(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
                }
            };
        }
    }

    /// Waits for the next try, or for a reason to try earlier; `true` at the end.
    pub(super) fn pause(&self) -> bool {
        let state = self.state();
        let (mut state, _) = self
            .changed
            .wait_timeout_while(state, RETRY, |state| {
                !state.reopen && state.ending.is_none()
            })
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        state.reopen = false;
        state.ending.is_some()
    }

    /// Runs work that may take a while; [`WriterChannel::busy_for`] reports it meanwhile.
    pub(super) fn busy<T>(&self, work: impl FnOnce() -> T) -> T {
        self.state().busy_since = Some(Instant::now());
        let value = work();
        self.state().busy_since = None;
        value
    }
}
