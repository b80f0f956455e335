//! Its metrics: softirq time on quiet CPUs, by event and by cause. Series never fall, and their number
//! is bounded as that of owners is.

use std::collections::BTreeMap;

use metrics_common::{COMPONENTS, Owner, OwnerKind, Snapshot};
use netto_metrics::State;
use netto_metrics::catalogue::{Catalogue, Value};
use netto_metrics::metrics;

/// Most causes with series of their own.
const LIMIT: usize = 200;

/// Totals since the start, nanoseconds.
#[derive(Debug, Clone, Default)]
struct IntruderTotals {
    /// By CPU and row of the event.
    by_event: BTreeMap<(u32, u32), u64>,
    /// By the cause's labels.
    by_cause: BTreeMap<[String; 5], u64>,
}

impl State for IntruderTotals {
    fn add(&mut self, snapshot: &Snapshot, sum: &mut Snapshot) {
        // By cause and victim it would be larger.
        sum.sections.intruders = None;
        let intruders = snapshot.sections.intruders.iter();
        for intrusion in intruders.flat_map(|intruders| &intruders.intrusions) {
            let total = self
                .by_event
                .entry((intrusion.cpu, intrusion.event))
                .or_default();
            *total = total.saturating_add(intrusion.ns);
            let labels = intrusion.cause.series_labels().map(str::to_owned);
            let has_room = self.by_cause.len() < LIMIT || self.by_cause.contains_key(&labels);
            let labels = if has_room {
                labels
            } else {
                Owner::single(OwnerKind::Other)
                    .series_labels()
                    .map(str::to_owned)
            };
            let total = self.by_cause.entry(labels).or_default();
            *total = total.saturating_add(intrusion.ns);
        }
    }

    fn copy(&self) -> Box<dyn State> {
        Box::new(self.clone())
    }
}

/// What is exported of it.
pub(crate) const METRICS: Catalogue = Catalogue::of(metrics! {
    Counter "netto_intruder_cpu_seconds_total" Seconds ["cpu", "event"];
        "CPU time of softirqs and network interrupts on CPUs that are meant to be quiet: by \
         isolcpus, nohz_full or an exclusive cpuset.";
        |inputs, out| {
            let totals = inputs.totals.state::<IntruderTotals>();
            for ((cpu, event), ns) in totals.iter().flat_map(|totals| &totals.by_event) {
                let event = COMPONENTS.get(*event as usize).map_or("", |row| row.slug);
                out.push(&[&cpu.to_string(), event], Value::Nanoseconds(*ns));
            }
        };
    Counter "netto_intruder_caused_cpu_seconds_total" Seconds ["owner", "cgroup", "container", "pod", "namespace"];
        "The same by the control group that caused it; of what is no group, owner says what it \
         is, and unknown is what netto does not know the cause of.";
        |inputs, out| {
            let totals = inputs.totals.state::<IntruderTotals>();
            for (labels, ns) in totals.iter().flat_map(|totals| &totals.by_cause) {
                let labels = labels.each_ref().map(String::as_str);
                out.push(&labels, Value::Nanoseconds(*ns));
            }
        };
})
.with_state(|| Box::<IntruderTotals>::default());

#[cfg(test)]
mod tests {
    use metrics_common::fixture::info;
    use netto_metrics::Totals;
    use netto_metrics::testing::page_of;

    use super::*;
    use crate::report::testing::snapshot;

    #[test]
    fn time_is_counted_by_cpu_and_event_and_by_cause() {
        let page = page_of(METRICS, &info(), &[&snapshot(), &snapshot()]);
        for line in [
            "netto_intruder_cpu_seconds_total{cpu=\"1\",event=\"rx_softirq\"} 0.4\n",
            "netto_intruder_cpu_seconds_total{cpu=\"1\",event=\"softirq_timer\"} 0.1\n",
            "netto_intruder_caused_cpu_seconds_total{owner=\"cgroup\",cgroup=\"/noisy\",\
             container=\"\",pod=\"\",namespace=\"\"} 0.4\n",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
        let page = page_of(METRICS, &info(), &[&Snapshot::default()]);
        assert!(
            !page.contains("netto_intruder_cpu_seconds_total{"),
            "{page}"
        );
    }

    #[test]
    fn causes_beyond_the_limit_are_others_and_no_time_is_lost() {
        let mut totals = IntruderTotals::default();
        for number in 0..2 * LIMIT {
            let mut snapshot = snapshot();
            let intruders = snapshot.sections.intruders.as_mut().unwrap();
            intruders.intrusions.truncate(1);
            intruders.intrusions[0].cause.cgroup = format!("/{number}");
            intruders.intrusions[0].ns = 5;
            totals.add(&snapshot, &mut Snapshot::default());
        }
        assert_eq!(totals.by_cause.len(), LIMIT + 1);
        assert_eq!(totals.by_cause.values().sum::<u64>(), 10 * LIMIT as u64);
        assert_eq!(totals.by_event.len(), 1);
    }

    #[test]
    fn the_sum_of_all_intervals_keeps_no_rows() {
        let mut totals = Totals::of(METRICS.state.into_iter());
        totals.add(&snapshot());
        assert_eq!(totals.sum.sections.intruders, None);
    }
}
