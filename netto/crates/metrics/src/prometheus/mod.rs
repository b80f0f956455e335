//! The actor that keeps running totals since the start, for Prometheus.
//!
//! It owns the totals, as whole nanoseconds so that nothing is lost to
//! rounding. Scrapes never come to the actor: the text is made from a copy of the
//! totals, once for each snapshot, by whoever asks first. What the families are called
//! is said in `families/`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_web::web::Bytes;
use metrics_common::{Info, Snapshot};
use prometheus::{Encoder as _, TextEncoder};

use netto_pipeline::clients::ClientCounts;
use netto_pipeline::metrics_collector::{Deliver, SinkDrops};
use netto_pipeline::rendered::Rendered;
use netto_pipeline::supervisor::{Part, Supervisor, Watch};

mod families;
mod family;
mod histogram;
mod owner_totals;
pub mod protobuf;
mod text;

use family::{CurrentInfo, Inputs, Series};
use owner_totals::OwnerTotals;
use text::Text;

/// Snapshots that may wait; a dropped snapshot would be missing from every counter.
const MAILBOX_MESSAGES: usize = 64;

/// What is no part of a snapshot, such as drops, is at most so old in a scrape.
const LONGEST_HELD: Duration = Duration::from_secs(1);

/// Running totals since the daemon's start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// All intervals as one, but for owners. A CPU that goes offline keeps its column.
    pub sum: Snapshot,
    /// What series of owners show.
    owners: OwnerTotals,
    /// Snapshots added up.
    pub snapshots: u64,
}

impl Totals {
    /// Adds one interval.
    pub fn add(&mut self, snapshot: &Snapshot) {
        self.sum.add(snapshot);
        if let Some(owners) = &snapshot.sections.owners {
            self.owners.add(owners);
        }
        // By component and CPU, of all owners that there ever were, it would be the largest of all.
        self.sum.sections.owners = None;
        self.snapshots += 1;
    }
}

/// Totals that the actor writes and pages are made of.
#[derive(Debug, Clone, Default)]
pub struct SharedTotals(Arc<Mutex<Totals>>);

impl SharedTotals {
    /// The totals, for as long as the guard lives.
    pub fn lock(&self) -> MutexGuard<'_, Totals> {
        // Additions cannot be left half done in a way that matters more than going on.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The actor; see the head of this file.
pub struct PrometheusLogger {
    totals: SharedTotals,
    info: CurrentInfo,
    watch: Watch,
}

impl PrometheusLogger {
    /// Starts the logger on the current thread.
    pub fn launch(
        info: Arc<Info>,
        counted: (Arc<SinkDrops>, Arc<ClientCounts>),
        has_compat: bool,
        supervisor: &Supervisor,
    ) -> (Addr<PrometheusLogger>, Metrics) {
        let metrics = Metrics::new(info, counted, has_compat);
        let Shared { info, totals, .. } = metrics.shared.clone();
        let watch = supervisor.watch(Part::PrometheusLogger);
        let logger = Self::create(move |ctx| {
            ctx.set_mailbox_capacity(MAILBOX_MESSAGES);
            PrometheusLogger {
                totals,
                info,
                watch,
            }
        });
        (logger, metrics)
    }
}

impl Actor for PrometheusLogger {
    type Context = Context<Self>;
}

impl Handler<Deliver> for PrometheusLogger {
    type Result = ();

    fn handle(&mut self, Deliver(published): Deliver, _: &mut Self::Context) {
        self.info.set(&published.info);
        self.totals.lock().add(&published.snapshot);
    }
}

/// What a page is made of, wherever it is kept.
#[derive(Clone)]
struct Shared {
    info: CurrentInfo,
    totals: SharedTotals,
    drops: Arc<SinkDrops>,
    clients: Arc<ClientCounts>,
    /// Whether there are netstacklat's names too.
    has_compat: bool,
}

impl Shared {
    /// A page, and how many snapshots are in it.
    fn page(&self, form: Form) -> (u64, Result<Bytes, String>) {
        let info = self.info.get();
        // A copy: the next snapshot must not wait until a page is written.
        let totals = self.totals.lock().clone();
        let inputs = Inputs {
            info: &info,
            totals: &totals,
            drops: &self.drops,
            clients: &self.clients,
        };
        let mut text = match form {
            Form::Text => Text::default(),
            Form::Messages => Text::messages(),
        };
        let compat = families::COMPAT.iter().filter(|_| self.has_compat);
        for family in families::of_sections().chain(compat) {
            text.family(family, |text| (family.series)(&inputs, text));
        }
        let about = families::ABOUT.iter().map(|family| {
            let mut series = Series::of(family);
            (family.series)(&inputs, &mut series);
            series.finish(family)
        });
        let about: Vec<_> = about.filter(|f| !f.get_metric().is_empty()).collect();
        let (mut page, messages) = text.into_parts();
        if let Some(mut messages) = messages {
            about.iter().for_each(|family| messages.add(family));
            return (totals.snapshots, Ok(Bytes::from(messages.into_bytes())));
        }
        let page = match TextEncoder::new().encode(&about, &mut page) {
            Ok(()) => Ok(Bytes::from(page)),
            Err(error) => Err(format!("cannot write the metrics as text: {error}")),
        };
        (totals.snapshots, page)
    }
}

/// All metrics, as a scrape wants them.
pub struct Metrics {
    shared: Shared,
    text: Rendered<Age, Result<Bytes, String>>,
    messages: Rendered<Age, Result<Bytes, String>>,
}

/// In which form a scraper has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Text, which has classic histograms.
    Text,
    /// Messages ([`protobuf`]), which have native ones too.
    Messages,
}

/// What a page of metrics was made of, and when.
struct Age {
    snapshots: u64,
    made: Instant,
}

impl Metrics {
    fn new(
        info: Arc<Info>,
        (drops, clients): (Arc<SinkDrops>, Arc<ClientCounts>),
        has_compat: bool,
    ) -> Self {
        Metrics {
            shared: Shared {
                info: CurrentInfo::new(info),
                totals: SharedTotals::default(),
                drops,
                clients,
                has_compat,
            },
            text: Rendered::default(),
            messages: Rendered::default(),
        }
    }

    /// The metrics in one of Prometheus' formats; the same bytes until the next snapshot.
    ///
    /// # Errors
    /// Why they cannot be written, for people.
    pub async fn page(&self, form: Form) -> Result<Bytes, String> {
        let snapshots = self.shared.totals.lock().snapshots;
        let shared = self.shared.clone();
        let holds = |age: &Age| age.snapshots == snapshots && age.made.elapsed() < LONGEST_HELD;
        let make = move || {
            let (snapshots, page) = shared.page(form);
            let made = Instant::now();
            (Age { snapshots, made }, page)
        };
        let rendered = match form {
            Form::Text => &self.text,
            Form::Messages => &self.messages,
        };
        match rendered.get(holds, make).await {
            Ok(page) => page,
            Err(unfinished) => Err(unfinished.to_string()),
        }
    }
}

/// Asks the logger to end.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Finish;

impl Handler<Finish> for PrometheusLogger {
    type Result = ();

    fn handle(&mut self, _: Finish, ctx: &mut Self::Context) {
        self.watch.settle();
        ctx.stop();
    }
}

#[cfg(test)]
mod document;
#[cfg(test)]
mod shipped;
#[cfg(test)]
mod tests;
