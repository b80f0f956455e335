//! Reads something of the host again and again, in a thread of its own: what may take long, and may
//! be seconds old.

use std::sync::mpsc::{Receiver, TryRecvError, channel};

use netto_sys::system;

/// Time between two readings is at least so many times what the last one took: a thousandth of a
/// CPU.
const PAUSE: u64 = 1_000;

/// A reader; see the head of this file.
#[derive(Debug)]
pub struct Background<T> {
    name: &'static str,
    every_ns: u64,
    running: Option<Receiver<(T, u64)>>,
    from_ns: u64,
}

impl<T: Send + 'static> Background<T> {
    /// Nothing was read yet. `name` is the thread's; `every_ns` is between two readings.
    pub fn new(name: &'static str, every_ns: u64) -> Self {
        Background {
            name,
            every_ns,
            running: None,
            from_ns: 0,
        }
    }

    /// What was read since the last call, if anything; begins a reading when it is time. Never waits.
    pub fn poll(&mut self, now_ns: u64, read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let Some(running) = &self.running else {
            if now_ns >= self.from_ns {
                self.start(now_ns, read);
            }
            return None;
        };
        let (found, took_ns) = match running.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Ok((found, took_ns)) => (Some(found), took_ns),
            Err(TryRecvError::Disconnected) => (None, 0),
        };
        self.running = None;
        self.from_ns = now_ns + self.every_ns.max(PAUSE * took_ns);
        found
    }

    fn start(&mut self, now_ns: u64, read: impl FnOnce() -> T + Send + 'static) {
        let (done, running) = channel();
        let thread = std::thread::Builder::new().name(self.name.to_owned());
        let started = thread.spawn(move || {
            // If the receiver is gone, the daemon ends.
            let _ = done.send((read(), system::thread_cpu_ns()));
        });
        match started {
            Ok(_) => self.running = Some(running),
            Err(error) => {
                self.from_ns = now_ns + self.every_ns;
                tracing::debug!("cannot start the thread {}: {error}", self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_read_on_another_thread_and_taken_once() {
        let mut reader = Background::new("test", 10);
        let mut now_ns = 0;
        let mut next = |value: u32| loop {
            // Later than any pause.
            now_ns += 1_000_000_000_000;
            let this_thread = std::thread::current().id();
            let read = move || (value, std::thread::current().id() != this_thread);
            if let Some(found) = reader.poll(now_ns, read) {
                break found;
            }
            std::thread::yield_now();
        };
        assert_eq!(next(1), (1, true));
        assert_eq!(next(2), (2, true));
        assert_eq!(reader.poll(now_ns, || (3, true)), None, "it is not due yet");
        assert!(reader.running.is_none());
    }

    #[test]
    fn a_reading_that_panics_is_tried_again() {
        let mut reader = Background::new("test", 0);
        assert_eq!(reader.poll(0, || -> u32 { panic!("on purpose") }), None);
        let found = loop {
            if let Some(found) = reader.poll(1, || 5) {
                break found;
            }
            std::thread::yield_now();
        };
        assert_eq!(found, 5);
    }
}
