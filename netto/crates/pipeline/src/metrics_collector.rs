//! The actor between analyzer and sinks: keeps the latest snapshot and the history, and sends every
//! new snapshot to all subscribers, none of which can block it.
//!
//! It owns the list of subscribers and the count of the snapshots they missed, and a thread, on which
//! it encodes each snapshot at most once in each form. It never writes to a socket or a file, and never
//! waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use actix::prelude::*;
use actix_web::web::Bytes;
use metrics_common::codec::{self, CodecError, ServerMessage};
use metrics_common::compact::compact;
use metrics_common::history::History;
use metrics_common::named;
use metrics_common::{Info, Snapshot};
use tokio::sync::OwnedSemaphorePermit;

use super::attention::Attention;
use super::compression;
use super::recent::Recent;
use super::shared::Shared;
use super::supervisor::{Part, Supervisor, Watch};

/// Messages of subscribers that may wait.
const MAILBOX_MESSAGES: usize = 64;

named! {
    /// The kinds of subscribers.
    Sink:
    /// One dashboard.
    WebSocket "websocket";
    /// The log file.
    File "file";
    /// The running totals for Prometheus.
    Prometheus "prometheus";
    /// The running totals that are pushed.
    Otlp "otlp";
}

/// Snapshots that did not reach a subscriber, by kind of sink.
#[derive(Debug, Default)]
pub struct SinkDrops([AtomicU64; Sink::ALL.len()]);

impl SinkDrops {
    /// Counts one missed snapshot.
    pub fn count(&self, sink: Sink) {
        self.0[sink as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Number of missed snapshots.
    pub fn get(&self, sink: Sink) -> u64 {
        self.0[sink as usize].load(Ordering::Relaxed)
    }
}

/// A snapshot on its way to the sinks; encoded at most once, on first use.
#[derive(Debug)]
pub struct Published {
    /// The snapshot itself.
    pub snapshot: Arc<Snapshot>,
    /// What its rows mean. Snapshots share one description until it changes, so
    /// that sinks see by the pointer whether they must send it again.
    pub info: Arc<Info>,
    message: OnceLock<Bytes>,
    compact: OnceLock<Bytes>,
}

impl Published {
    /// Wraps a snapshot.
    pub fn new(snapshot: Arc<Snapshot>, info: Arc<Info>) -> Self {
        Published {
            snapshot,
            info,
            message: OnceLock::new(),
            compact: OnceLock::new(),
        }
    }

    /// The snapshot as a [`ServerMessage`] in MessagePack, as in dashboards' messages and logs.
    ///
    /// # Errors
    /// Only when memory runs out.
    pub fn message(&self) -> Result<Bytes, CodecError> {
        if let Some(bytes) = self.message.get() {
            return Ok(bytes.clone());
        }
        let bytes = codec::encode_snapshot(&self.snapshot)?.into();
        Ok(self.message.get_or_init(|| bytes).clone())
    }

    /// The snapshot's compact form as a message, compressed: a page has the browser unpack it.
    ///
    /// # Errors
    /// Only when memory runs out.
    pub fn compact_message(&self) -> Result<Bytes, CodecError> {
        if let Some(bytes) = self.compact.get() {
            return Ok(bytes.clone());
        }
        let plain = codec::encode_snapshot(&compact(&self.snapshot))?;
        let bytes = compression::gzip(&plain).unwrap_or_else(|_| plain.into());
        Ok(self.compact.get_or_init(|| bytes).clone())
    }
}

/// A new snapshot, from the analyzer to the collector.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Publish {
    /// The snapshot.
    pub snapshot: Arc<Snapshot>,
    /// The description of its rows.
    pub info: Arc<Info>,
    /// Its slot among the snapshots in flight.
    pub place: OwnedSemaphorePermit,
}

/// A new snapshot, from the collector to a subscriber.
#[derive(Message, Clone)]
#[rtype(result = "()")]
pub struct Deliver(pub Arc<Published>);

/// A new history, from the analyzer to the collector: a replay has moved to another position.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Rewind {
    /// The history before the snapshot that follows.
    pub past: Box<History>,
    /// The description of its rows.
    pub info: Arc<Info>,
    /// Its slot among the messages in flight.
    pub place: OwnedSemaphorePermit,
}

/// The history, from the collector to a subscriber.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Remember {
    /// The history as an encoded [`ServerMessage`].
    pub past: Bytes,
    /// The description of its rows; `None` before anything was published.
    pub info: Option<Arc<Info>>,
}

