//! The actor that sets the pace: every user period, or every few while nothing changes and nobody reads,
//! it drains the measurement into one snapshot and sends that, in one message, to the collector.
//!
//! It owns the snapshot source and a thread of its own, because draining reads memory and files and
//! must not wait for a socket. It answers no client's request, and never reads a snapshot's
//! content.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use futures_util::{StreamExt, stream};
use metrics_common::history::History;
use metrics_common::{Info, Snapshot};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::attention::{Attention, Stretch};
use super::metrics_collector::{MetricsCollector, Publish, Rewind};
use super::options::FeatureOptions;
use super::profile::OpenProfile;
use super::supervisor::{Part, Supervisor, Watch};
use super::wakeups::wakeups;
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

    /// How many periods the coming interval has, whatever happens until then; `None` if the source must be
    /// asked after each. `is_read`: whether somebody takes each interval.
    fn settled_periods(&mut self, _is_read: bool) -> Option<u32> {
        None
    }

    /// How many periods the interval under way has, by what has happened since the last step. `is_read`:
    /// whether somebody takes each interval, or waits for this one.
    fn periods(&mut self, _is_read: bool) -> u32 {
        1
    }

    /// A descriptor that becomes readable when the interval under way may have to end.
    fn alarm(&self) -> Option<OwnedFd> {
        None
    }

    /// Takes what made it readable; whether the interval is to end now.
    fn take_alarm(&mut self) -> bool {
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

    fn settled_periods(&mut self, is_read: bool) -> Option<u32> {
        (**self).settled_periods(is_read)
    }

    fn periods(&mut self, is_read: bool) -> u32 {
        (**self).periods(is_read)
    }

    fn alarm(&self) -> Option<OwnedFd> {
        (**self).alarm()
    }

    fn take_alarm(&mut self) -> bool {
        (**self).take_alarm()
    }

    fn reload(&mut self, options: FeatureOptions) {
        (**self).reload(options);
    }

    fn stacks(&self) -> Arc<dyn StackSource> {
        (**self).stacks()
    }
}

/// The actor; see the head of this file.
pub struct TraceAnalyzer {
    source: Box<dyn SnapshotSource>,
    info: Arc<Info>,
    period: Duration,
    collector: Addr<MetricsCollector>,
    attention: Attention,
    stretch: Stretch,
    pause: Option<Pause>,
    /// Slots for snapshots in flight to the collector.
    places: Arc<Semaphore>,
    watch: Watch,
}

impl TraceAnalyzer {
    /// Starts the analyzer on a thread of its own.
    pub fn launch(
        source: Box<dyn SnapshotSource>,
        info: Arc<Info>,
        period: Duration,
        collector: Addr<MetricsCollector>,
        attention: Attention,
        supervisor: &Supervisor,
    ) -> (Arbiter, Addr<TraceAnalyzer>) {
        let arbiter = Arbiter::new();
        let analyzer = TraceAnalyzer {
            source,
            info,
            period,
            collector,
            attention,
            stretch: Stretch::of(period),
            pause: None,
            places: Arc::new(Semaphore::new(MAX_ON_THEIR_WAY)),
            watch: supervisor.watch(Part::TraceAnalyzer),
        };
        let address = Self::start_in_arbiter(&arbiter.handle(), move |_| analyzer);
        (arbiter, address)
    }
}

/// The time until the analyzer looks whether an interval ends.
struct Pause {
    /// When it ends: a whole number of periods after the last one.
    until: Instant,
    periods: u32,
    timer: SpawnHandle,
}

/// Somebody begins to read intervals.
struct Read;

/// The interval under way may have to end.
struct Alarm;

impl Actor for TraceAnalyzer {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let readers = stream::unfold(self.attention.clone(), |attention| async {
            attention.begun().await;
            Some((Read, attention))
        });
        ctx.add_stream(readers);
        match self.source.alarm().map(wakeups).transpose() {
            Ok(alarms) => {
                let alarms = stream::iter(alarms).flatten();
                ctx.add_stream(alarms.map(|()| Alarm));
            }
            Err(error) => tracing::warn!("the begin of a load costs more: {error}"),
        }
        self.pause_until(Instant::now() + self.period, 1, ctx);
    }
}

impl StreamHandler<Read> for TraceAnalyzer {
    fn handle(&mut self, _: Read, ctx: &mut Self::Context) {
        let Some(pause) = &self.pause else {
            return;
        };
        // The period under way is the last of the pause.
        let left = pause.until.saturating_duration_since(Instant::now());
        let later = (left.as_nanos() / self.period.as_nanos().max(1)) as u32;
        let later = later.min(pause.periods.saturating_sub(1));
        if later > 0 {
            let periods = pause.periods - later;
            let until = pause.until - later * self.period;
            ctx.cancel_future(pause.timer);
            self.pause_until(until, periods, ctx);
        }
    }
}

impl StreamHandler<Alarm> for TraceAnalyzer {
    fn handle(&mut self, _: Alarm, ctx: &mut Self::Context) {
        // The pause goes on: the next interval ends with the period that is under way, and is shorter.
        if self.source.take_alarm() {
            self.stretch = Stretch::of(self.period);
            self.end_interval(ctx);
        }
    }

    /// Without alarms, the analyzer goes on.
    fn finished(&mut self, _: &mut Self::Context) {}
}

impl TraceAnalyzer {
    fn pause_until(&mut self, until: Instant, periods: u32, ctx: &mut Context<Self>) {
        let left = until.saturating_duration_since(Instant::now());
        let timer = ctx.run_later(left, |analyzer, ctx| {
            if let Some(pause) = analyzer.pause.take() {
                analyzer.end_periods(pause, ctx);
            }
        });
        self.pause = Some(Pause {
            until,
            periods,
            timer,
        });
    }

    /// After a pause: ends the interval or goes on with it, and pauses again.
    fn end_periods(&mut self, pause: Pause, ctx: &mut Context<Self>) {
        let is_read = self.attention.take();
        let goes_on = self
            .stretch
            .goes_on(pause.periods, || self.source.periods(is_read));
        if !goes_on && !self.end_interval(ctx) {
            return;
        }
        let is_followed = self.attention.is_followed();
        let settled_periods = self.source.settled_periods(is_followed);
        let periods = self.stretch.pause(settled_periods);
        let mut until = pause.until + periods * self.period;
        let now = Instant::now();
        if until <= now {
            // After a stall one snapshot covers the whole gap; a burst would add nothing.
            let late = (now - until).as_nanos() / self.period.as_nanos().max(1);
            until += (late as u32 + 1) * self.period;
        }
        self.pause_until(until, periods, ctx);
    }

    /// Makes the snapshot of an interval and sends it on. `false` if there is nothing more to do.
    fn end_interval(&mut self, ctx: &mut Context<Self>) -> bool {
        let step = match self.source.next_step() {
            Ok(step) => step,
            Err(cause) => {
                self.watch.fail(cause);
                ctx.stop();
                return false;
            }
        };
        if let Some(info) = step.info {
            self.info = Arc::new(info);
        }
        if !self.collector.connected() {
            // The collector has reported its own end; this is no second cause.
            self.watch.settle();
            ctx.stop();
            return false;
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
        true
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

/// Changes the options of features.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Reload(pub FeatureOptions);

impl Handler<Reload> for TraceAnalyzer {
    type Result = ();

    fn handle(&mut self, reload: Reload, _: &mut Self::Context) {
        self.source.reload(reload.0);
    }
}

/// Asks the analyzer to end; after the answer, no further snapshot is made.
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
