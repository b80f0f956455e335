//! The actor that keeps running totals since the start, for Prometheus.
//!
//! Scrapes do not reach the actor: the first scrape after a snapshot makes the page from a copy of
//! the totals.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_web::web::Bytes;
use metrics_common::{Info, Snapshot};

use crate::catalogue::{Catalogue, Inputs};
use crate::families::families;
use crate::per_cpu::{Page, PerCpu};
use crate::totals::Totals;
use netto_pipeline::clients::ClientCounts;
use netto_pipeline::metrics_collector::{Deliver, SinkDrops};
use netto_pipeline::single_flight::SingleFlight;
use netto_pipeline::supervisor::{Part, Supervisor, Watch};
use protobuf::Messages;
use text::Text;

mod form;
pub mod protobuf;
pub(crate) mod text;

pub use form::Form;

/// Most queued snapshots; a dropped snapshot would be missing from every counter.
const MAILBOX_MESSAGES: usize = 64;

/// Longest age of values that are not part of a snapshot, such as drops.
const LONGEST_HELD: Duration = Duration::from_secs(1);

/// The newest totals, written by the actor and read by pages.
#[derive(Debug, Clone)]
struct Newest {
    info: Arc<Info>,
    totals: Totals,
}

/// The actor; see the head of this file.
pub struct PrometheusLogger {
    shared: Shared,
    watch: Watch,
}

/// What is exported.
#[derive(Clone, Default)]
pub struct Exported {
    /// The metrics of the features.
    pub catalogues: Arc<[Catalogue]>,
    /// Whether some are exported under other exporters' names, too.
    pub has_compat: bool,
    /// Which are exported for each CPU.
    pub per_cpu: PerCpu,
}

impl PrometheusLogger {
    /// Starts the actor on the current thread.
    pub fn launch(
        info: Arc<Info>,
        counted: (Arc<SinkDrops>, Arc<ClientCounts>),
        exported: Exported,
        supervisor: &Supervisor,
    ) -> (Addr<PrometheusLogger>, Metrics) {
        let metrics = Metrics::new(info, counted, exported);
        let shared = metrics.shared.clone();
        let watch = supervisor.watch(Part::PrometheusLogger);
        let logger = Self::create(move |ctx| {
            ctx.set_mailbox_capacity(MAILBOX_MESSAGES);
            PrometheusLogger { shared, watch }
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
        self.shared.add(published.info.clone(), &published.snapshot);
    }
}

/// The sources of a page.
#[derive(Clone)]
struct Shared {
    newest: Arc<Mutex<Newest>>,
    drops: Arc<SinkDrops>,
    clients: Arc<ClientCounts>,
    exported: Exported,
}

impl Shared {
    fn newest(&self) -> MutexGuard<'_, Newest> {
        // An addition left half done does less harm than stopping.
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, info: Arc<Info>, snapshot: &Snapshot) {
        let mut newest = self.newest();
        newest.info = info;
        newest.totals.add(snapshot);
    }

    /// A page, and the number of snapshots in it.
    fn page(&self, form: Form) -> (u64, Bytes) {
        // A copy, so that the next snapshot need not wait for the writing.
        let Newest { info, totals } = self.newest().clone();
        let inputs = Inputs {
            info: &info,
            totals: &totals,
            drops: &self.drops,
            clients: &self.clients,
        };
        let Exported {
            catalogues,
            has_compat,
            per_cpu,
        } = &self.exported;
        let write = |page: &mut dyn Page| {
            families(catalogues, *has_compat)
                .for_each(|family| per_cpu.write(family, &inputs, page));
        };
        let page = match form {
            Form::Text | Form::OpenMetrics => {
                let mut text = match form {
                    Form::OpenMetrics => Text::open_metrics(),
                    _ => Text::default(),
                };
                write(&mut text);
                text.into_bytes()
            }
            Form::Messages => {
                let mut messages = Messages::default();
                write(&mut messages);
                messages.into_bytes()
            }
        };
        (totals.snapshots, Bytes::from(page))
    }
}

/// Hosts whose metrics this process has besides its own: targets of a scraper.
pub trait Targets: Send + Sync {
    /// Their names.
    fn names(&self) -> Vec<&str>;

    /// The metrics of one now; `None` if there is no such host.
    fn page(&self, name: &str, form: Form) -> Option<Bytes>;
}

/// All metrics, for scrapes.
pub struct Metrics {
    shared: Shared,
    text: SingleFlight<Age, Bytes>,
    open_metrics: SingleFlight<Age, Bytes>,
    messages: SingleFlight<Age, Bytes>,
}

/// The sources of a page of metrics, and its time.
struct Age {
    snapshots: u64,
    made: Instant,
}

impl Metrics {
    /// Of no interval yet.
    pub fn new(
        info: Arc<Info>,
        (drops, clients): (Arc<SinkDrops>, Arc<ClientCounts>),
        exported: Exported,
    ) -> Self {
        let totals = Totals::of(
            exported
                .catalogues
                .iter()
                .filter_map(|catalogue| catalogue.state),
        );
        Metrics {
            shared: Shared {
                newest: Arc::new(Mutex::new(Newest { info, totals })),
                drops,
                clients,
                exported,
            },
            text: SingleFlight::default(),
            open_metrics: SingleFlight::default(),
            messages: SingleFlight::default(),
        }
    }

    /// Adds an interval.
    pub fn add(&self, info: Arc<Info>, snapshot: &Snapshot) {
        self.shared.add(info, snapshot);
    }

    /// What an answer takes of the states of features. The next interval waits for it.
    pub fn of_states<T>(&self, answer: impl FnOnce(&[&dyn Any]) -> T) -> T {
        answer(&self.shared.newest().totals.states())
    }

    /// The metrics, written now and not kept.
    pub fn written(&self, form: Form) -> Bytes {
        self.shared.page(form).1
    }

    /// The metrics in one of Prometheus' formats; the same bytes until the next snapshot.
    ///
    /// # Errors
    /// Why they cannot be written, for people.
    pub async fn page(&self, form: Form) -> Result<Bytes, String> {
        let snapshots = self.shared.newest().totals.snapshots;
        let shared = self.shared.clone();
        let holds = |age: &Age| age.snapshots == snapshots && age.made.elapsed() < LONGEST_HELD;
        let make = move || {
            let (snapshots, page) = shared.page(form);
            let made = Instant::now();
            (Age { snapshots, made }, page)
        };
        let rendered = match form {
            Form::Text => &self.text,
            Form::OpenMetrics => &self.open_metrics,
            Form::Messages => &self.messages,
        };
        let page = rendered.get(holds, make).await;
        page.map_err(|unfinished| unfinished.to_string())
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
mod tests;
