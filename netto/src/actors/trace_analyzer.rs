//! The actor that sets the pace: every user period it drains the measurement
//! into one snapshot and sends that, in one message, to the collector.
//!
//! It owns the snapshot source and a thread of its own, because draining reads
//! memory and files and must not wait for anybody's socket. It never looks into
//! a snapshot.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use futures_util::stream;
use metrics_common::{Info, Snapshot};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::metrics_collector::{MetricsCollector, Publish};
use super::supervisor::{Part, Supervisor, Watch};
use crate::analysis::flame::Folded;

/// Where snapshots come from: the measurement, or a made-up one in tests.
pub trait SnapshotSource: Send + 'static {
    /// One drain: everything since the previous call, as one snapshot.
    ///
    /// # Errors
    /// Whatever makes further snapshots impossible; the daemon ends with it.
    fn next_snapshot(&mut self) -> anyhow::Result<Snapshot>;

    /// What the rows mean from the next snapshot on, if that has changed.
    fn new_info(&mut self) -> Option<Info> {
        None
    }

    /// The stacks of the last half to whole minute.
    ///
    /// # Errors
    /// Why there are none, for people.
    fn flame_graph(&mut self) -> anyhow::Result<Folded>;
}

impl SnapshotSource for Box<dyn SnapshotSource> {
    fn next_snapshot(&mut self) -> anyhow::Result<Snapshot> {
        (**self).next_snapshot()
    }

    fn new_info(&mut self) -> Option<Info> {
        (**self).new_info()
    }

    fn flame_graph(&mut self) -> anyhow::Result<Folded> {
        (**self).flame_graph()
    }
}

/// The actor; see the head of this file.
pub struct TraceAnalyzer {
    source: Box<dyn SnapshotSource>,
    info: Arc<Info>,
    period: Duration,
    collector: Addr<MetricsCollector>,
    watch: Watch,
}

impl TraceAnalyzer {
    /// Starts the analyzer on a thread of its own.
    pub fn launch(
        source: Box<dyn SnapshotSource>,
        info: Arc<Info>,
        period: Duration,
        collector: Addr<MetricsCollector>,
        supervisor: &Supervisor,
    ) -> (Arbiter, Addr<TraceAnalyzer>) {
        let arbiter = Arbiter::new();
        let analyzer = TraceAnalyzer {
            source,
            info,
            period,
            collector,
            watch: supervisor.watch(Part::TraceAnalyzer),
        };
        let address = Self::start_in_arbiter(&arbiter.handle(), move |_| analyzer);
        (arbiter, address)
    }
}

/// The end of a user period.
struct Tick;

impl Actor for TraceAnalyzer {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let mut interval = interval_at(Instant::now() + self.period, self.period);
        // After a stall one snapshot covers the whole gap; a burst of them would cover nothing.
        interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
        ctx.add_stream(stream::unfold(interval, |mut interval| async move {
            interval.tick().await;
            Some((Tick, interval))
        }));
    }
}

impl StreamHandler<Tick> for TraceAnalyzer {
    fn handle(&mut self, _: Tick, ctx: &mut Self::Context) {
        if let Some(info) = self.source.new_info() {
            self.info = Arc::new(info);
        }
        let snapshot = match self.source.next_snapshot() {
            Ok(snapshot) => snapshot,
            Err(cause) => {
                self.watch.fail(cause);
                ctx.stop();
                return;
            }
        };
        let sequence = snapshot.sequence;
        match self.collector.try_send(Publish {
            snapshot: Arc::new(snapshot),
            info: self.info.clone(),
        }) {
            Ok(()) => {}
            Err(SendError::Full(_)) => {
                tracing::warn!(
                    sequence,
                    "snapshot dropped: the daemon's main thread is not keeping up"
                );
            }
            Err(SendError::Closed(_)) => {
                // The collector has reported its own end; this is not another cause.
                self.watch.settle();
                ctx.stop();
            }
        }
    }
}

/// Asks for the stacks of the last half to whole minute.
#[derive(Message)]
#[rtype(result = "anyhow::Result<Folded>")]
pub struct FlameGraph;

impl Handler<FlameGraph> for TraceAnalyzer {
    type Result = anyhow::Result<Folded>;

    fn handle(&mut self, _: FlameGraph, _: &mut Self::Context) -> Self::Result {
        self.source.flame_graph()
    }
}

/// Asks the analyzer to end; when answered, no further snapshot will be made.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Finish;

impl Handler<Finish> for TraceAnalyzer {
    type Result = ();

    fn handle(&mut self, _: Finish, ctx: &mut Self::Context) {
        self.watch.settle();
        ctx.stop();
    }
}
