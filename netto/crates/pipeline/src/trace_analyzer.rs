//! Sets the pace: every user period, or every few on a quiet host that nobody reads, it drains the
//! measurement into one snapshot and sends that, in one message, to the collector.
//!
//! It owns the snapshot source and a thread of its own, because draining reads memory and files and
//! must not wait for a socket. The thread waits for the end of the period itself: a runtime's timer
//! takes two wake-ups for it. It answers no client's request, and never reads a snapshot's content.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use actix::Addr;
use anyhow::Context as _;
use metrics_common::history::History;
use metrics_common::{Info, Snapshot};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::attention::{Attention, Stretch};
use super::metrics_collector::{MetricsCollector, Publish, Rewind};
use super::options::FeatureOptions;
use super::profile::OpenProfile;
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

    /// Whether nothing has happened since the last step that would be missed in a longer interval.
    fn is_quiet(&mut self) -> bool {
        false
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

    /// Begins to record a profile.
    ///
    /// # Errors
    /// Why there is none, for people.
    fn begin_profile(self: Arc<Self>) -> anyhow::Result<Box<dyn OpenProfile>>;
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

    fn is_quiet(&mut self) -> bool {
        (**self).is_quiet()
    }

    fn reload(&mut self, options: FeatureOptions) {
        (**self).reload(options);
    }

    fn stacks(&self) -> Arc<dyn StackSource> {
        (**self).stacks()
    }
}

/// The analyzer's side of what others want of it.
#[derive(Debug, Clone)]
pub struct Orders(Sender<Order>);

#[derive(Debug)]
enum Order {
    Reload(FeatureOptions),
    Finish,
}

impl Orders {
    /// Changes the options of features.
    pub fn reload(&self, options: FeatureOptions) {
        // Its end was reported; this is no second cause.
        let _ = self.0.send(Order::Reload(options));
    }

    /// Asks the analyzer to end; once its thread has ended, no further snapshot is made.
    pub fn finish(&self) {
        let _ = self.0.send(Order::Finish);
    }
}

/// See the head of this file.
pub struct TraceAnalyzer {
    source: Box<dyn SnapshotSource>,
    info: Arc<Info>,
    collector: Addr<MetricsCollector>,
    attention: Attention,
    stretch: Stretch,
    /// Slots for snapshots in flight to the collector.
    places: Arc<Semaphore>,
    watch: Watch,
}

impl TraceAnalyzer {
    /// Starts the analyzer on a thread of its own.
    ///
    /// # Errors
    /// If there can be no further thread.
    pub fn launch(
        source: Box<dyn SnapshotSource>,
        info: Arc<Info>,
        period: Duration,
        collector: Addr<MetricsCollector>,
        attention: Attention,
        supervisor: &Supervisor,
    ) -> anyhow::Result<(JoinHandle<()>, Orders)> {
        let mut analyzer = TraceAnalyzer {
            source,
            info,
            collector,
            attention,
            stretch: Stretch::of(period),
            places: Arc::new(Semaphore::new(MAX_ON_THEIR_WAY)),
            watch: supervisor.watch(Part::TraceAnalyzer),
        };
        let (orders, incoming) = channel();
        let thread = std::thread::Builder::new()
            .name("analyzer".to_owned())
            .spawn(move || analyzer.run(period, &incoming))
            .context("cannot start the analyzer's thread")?;
        Ok((thread, Orders(orders)))
    }

    fn run(&mut self, period: Duration, orders: &Receiver<Order>) {
        let mut due = Instant::now() + period;
        loop {
            let left = due.saturating_duration_since(Instant::now());
            match orders.recv_timeout(left) {
                Ok(Order::Reload(options)) => self.source.reload(options),
                Ok(Order::Finish) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(cause) = self.end_period() {
                        self.watch.fail(cause);
                        return;
                    }
                    if !self.collector.connected() {
                        // The collector has reported its own end; this is no second cause.
                        break;
                    }
                    due = following(due, period, Instant::now());
                }
            }
        }
        self.watch.settle();
    }

    fn end_period(&mut self) -> anyhow::Result<()> {
        let is_read = self.attention.take();
        if self.stretch.goes_on(is_read, || self.source.is_quiet()) {
            return Ok(());
        }
        let step = self.source.next_step()?;
        if let Some(info) = step.info {
            self.info = Arc::new(info);
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
        Ok(())
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

/// The end of the period under way, one of which ended at `due`. After a stall one snapshot covers
/// the whole gap; a burst would add nothing.
fn following(due: Instant, period: Duration, now: Instant) -> Instant {
    let period = period.max(Duration::from_millis(1));
    let late = now.saturating_duration_since(due).as_nanos() % period.as_nanos();
    let left = period - Duration::from_nanos(late as u64);
    now.max(due) + left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_ends_at_the_same_pace_after_a_stall_and_none_is_made_up_for() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let next = |now: u64| following(at(500), Duration::from_millis(500), at(now));
        assert_eq!([next(500), next(503), next(999)], [at(1_000); 3]);
        assert_eq!([next(1_000), next(1_001)], [at(1_500); 2]);
        assert_eq!(next(61_200), at(61_500));
    }
}
