//! The thread that sets the pace: every user period it drains the measurement into one snapshot and
//! sends that, in one message, to the collector.
//!
//! It owns the snapshot source, because draining reads memory and files and must not wait for a
//! socket. A plain thread wakes once per period; a runtime's timers would wake it twice. It answers
//! no client's request, and never reads a snapshot's content.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use actix::Addr;
use anyhow::Context;
use metrics_common::history::History;
use metrics_common::{Info, Snapshot};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::metrics_collector::{MetricsCollector, Publish, Rewind};
use super::options::FeatureOptions;
use super::supervisor::{Part, Supervisor, Watch};
use metrics_common::Folded;

/// Snapshots in flight to the collector before one is dropped.
const MAX_ON_THEIR_WAY: usize = 64;

/// A source of snapshots: the measurement, or a fake in tests.
pub trait SnapshotSource: Send + 'static {
    /// One drain: everything since the previous call, as one snapshot.
    ///
    /// # Errors
    /// An error that makes further snapshots impossible; it ends the daemon.
    fn next_snapshot(&mut self) -> anyhow::Result<Snapshot>;

    /// The description of rows from the next snapshot on, if it has changed.
    fn new_info(&mut self) -> Option<Info> {
        None
    }

    /// The news since the previous call: from a measurement always a snapshot, from a recording
    /// possibly nothing, or another position.
    ///
    /// # Errors
    /// As for [`SnapshotSource::next_snapshot`].
    fn next_step(&mut self) -> anyhow::Result<Update> {
        Ok(Update {
            info: self.new_info(),
            past: None,
            snapshot: Some(self.next_snapshot()?),
        })
    }

    /// Restarts features whose options have changed; a source that does not measure has none.
    fn reload(&mut self, _options: FeatureOptions) {}

    /// Access to the stacks while snapshots are being made.
    fn stacks(&self) -> Arc<dyn StackSource>;
}

/// The news of a source.
#[derive(Debug, Default)]
pub struct Update {
    /// The description of rows from this snapshot on, if it has changed.
    pub info: Option<Info>,
    /// A new history, which replaces all that was sent before.
    pub past: Option<History>,
    /// The snapshot that follows it.
    pub snapshot: Option<Snapshot>,
}

/// The stacks of the last half to whole minute. They are read on any thread but the analyzer's,
/// which must never wait for a reader.
pub trait StackSource: Send + Sync + 'static {
    /// The stacks with the names of their functions. May take some hundred milliseconds.
    ///
    /// # Errors
    /// Why there are none, for people.
    fn folded(&self) -> anyhow::Result<Folded>;
}

impl SnapshotSource for Box<dyn SnapshotSource> {
    fn next_snapshot(&mut self) -> anyhow::Result<Snapshot> {
        (**self).next_snapshot()
    }

    fn new_info(&mut self) -> Option<Info> {
        (**self).new_info()
    }

    fn next_step(&mut self) -> anyhow::Result<Update> {
        (**self).next_step()
    }

    fn reload(&mut self, options: FeatureOptions) {
        (**self).reload(options);
    }

    fn stacks(&self) -> Arc<dyn StackSource> {
        (**self).stacks()
    }
}

/// A running analyzer.
pub struct TraceAnalyzer {
    orders: Orders,
    ended: oneshot::Receiver<()>,
}

/// Gives orders to the analyzer.
#[derive(Clone)]
pub struct Orders(Sender<Order>);

enum Order {
    Reload(FeatureOptions),
    Finish,
}

impl TraceAnalyzer {
    /// Starts the analyzer's thread.
    ///
    /// # Errors
    /// If there can be no further thread.
    pub fn launch(
        source: Box<dyn SnapshotSource>,
        info: Arc<Info>,
        period: Duration,
        collector: Addr<MetricsCollector>,
        supervisor: &Supervisor,
    ) -> anyhow::Result<TraceAnalyzer> {
        let analyzer = Analyzer {
            source,
            info,
            period,
            collector,
            places: Arc::new(Semaphore::new(MAX_ON_THEIR_WAY)),
            watch: supervisor.watch(Part::TraceAnalyzer),
        };
        let (orders, ordered) = channel();
        let (end, ended) = oneshot::channel();
        let run = move || {
            // Dropped last, also after a panic: then the source has ended.
            let _end = end;
            analyzer.run(&ordered);
        };
        std::thread::Builder::new()
            .name("analyzer".to_owned())
            .spawn(run)
            .context("cannot start the analyzer's thread")?;
        Ok(TraceAnalyzer {
            orders: Orders(orders),
            ended,
        })
    }

    /// Where to give it orders.
    pub fn orders(&self) -> Orders {
        self.orders.clone()
    }

    /// Ends it; resolves when the source has ended, too.
    pub async fn finish(self) {
        // An analyzer that has ended needs no order.
        let _ = self.orders.0.send(Order::Finish);
        let _ = self.ended.await;
    }
}

impl Orders {
    /// Changes the options of features.
    pub fn reload(&self, options: FeatureOptions) {
        // Without the analyzer the daemon ends.
        let _ = self.0.send(Order::Reload(options));
    }
}

/// The state of the analyzer's thread.
struct Analyzer {
    source: Box<dyn SnapshotSource>,
    info: Arc<Info>,
    period: Duration,
    collector: Addr<MetricsCollector>,
    /// Slots for snapshots in flight to the collector.
    places: Arc<Semaphore>,
    watch: Watch,
}

impl Analyzer {
    fn run(mut self, ordered: &Receiver<Order>) {
        let mut next = Instant::now() + self.period;
        loop {
            match ordered.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(Order::Reload(options)) => self.source.reload(options),
                Ok(Order::Finish) | Err(RecvTimeoutError::Disconnected) => {
                    self.watch.settle();
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {
                    if self.end_period().is_break() {
                        return;
                    }
                    // After a stall one snapshot covers the whole gap; a burst would add nothing.
                    let now = Instant::now();
                    while next <= now {
                        next += self.period;
                    }
                }
            }
        }
    }

    fn end_period(&mut self) -> ControlFlow<()> {
        let step = match self.source.next_step() {
            Ok(step) => step,
            Err(cause) => {
                self.watch.fail(cause);
                return ControlFlow::Break(());
            }
        };
        if let Some(info) = step.info {
            self.info = Arc::new(info);
        }
        if !self.collector.connected() {
            // The collector has reported its own end; this is no second cause.
            self.watch.settle();
            return ControlFlow::Break(());
        }
        if let Some(past) = step.past
            && let Some(place) = self.place()
        {
            self.collector.do_send(Rewind {
                past: Box::new(past),
                info: self.info.clone(),
                place,
            });
        }
        if let Some(snapshot) = step.snapshot
            && let Some(place) = self.place()
        {
            self.collector.do_send(Publish {
                snapshot: Arc::new(snapshot),
                info: self.info.clone(),
                place,
            });
        }
        ControlFlow::Continue(())
    }

    /// A free slot for a snapshot in flight to the collector.
    ///
    /// The mailbox's capacity cannot serve for this: clients send requests there, too, and must not
    /// take a snapshot's slot.
    fn place(&self) -> Option<OwnedSemaphorePermit> {
        let place = self.places.clone().try_acquire_owned().ok();
        if place.is_none() {
            tracing::warn!("snapshot dropped: the daemon's main thread is not keeping up");
        }
        place
    }
}
