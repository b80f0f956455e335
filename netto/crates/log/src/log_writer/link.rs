//! What the log's thread and the actor that must not wait share: the queue, and
//! what each of them has to tell the other.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::log_queue::{Entry, Missing, Queue};

/// Until a write that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// What the actor and the thread share.
#[derive(Default)]
pub struct Link {
    state: Mutex<State>,
    changed: Condvar,
}

/// The shared state, under the lock.
#[derive(Default)]
pub(super) struct State {
    pub(super) queue: Queue,
    /// A message that is no snapshot, the newest only.
    other: Option<Vec<u8>>,
    reopen: bool,
    pub(super) ending: Option<String>,
    /// When the write that is under way began.
    busy_since: Option<Instant>,
    pub(super) ended: bool,
}

/// What the thread is to do next.
pub(super) enum Task {
    Write(Entry),
    /// A message that is no snapshot.
    WriteOther(Vec<u8>),
    /// What waits to be written has waited long enough.
    Close,
    Reopen,
    End(String),
}

impl Link {
    /// Locks the shared state.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // No thread panics while it holds the lock.
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Changes it, and wakes whoever waits for a change.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let value = change(&mut self.state());
        self.changed.notify_all();
        value
    }

    /// Hands a snapshot to the thread; gives how many older ones had to go for it.
    pub fn push(&self, entry: Entry) -> u64 {
        self.change(|state| state.queue.push(entry, Instant::now()))
    }

    /// A snapshot will never be written.
    pub fn skip(&self, missing: Missing) {
        self.change(|state| state.queue.skip(missing));
    }

    /// Hands a message to the thread that is no snapshot; one that still waits there goes.
    pub fn push_other(&self, message: Vec<u8>) {
        self.change(|state| state.other = Some(message));
    }

    /// Has the path looked at now.
    pub fn reopen(&self) {
        self.change(|state| state.reopen = true);
    }

    /// How long the write that is under way has been so, and how many snapshots wait behind it.
    pub fn busy_for(&self) -> Option<(Duration, usize)> {
        let state = self.state();
        Some((state.busy_since?.elapsed(), state.queue.len()))
    }

    /// Has everything written and the log ended; waits for it, but no longer than this.
    pub fn end(&self, reason: String, limit: Duration) {
        self.change(|state| state.ending = Some(reason));
        let state = self.state();
        let _ = self
            .changed
            .wait_timeout_while(state, limit, |state| !state.ended);
    }

    /// Waits until there is something to do, or until this moment.
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
                // Asked for again by `is_ending`.
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

    /// Waits until it is time for another try, or there is a reason for one; `true` at the end.
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

    /// Does what may take a while, which [`Link::busy_for`] tells meanwhile.
    pub(super) fn busy<T>(&self, work: impl FnOnce() -> T) -> T {
        self.state().busy_since = Some(Instant::now());
        let value = work();
        self.state().busy_since = None;
        value
    }
}
