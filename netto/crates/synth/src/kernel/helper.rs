//! A thread that calls the kernel while another one makes packets.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::thread::JoinHandle;

use super::socket::{is_full, send_ring};

/// So often it looks for work before it sleeps: a tenth of a millisecond at most.
const LOOKS: u32 = 2_000;

/// What both threads see.
struct Shared {
    fd: Arc<OwnedFd>,
    /// How often it was called, and how many of these calls are over.
    calls: AtomicU64,
    done: AtomicU64,
    is_over: AtomicBool,
    is_asleep: AtomicBool,
    /// The kernel's refusal, or 0.
    error: AtomicI32,
}

/// The thread; it ends with its owner.
pub struct Helper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    /// A thread for the ring of this socket; none on one CPU, or if the system has no more threads.
    pub fn new(fd: Arc<OwnedFd>) -> Option<Self> {
        if std::thread::available_parallelism().map_or(1, usize::from) == 1 {
            return None;
        }
        let shared = Arc::new(Shared {
            fd,
            calls: AtomicU64::new(0),
            done: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            is_asleep: AtomicBool::new(false),
            error: AtomicI32::new(0),
        });
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new().name("netto-send".to_owned());
        let thread = thread.spawn(move || of_thread.work()).ok()?;
        Some(Helper {
            shared,
            thread: Some(thread),
        })
    }

    /// Whether it still sends.
    pub fn is_busy(&self) -> bool {
        self.shared.done.load(Ordering::Acquire) != self.shared.calls.load(Ordering::Relaxed)
    }

    /// Has it send what is in the ring.
    ///
    /// # Errors
    /// The kernel has refused a packet of an earlier call.
    pub fn call(&self) -> io::Result<()> {
        let shared = &self.shared;
        shared.calls.fetch_add(1, Ordering::SeqCst);
        if shared.is_asleep.swap(false, Ordering::SeqCst)
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
        match shared.error.swap(0, Ordering::Relaxed) {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It does not panic; if it did, nobody misses it.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        let mut seen = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let calls = self.wait(seen);
            if calls == seen {
                continue;
            }
            seen = calls;
            if let Err(error) = send_ring(&self.fd)
                && !is_full(&error)
            {
                let code = error.raw_os_error().unwrap_or(libc::EIO);
                self.error.store(code, Ordering::Relaxed);
            }
            self.done.store(seen, Ordering::Release);
        }
    }

    /// The number of calls, when there is another one or it was woken.
    fn wait(&self, seen: u64) -> u64 {
        for _ in 0..LOOKS {
            let calls = self.calls.load(Ordering::SeqCst);
            if calls != seen {
                return calls;
            }
            std::hint::spin_loop();
        }
        self.is_asleep.store(true, Ordering::SeqCst);
        // Whoever calls after this looks at the flag.
        if self.calls.load(Ordering::SeqCst) == seen && !self.is_over.load(Ordering::SeqCst) {
            std::thread::park();
        }
        self.is_asleep.store(false, Ordering::SeqCst);
        self.calls.load(Ordering::SeqCst)
    }
}