/// The daemon ends; the reason is for people.
#[derive(Message, Clone)]
#[rtype(result = "()")]
pub struct Shutdown(pub String);

/// The form of a snapshot that a subscriber sends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// It adds it to totals, or encodes it when it comes to that.
    Plain,
    /// As a message.
    Message,
    /// As a compact message.
    Compact,
}

/// Subscribes to every new snapshot, and requests at once the history (if wanted) and the latest
/// snapshot, in this order.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Subscribe {
    /// The kind of sink.
    pub sink: Sink,
    /// Receiver of snapshots.
    pub updates: Recipient<Deliver>,
    /// In which form it sends them on.
    pub form: Form,
    /// Receiver of the history, if wanted.
    pub past: Option<Recipient<Remember>>,
    /// Receiver of the daemon's end, if wanted.
    pub shutdown: Option<Recipient<Shutdown>>,
}

impl Subscribe {
    /// Subscribes to snapshots only.
    pub fn snapshots(sink: Sink, updates: Recipient<Deliver>) -> Self {
        Subscribe {
            sink,
            updates,
            form: Form::Plain,
            past: None,
            shutdown: None,
        }
    }
}

/// The latest snapshot, shared with all threads: reading it takes no slot in the collector's
/// mailbox.
#[derive(Debug, Clone, Default)]
pub struct Latest(Arc<Mutex<Option<Arc<Published>>>>);

impl Latest {
    /// The latest snapshot; `None` before the first.
    pub fn get(&self) -> Option<Arc<Published>> {
        self.lock().clone()
    }

