//! The actor that keeps running totals since the start, for Prometheus.
//!
//! It owns the totals, as whole nanoseconds so that nothing is lost to
//! rounding. Scrapes never come to the actor: the text is made from a copy of the
//! totals, once for each snapshot, by whoever asks first. What the families are called
//! is said in `prometheus_families`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_web::web::Bytes;
use anyhow::Context as _;
use metrics_common::{CpuModes, Info, Snapshot};
use prometheus::{Registry, TextEncoder};

use super::http::ClientCounts;
use super::prometheus_registry::{CurrentInfo, Families};
use super::rendered::Rendered;
use crate::actors::metrics_collector::{Deliver, SinkDrops};
use crate::actors::supervisor::{Part, Supervisor, Watch};

/// Snapshots that may wait; a dropped snapshot would be missing from every counter.
const MAILBOX_MESSAGES: usize = 64;

/// What is no part of a snapshot, such as drops, is at most so old in a scrape.
const LONGEST_HELD: Duration = Duration::from_secs(1);

/// Running totals of one CPU.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CpuTotals {
    /// CPU time by component (row of the table), nanoseconds; `None` if never measured.
    pub components_ns: Vec<Option<u64>>,
    /// How often each component was entered; `None` where that is not counted.
    pub entries: Vec<Option<u64>>,
    /// RX softirq time that ran in ksoftirqd; `None` where not measured.
    pub ksoftirqd_rx_ns: Option<u64>,
    /// CPU time by mode, nanoseconds, in the order of [`CpuModes::NAMES`].
    pub modes_ns: [u64; CpuModes::NAMES.len()],
    /// Stacks taken.
    pub stacks_taken: u64,
    /// Stacks that did not fit.
    pub stacks_lost: u64,
}

/// Running totals since the daemon's start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// By the kernel's number of the CPU. One that goes offline keeps its totals.
    pub cpus: BTreeMap<u32, CpuTotals>,
    /// Energy that fell to networking, joules; `None` without RAPL.
    pub network_energy_joules: Option<f64>,
    /// Energy by RAPL zone, joules.
    pub zones_joules: BTreeMap<String, f64>,
    /// The daemon's own CPU time in user mode and in the kernel, nanoseconds.
    pub own_ns: (u64, u64),
    /// What probes missed, by the rows of [`Info::missable`].
    pub probe_missed: Vec<u64>,
    /// Resident memory, when last looked at.
    pub resident_bytes: u64,
    /// Snapshots added up.
    pub snapshots: u64,
    /// End of the last interval, nanoseconds since the Unix epoch.
    pub last_time_unix_ns: u64,
}

impl Totals {
    /// Adds one interval.
    pub fn add(&mut self, snapshot: &Snapshot) {
        for (column, &cpu) in snapshot.cpus.iter().enumerate() {
            let totals = self.cpus.entry(cpu).or_default();
            add_column(&mut totals.components_ns, &snapshot.components, column);
            add_column(&mut totals.entries, &snapshot.entries, column);
            if let Some(value) = snapshot
                .ksoftirqd_rx_ns
                .as_ref()
                .and_then(|row| row.get(column))
            {
                *totals.ksoftirqd_rx_ns.get_or_insert(0) += value;
            }
            if let Some(modes) = snapshot.cpu_modes.get(column) {
                for (total, value) in totals.modes_ns.iter_mut().zip(modes.values()) {
                    *total = total.saturating_add(value);
                }
            }
            totals.stacks_taken += snapshot.stacks_taken.get(column).copied().unwrap_or(0);
            totals.stacks_lost += snapshot.stacks_lost.get(column).copied().unwrap_or(0);
        }
        if let Some(power) = &snapshot.power {
            *self.network_energy_joules.get_or_insert(0.0) += power.network_energy_joules;
            for zone in &power.zones {
                *self.zones_joules.entry(zone.zone.clone()).or_default() += zone.energy_joules;
            }
        }
        self.own_ns.0 = self.own_ns.0.saturating_add(snapshot.own.user_ns);
        self.own_ns.1 = self.own_ns.1.saturating_add(snapshot.own.system_ns);
        if self.probe_missed.len() < snapshot.probe_missed.len() {
            self.probe_missed.resize(snapshot.probe_missed.len(), 0);
        }
        for (total, missed) in self.probe_missed.iter_mut().zip(&snapshot.probe_missed) {
            *total = total.saturating_add(*missed);
        }
        self.resident_bytes = snapshot.own.resident_bytes;
        self.snapshots += 1;
        self.last_time_unix_ns = snapshot.time_unix_ns;
    }
}

/// Adds one CPU's column of a snapshot to its totals, row by row.
fn add_column(totals: &mut Vec<Option<u64>>, rows: &[Option<Vec<u64>>], column: usize) {
    totals.resize(rows.len(), None);
    for (total, row) in totals.iter_mut().zip(rows) {
        if let Some(value) = row.as_ref().and_then(|row| row.get(column)) {
            *total = Some(total.unwrap_or(0).saturating_add(*value));
        }
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
    use crate::sinks::api::tests::snapshot;

    #[test]
    fn totals_are_the_sums_of_the_intervals() {
        let mut totals = Totals::default();
        for sequence in 1..=3 {
            totals.add(&snapshot(sequence));
        }
        let row = index_of("rx_softirq").unwrap();
        let expected = 3 * (row as u64 * 2_000) + 1 + 2 + 3;
        assert_eq!(totals.cpus[&1].components_ns[row], Some(expected));
        assert_eq!(totals.cpus[&1].stacks_lost, 9);
        assert_eq!(totals.cpus[&0].modes_ns[7], 24);
        assert_eq!(totals.own_ns, (3_000_000, 6_000_000));
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
        assert_eq!(totals.cpus[&0].components_ns[hidden], None);
        assert_eq!(totals.network_energy_joules, None);
    }

    #[test]
    fn a_cpu_that_goes_offline_keeps_its_total() {
        let mut totals = Totals::default();
        totals.add(&snapshot(1));
        let before = totals.cpus[&0].clone();
        // CPU 0 is gone, so the only column is now that of CPU 1.
        let mut second = snapshot(2);
        second.cpus.remove(0);
        for row in second.components.iter_mut().flatten() {
            row.remove(0);
        }
        second.cpu_modes.remove(0);
        second.stacks_taken.remove(0);
        second.stacks_lost.remove(0);
        totals.add(&second);
        assert_eq!(totals.cpus[&0], before);
        assert_eq!(totals.cpus[&1].stacks_lost, 6);
    }
}
