//! Reports failures of the daemon's parts.
//!
//! Every actor holds a [`Watch`]. A part that fails reports its cause; a part that panics, or
//! disappears in any other way, is reported when its watch is dropped. The first report ends the
//! process, and it is the one the user sees. This file owns the channel and the wording; it never
//! restarts anything.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

use tokio::sync::mpsc;

/// A part of the daemon that can fail on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Drains the measurement and analyses it.
    TraceAnalyzer,
    /// Keeps the latest snapshot and distributes it.
    MetricsCollector,
    /// Writes the log file.
    FileLogger,
    /// Keeps the running totals for Prometheus.
    PrometheusLogger,
    /// Keeps the running totals for OTLP, and pushes them.
    OtlpLogger,
    /// Serves one WebSocket.
    WebSocketClient,
    /// Accepts connections and answers requests.
    HttpServer,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::TraceAnalyzer => "the trace analyzer",
            Part::MetricsCollector => "the metrics collector",
            Part::FileLogger => "the file logger",
            Part::PrometheusLogger => "the Prometheus logger",
            Part::OtlpLogger => "the OTLP logger",
            Part::WebSocketClient => "a WebSocket client",
            Part::HttpServer => "the HTTP server",
        })
    }
}

/// Why a part cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It met an error that it cannot handle.
    #[error("{part} failed: {cause:#}")]
    Failed {
        /// The part.
        part: Part,
        /// The cause, with its whole chain.
        cause: anyhow::Error,
    },
    /// It panicked, which is a mistake in netto.
    #[error("{part} panicked: {message} (this is a bug in netto)")]
    Panicked {
        /// The part.
        part: Part,
        /// The panic's message and location.
        message: String,
    },
    /// It ended without being asked to.
    #[error("{part} ended unexpectedly (this is a bug in netto)")]
    Ended {
        /// The part.
        part: Part,
    },
}

/// Creates watches; cheap to clone.
#[derive(Debug, Clone)]
pub struct Supervisor {
    failures: mpsc::UnboundedSender<Failure>,
    ending: Arc<AtomicBool>,
}

/// The receiving end of every [`Watch`].
#[derive(Debug)]
pub struct Failures {
    receiver: mpsc::UnboundedReceiver<Failure>,
    /// Keeps the channel open while no part holds a watch.
    _sender: mpsc::UnboundedSender<Failure>,
}

impl Supervisor {
    /// A supervisor and the receiver of its failures.
    pub fn new() -> (Supervisor, Failures) {
        record_panics();
        let (failures, receiver) = mpsc::unbounded_channel();
        let _sender = failures.clone();
        let supervisor = Supervisor {
            failures,
            ending: Arc::default(),
        };
        (supervisor, Failures { receiver, _sender })
    }

    /// A watch over one part.
    pub fn watch(&self, part: Part) -> Watch {
        Watch {
            part,
            supervisor: self.clone(),
            settled: false,
        }
    }

    /// The whole daemon ends: from now on parts may end unreported.
    pub fn begin_end(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }
}

impl Failures {
    /// Waits for the first failure, forever if there is none.
    pub async fn first(&mut self) -> Failure {
        match self.receiver.recv().await {
            Some(failure) => failure,
            None => std::future::pending().await,
        }
    }

    /// A failure that has already been reported.
    pub fn try_first(&mut self) -> Option<Failure> {
        self.receiver.try_recv().ok()
    }
}

/// Held by a part while it lives; dropping it unsettled is a failure.
#[derive(Debug)]
pub struct Watch {
    part: Part,
    supervisor: Supervisor,
    settled: bool,
}

impl Watch {
    /// Reports that the part cannot continue, with the cause.
    pub fn fail(&mut self, cause: anyhow::Error) {
        let part = self.part;
        self.report(Failure::Failed { part, cause });
    }

    /// Marks the part as finished.
    pub fn settle(&mut self) {
        self.settled = true;
    }

    fn report(&mut self, failure: Failure) {
        if !self.settled {
            self.settled = true;
            // Without a receiver the process is already ending.
            let _ = self.supervisor.failures.send(failure);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let part = self.part;
        // What panics is dropped while the stack unwinds; a panic that was caught before is another's.
        // The thread-local may already be destroyed when the thread itself ends.
        let panic = std::thread::panicking().then(|| LAST_PANIC.try_with(RefCell::take));
        match panic.and_then(Result::ok).flatten() {
            Some(message) => self.report(Failure::Panicked { part, message }),
            None if self.supervisor.ending.load(Ordering::Relaxed) => {}
            None => self.report(Failure::Ended { part }),
        }
    }
}

thread_local! {
    /// Message of the last panic on this thread.
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn record_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let payload = panic.payload();
            let text = payload
                .downcast_ref::<&str>()
                .copied()
                .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
                .unwrap_or("no message");
            let place = panic
                .location()
                .map(|place| format!(" at {place}"))
                .unwrap_or_default();
            // A panic during the destruction of thread-locals has no receiver left.
            let _ = LAST_PANIC.try_with(|last| {
                if let Ok(mut last) = last.try_borrow_mut() {
                    *last = Some(format!("{text}{place}"));
                }
            });
            previous(panic);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_comes_first_with_its_chain() {
        let (supervisor, mut failures) = Supervisor::new();
        let mut file = supervisor.watch(Part::FileLogger);
        let mut http = supervisor.watch(Part::HttpServer);
        file.fail(anyhow::anyhow!("no space left").context("cannot write /x.log"));
        http.fail(anyhow::anyhow!("second"));
        let first = failures.try_first().expect("a failure was reported");
        assert_eq!(
            first.to_string(),
            "the file logger failed: cannot write /x.log: no space left"
        );
    }

    #[test]
    fn a_settled_part_may_go() {
        let (supervisor, mut failures) = Supervisor::new();
        let mut watch = supervisor.watch(Part::FileLogger);
        watch.settle();
        drop(watch);
        assert!(failures.try_first().is_none());
    }

    #[test]
    fn a_part_that_vanishes_is_missed() {
        let (supervisor, mut failures) = Supervisor::new();
        drop(supervisor.watch(Part::PrometheusLogger));
        assert!(matches!(
            failures.try_first(),
            Some(Failure::Ended {
                part: Part::PrometheusLogger
            })
        ));
    }

    #[test]
    fn at_the_end_parts_may_go_without_a_word() {
        let (supervisor, mut failures) = Supervisor::new();
        let watch = supervisor.watch(Part::WebSocketClient);
        supervisor.begin_end();
        drop(watch);
        assert!(failures.try_first().is_none());
    }

    #[test]
    fn a_panic_is_reported_with_its_message() {
        let (supervisor, mut failures) = Supervisor::new();
        let watch = supervisor.watch(Part::TraceAnalyzer);
        let thread = std::thread::spawn(move || {
            let _watch = watch;
            panic!("disk 7 is on fire");
        });
        assert!(thread.join().is_err());
        let failure = failures.try_first().expect("the panic was reported");
        assert!(
            failure.to_string().contains("disk 7 is on fire"),
            "{failure}"
        );
    }

    #[test]
    fn a_part_is_not_blamed_for_a_panic_before_it() {
        let (supervisor, mut failures) = Supervisor::new();
        let watch = supervisor.watch(Part::WebSocketClient);
        let thread = std::thread::spawn(move || {
            let caught = std::panic::catch_unwind(|| panic!("an answer of an hour ago"));
            assert!(caught.is_err());
            drop(watch);
        });
        thread.join().expect("the panic was caught");
        let failure = failures.try_first().expect("the end was reported");
        assert!(matches!(failure, Failure::Ended { .. }), "{failure}");
    }
}