    fn set(&self, published: Arc<Published>) {
        let before = self.lock().replace(published);
        // Freed after the lock is released, so that no thread waits for it.
        drop(before);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Published>>> {
        // Replacing a pointer cannot be left half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The collector's data, shared with all threads.
#[derive(Clone)]
pub struct CollectorData {
    /// The latest snapshot.
    pub latest: Latest,
    /// The recent past.
    pub past: Shared<History>,
    /// The newest snapshots; `None` in a replay, whose log has them already.
    pub recent: Option<Shared<Recent>>,
    /// Whether somebody reads each interval.
    pub attention: Attention,
}

/// The actor; see the head of this file.
pub struct MetricsCollector {
    kept: CollectorData,
    /// The description of rows, as last received.
    info: Option<Arc<Info>>,
    /// The history as a message; dashboards that subscribe within one period share it.
    past: Option<Bytes>,
    /// Until then no snapshot is encoded for keeping.
    rests_until: Option<Instant>,
    subscribers: Vec<Subscribe>,
    drops: Arc<SinkDrops>,
    watch: Watch,
}

impl MetricsCollector {
    /// Starts the collector on a thread of its own, where it encodes for all who want it, with data that is
    /// already kept.
    pub fn launch(
        kept: CollectorData,
        drops: Arc<SinkDrops>,
        supervisor: &Supervisor,
    ) -> (Arbiter, Addr<MetricsCollector>) {
        let watch = supervisor.watch(Part::MetricsCollector);
        let arbiter = Arbiter::new();
        let address = Self::start_in_arbiter(&arbiter.handle(), move |ctx| {
            ctx.set_mailbox_capacity(MAILBOX_MESSAGES);
            MetricsCollector {
                kept,
                info: None,
                past: None,
                rests_until: None,
                subscribers: Vec::new(),
                drops,
                watch,
            }
        });
        (arbiter, address)
    }

    /// Starts another history if the rows have changed their meaning, as in a recording of several
    /// hosts.
    fn meet(&mut self, info: &Arc<Info>) {
        let known = self.info.replace(info.clone());
        let slugs = |info: &Info| -> Vec<String> {
            info.components.iter().map(|row| row.slug.clone()).collect()
        };
        if known.is_some_and(|known| !Arc::ptr_eq(&known, info) && slugs(&known) != slugs(info)) {
            self.kept.past.change(|past| {
                let older = std::mem::replace(past, History::new(info));
                past.continue_from(older);
            });
        }
    }

    /// Keeps a snapshot in encoded form. Encoding takes at most half of the time, so that no
    /// snapshot is delayed for long: where they are too large for that, some are not kept.
    fn record(&mut self, published: &Published) {
        let Some(recent) = &self.kept.recent else {
            return;
        };
        let begun = Instant::now();
        if self.rests_until.is_some_and(|until| begun < until) {
            return;
        }
        let time_unix_ns = published.snapshot.time_unix_ns;
        let mut kept = Ok(());
        let message = published.message();
        recent.change(|recent| {
            kept = message.and_then(|message| recent.push(&published.info, &message, time_unix_ns));
        });
        if let Err(error) = kept {
            tracing::warn!("a snapshot is not kept for `netto dump`: {error}");
        }
        self.rests_until = Some(begun + 2 * begun.elapsed());
    }

    /// Totals for scrapes are the same whether several intervals are one.
    fn tell_attention(&self) {
        let mut sinks = self.subscribers.iter().map(|subscriber| subscriber.sink);
        let is_followed = sinks.any(|sink| sink != Sink::Prometheus);
        self.kept.attention.set_followed(is_followed);
    }

    fn remember(&mut self, recipient: &Recipient<Remember>) {
        let past = match self.past.take() {
            Some(past) => Ok(past),
            None => {
                let message = ServerMessage::History(Box::new(self.kept.past.get().1.to_message()));
                codec::encode(&message).map(Bytes::from)
            }
        };
        match past {
            // Subscriber gone or full; ignore.
            Ok(past) => {
                let info = self.info.clone();
                self.past = Some(past.clone());
                let _ = recipient.try_send(Remember { past, info });
            }
            Err(error) => tracing::warn!("cannot send the history to a dashboard: {error}"),
        }
    }
}

/// Encodes a snapshot, once for all, and sends it without waiting; `false` if the subscriber is gone.
fn deliver(subscriber: &Subscribe, published: &Arc<Published>, drops: &SinkDrops) -> bool {
    // A failure is met again, and told, by who sends it on.
    let _ = match subscriber.form {
        Form::Plain => Ok(Bytes::new()),
        Form::Message => published.message(),
        Form::Compact => published.compact_message(),
    };
    match subscriber.updates.try_send(Deliver(published.clone())) {
        Ok(()) => true,
        Err(SendError::Full(_)) => {
            drops.count(subscriber.sink);
            true
        }
        Err(SendError::Closed(_)) => false,
    }
}

impl Actor for MetricsCollector {
    type Context = Context<Self>;
}

impl Handler<Publish> for MetricsCollector {
    type Result = ();

    fn handle(&mut self, publish: Publish, _: &mut Self::Context) {
        let Publish {
            snapshot,
            info,
            place: _place,
        } = publish;
        self.meet(&info);
        self.kept.past.change(|past| past.push(&snapshot));
        self.past = None;
        let published = Arc::new(Published::new(snapshot, info));
        let drops = &self.drops;
        self.subscribers
            .retain(|subscriber| deliver(subscriber, &published, drops));
        self.tell_attention();
        self.kept.latest.set(published.clone());
        self.record(&published);
    }
}

impl Handler<Rewind> for MetricsCollector {
    type Result = ();

    fn handle(&mut self, rewind: Rewind, _: &mut Self::Context) {
        let Rewind {
            past,
            info,
            place: _place,
        } = rewind;
        self.kept.past.change(|known| *known = *past);
        self.info = Some(info);
        self.past = None;
        let subscribers = std::mem::take(&mut self.subscribers);
        for recipient in subscribers.iter().filter_map(|one| one.past.as_ref()) {
            self.remember(recipient);
        }
        self.subscribers = subscribers;
    }
}

impl Handler<Subscribe> for MetricsCollector {
    type Result = ();

    fn handle(&mut self, subscriber: Subscribe, _: &mut Self::Context) {
        if let Some(recipient) = &subscriber.past {
            self.remember(recipient);
        }
        let alive = match self.kept.latest.get() {
            Some(latest) => deliver(&subscriber, &latest, &self.drops),
            None => true,
        };
        // Clients may come and go many times within one period.
        self.subscribers
            .retain(|subscriber| subscriber.updates.connected());
        if alive {
            self.subscribers.push(subscriber);
        }
        self.tell_attention();
    }
}

impl Handler<Shutdown> for MetricsCollector {
    type Result = ();

    fn handle(&mut self, shutdown: Shutdown, ctx: &mut Self::Context) {
        for subscriber in self.subscribers.drain(..) {
            if let Some(recipient) = subscriber.shutdown {
                recipient.do_send(shutdown.clone());
            }
        }
        self.watch.settle();
        ctx.stop();
    }
}
