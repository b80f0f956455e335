//! A value that one thread changes and others read, without waiting for each other.
//!
//! A reader takes a reference and keeps that version for as long as it likes. If it still holds it
//! at the next change, the change is made to a copy.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Shared<T>(Arc<Mutex<State<T>>>);

#[derive(Debug, Default)]
struct State<T> {
    version: u64,
    value: Arc<T>,
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

impl<T: Clone> Shared<T> {
    /// Shares a value.
    pub fn new(value: T) -> Self {
        Shared(Arc::new(Mutex::new(State {
            version: 0,
            value: Arc::new(value),
        })))
    }

    /// The current value, and a version that differs after each change.
    pub fn get(&self) -> (u64, Arc<T>) {
        let state = self.lock();
        (state.version, state.value.clone())
    }

    /// Changes the value.
    pub fn change(&self, change: impl FnOnce(&mut T)) {
        let mut state = self.lock();
        state.version += 1;
        change(Arc::make_mut(&mut state.value));
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // A panic in a change ends the daemon; readers may still finish.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_keeps_what_it_saw_and_a_change_copies_only_then() {
        let shared = Shared::new(vec![1]);
        let place = |shared: &Shared<Vec<i32>>| Arc::as_ptr(&shared.get().1);
        let first = place(&shared);
        shared.change(|value| value.push(2));
        assert_eq!(place(&shared), first, "nobody looked");
        let (version, seen) = shared.get();
        shared.change(|value| value.push(3));
        assert_eq!(*seen, [1, 2]);
        let (next, now) = shared.get();
        assert_eq!((*now).as_slice(), [1, 2, 3]);
        assert_ne!(version, next);
    }
}
