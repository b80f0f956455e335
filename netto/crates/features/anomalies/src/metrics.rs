//! Its metrics, and the judge of the daemon.

use metrics_common::Snapshot;
use netto_judges::anomalies::{Detector, METRICS as WATCHED, Role};
use netto_metrics::State;
use netto_metrics::catalogue::{Catalogue, Value};
use netto_metrics::metrics;

/// The anomalies since netto's start.
#[derive(Debug, Default)]
pub(crate) struct Judged(pub(crate) Detector);

impl State for Judged {
    fn add(&mut self, snapshot: &Snapshot, _: &mut Snapshot) {
        self.0.push(snapshot);
    }

    /// Of a copy, nothing but the anomalies is read.
    fn copy(&self) -> Box<dyn State> {
        Box::new(Judged(self.0.without_past()))
    }
}

/// What is exported of it.
pub(crate) const METRICS: Catalogue = Catalogue::of(metrics! {
    Counter "netto_anomalies_total" Count("anomaly") ["metric"];
        "Anomalies that have begun, by the metric that left its usual values (docs/ANOMALIES.md).";
        |inputs, out| {
            let Some(Judged(judged)) = inputs.totals.state() else { return };
            let counted = WATCHED.iter().zip(judged.begun());
            for (metric, count) in counted.filter(|counted| counted.0.role == Role::Trouble) {
                out.push(&[metric.slug], Value::Count(*count));
            }
        };
    Gauge "netto_anomaly_active" Flag ["metric"];
        "Whether a metric is away from its usual values: from two intervals after an anomaly of it begins until 15 \
         seconds after it ends.";
        |inputs, out| {
            let Some(Judged(judged)) = inputs.totals.state() else { return };
            for (place, metric) in WATCHED.iter().enumerate() {
                if metric.role == Role::Trouble {
                    let is_open = judged.kept().any(|anomaly| anomaly.is_open && anomaly.metric == place);
                    out.push(&[metric.slug], Value::Count(u64::from(is_open)));
                }
            }
        };
})
.with_state(|| Box::<Judged>::default());

#[cfg(test)]
mod tests {
    use metrics_common::fixture::info;
    use netto_judges::anomalies::fixture::Host;
    use netto_metrics::testing::page_of;

    use super::*;

    #[test]
    fn one_that_begins_is_counted_and_active_until_it_ends() {
        let mut host = Host::new(1);
        let mut all: Vec<Snapshot> = (0..240).map(|_| host.next_interval()).collect();
        let page = |all: &[Snapshot]| page_of(METRICS, &info(), &all.iter().collect::<Vec<_>>());
        let lines = |count: u8, active: u8| {
            let metric = "{metric=\"accept-queue-overflows\"}";
            [
                format!("netto_anomalies_total{metric} {count}\n"),
                format!("netto_anomaly_active{metric} {active}\n"),
            ]
        };
        let has = |all: &[Snapshot], expected: [String; 2]| {
            let page = page(all);
            assert!(expected.iter().all(|line| page.contains(line)), "{page}");
            assert!(!page.contains("network-cpus"), "it is context: {page}");
        };
        has(&all, lines(0, 0));
        host.overflows = 10;
        all.extend((0..20).map(|_| host.next_interval()));
        has(&all, lines(1, 1));
        host.overflows = 0;
        all.extend((0..60).map(|_| host.next_interval()));
        has(&all, lines(1, 0));
    }
}
