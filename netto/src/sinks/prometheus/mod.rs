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
use anyhow::Context as _;
use metrics_common::{Info, Snapshot};
use prometheus::{Registry, TextEncoder};

use crate::actors::metrics_collector::{Deliver, SinkDrops};
use crate::actors::supervisor::{Part, Supervisor, Watch};
use crate::sinks::http::ClientCounts;
use crate::sinks::rendered::Rendered;

mod families;
mod registry;

use registry::{CurrentInfo, Families};

/// Snapshots that may wait; a dropped snapshot would be missing from every counter.
const MAILBOX_MESSAGES: usize = 64;

/// What is no part of a snapshot, such as drops, is at most so old in a scrape.
const LONGEST_HELD: Duration = Duration::from_secs(1);

/// Running totals since the daemon's start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// All intervals as one. A CPU that goes offline keeps its column.
    pub sum: Snapshot,
    /// Snapshots added up.
    pub snapshots: u64,
}

impl Totals {
    /// Adds one interval.
    pub fn add(&mut self, snapshot: &Snapshot) {
        self.sum.add(snapshot);
        self.snapshots += 1;
    }
}

/// Totals that the actor writes and the registry reads.
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
    ///
    /// # Errors
    /// If the families contradict each other, which the tests rule out.
    pub fn launch(
        info: Arc<Info>,
        drops: Arc<SinkDrops>,
        clients: Arc<ClientCounts>,
        supervisor: &Supervisor,
    ) -> anyhow::Result<(Addr<PrometheusLogger>, Metrics)> {
        let totals = SharedTotals::default();
        let registry = Registry::new();
        let info = CurrentInfo::new(info);
        let families = Families::new(info.clone(), totals.clone(), drops, clients)
            .context("cannot describe the Prometheus metrics")?;
        registry
            .register(Box::new(families))
            .context("cannot register the Prometheus metrics")?;
        let watch = supervisor.watch(Part::PrometheusLogger);
        let metrics = Metrics {
            registry,
            totals: totals.clone(),
            page: Rendered::default(),
        };
        let logger = Self::create(move |ctx| {
            ctx.set_mailbox_capacity(MAILBOX_MESSAGES);
            PrometheusLogger {
                totals,
                info,
                watch,
            }
        });
        Ok((logger, metrics))
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

/// All metrics, as a scrape wants them.
pub struct Metrics {
    registry: Registry,
    totals: SharedTotals,
    page: Rendered<Age, Result<Bytes, String>>,
}

/// What a page of metrics was made of, and when.
struct Age {
    snapshots: u64,
    made: Instant,
}

impl Metrics {
    /// The metrics in the text format of Prometheus; the same bytes until the next snapshot.
    ///
    /// # Errors
    /// Why they cannot be written, for people.
    pub async fn page(&self) -> Result<Bytes, String> {
        let snapshots = self.totals.lock().snapshots;
        let registry = self.registry.clone();
        let holds = |age: &Age| age.snapshots == snapshots && age.made.elapsed() < LONGEST_HELD;
        let make = move || {
            let text = TextEncoder::new().encode_to_string(&registry.gather());
            let made = Instant::now();
            (
                Age { snapshots, made },
                text.map(Bytes::from)
                    .map_err(|error| format!("cannot write the metrics as text: {error}")),
            )
        };
        match self.page.get(holds, make).await {
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
mod tests {
    use metrics_common::component::index_of;

    use super::*;
    use crate::sinks::api::tests::{cost, snapshot};

    #[test]
    fn totals_are_the_sums_of_the_intervals() {
        let mut totals = Totals::default();
        for sequence in 1..=3 {
            totals.add(&snapshot(sequence));
        }
        let row = index_of("rx_softirq").unwrap();
        let expected = 3 * (row as u64 * 2_000) + 1 + 2 + 3;
        let sections = &totals.sum.sections;
        let (cost, modes) = (totals.sum.cost(), sections.modes.as_ref().unwrap());
        assert_eq!(cost.cpu_ns(row).unwrap()[1], expected);
        assert_eq!(cost.stacks_lost[1], 9);
        assert_eq!(modes.cpus[0].steal_ns, 24);
        let own = sections.own.as_ref().unwrap();
        assert_eq!((own.user_ns, own.system_ns), (3_000_000, 6_000_000));
        assert_eq!(totals.snapshots, 3);
    }

    #[actix_web::test]
    async fn a_page_is_the_same_bytes_until_the_next_snapshot() {
        let totals = SharedTotals::default();
        let info = CurrentInfo::new(Arc::new(crate::sinks::api::tests::info()));
        let families = Families::new(info, totals.clone(), Arc::default(), Arc::default()).unwrap();
        let registry = Registry::new();
        registry.register(Box::new(families)).unwrap();
        let metrics = Metrics {
            registry,
            totals: totals.clone(),
            page: Rendered::default(),
        };
        for count in 1..=2 {
            totals.lock().add(&snapshot(count));
            let page = metrics.page().await.unwrap();
            let text = String::from_utf8_lossy(&page);
            assert!(
                text.contains(&format!("netto_snapshots_total {count}\n")),
                "{text}"
            );
            // Many in less time than a page is held without a new snapshot.
            let again = futures_util::future::join_all((0..50).map(|_| metrics.page())).await;
            for other in again {
                assert_eq!(other.unwrap().as_ptr(), page.as_ptr());
            }
        }
    }

    #[test]
    fn what_is_not_measured_has_no_total() {
        let mut totals = Totals::default();
        totals.add(&snapshot(1));
        let hidden = index_of("xdp_generic").unwrap();
        assert_eq!(totals.sum.cost().cpu_ns(hidden), None);
        assert_eq!(totals.sum.sections.power, None);
    }

    #[test]
    fn a_cpu_that_goes_offline_keeps_its_total() {
        let mut totals = Totals::default();
        totals.add(&snapshot(1));
        let column = |totals: &Totals, cpu: usize| {
            let rows = totals.sum.cost().components.iter().flatten();
            rows.map(|row| row[cpu]).collect::<Vec<u64>>()
        };
        let before = column(&totals, 0);
        // CPU 0 is gone, so the only column is now that of CPU 1.
        let mut second = snapshot(2);
        second.cpus.remove(0);
        for row in cost(&mut second).components.iter_mut().flatten() {
            row.remove(0);
        }
        second.sections.modes.as_mut().unwrap().cpus.remove(0);
        cost(&mut second).stacks_taken.remove(0);
        cost(&mut second).stacks_lost.remove(0);
        totals.add(&second);
        assert_eq!(totals.sum.cpus, [0, 1]);
        assert_eq!(column(&totals, 0), before);
        assert_eq!(totals.sum.cost().stacks_lost, [0, 6]);
    }
}
