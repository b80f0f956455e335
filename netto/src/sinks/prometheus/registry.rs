//! How the table of families becomes what the `prometheus` crate can write.
//!
//! The crate's own counters add floating-point numbers; netto keeps exact
//! totals itself and hands them over when asked.

use std::sync::{Arc, Mutex, PoisonError};

use metrics_common::Info;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

use super::{SharedTotals, Totals, families};
use crate::actors::metrics_collector::SinkDrops;
use crate::sinks::http::ClientCounts;

/// Everything that a series can be made of.
pub struct Inputs<'a> {
    /// What the daemon is.
    pub info: &'a Info,
    /// What it has measured so far.
    pub totals: &'a Totals,
    /// What sinks have missed.
    pub drops: &'a SinkDrops,
    /// What clients did that do not behave.
    pub clients: &'a ClientCounts,
}

/// Collects the series of one family.
pub struct Series<'a> {
    labels: &'static [&'static str],
    metric_type: MetricType,
    out: &'a mut Vec<Metric>,
}

impl Series<'_> {
    /// Adds a series: label values in the order of the family's labels, and its value.
    pub fn push(&mut self, values: &[&str], value: f64) {
        debug_assert_eq!(values.len(), self.labels.len());
        let labels = self
            .labels
            .iter()
            .zip(values)
            .map(|(name, value)| {
                let mut pair = LabelPair::default();
                pair.set_name((*name).to_owned());
                pair.set_value((*value).to_owned());
                pair
            })
            .collect();
        let mut metric = Metric::from_label(labels);
        if self.metric_type == MetricType::COUNTER {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        self.out.push(metric);
    }
}

/// One family of metrics.
pub struct Family {
    /// Name, with prefix, unit and for counters `_total`.
    pub name: &'static str,
    /// What it says, in a sentence.
    pub help: &'static str,
    /// Counter or gauge.
    pub metric_type: MetricType,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// Finds its series; none where the thing is not measured.
    pub series: fn(&Inputs<'_>, &mut Series<'_>),
}

/// What the daemon says of itself, which the actor renews and the registry reads.
#[derive(Debug, Clone)]
pub struct CurrentInfo(Arc<Mutex<Arc<Info>>>);

impl CurrentInfo {
    /// The first description.
    pub fn new(info: Arc<Info>) -> Self {
        CurrentInfo(Arc::new(Mutex::new(info)))
    }

    /// The description of the newest snapshot.
    pub fn set(&self, info: &Arc<Info>) {
        // Replacing a pointer cannot be left half done.
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&current, info) {
            *current = info.clone();
        }
    }

    fn get(&self) -> Arc<Info> {
        let current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }
}

/// The families with the values that they show, as the registry wants them.
pub struct Families {
    info: CurrentInfo,
    totals: SharedTotals,
    drops: Arc<SinkDrops>,
    clients: Arc<ClientCounts>,
    descriptions: Vec<Desc>,
}

impl Families {
    /// Describes every family.
    ///
    /// # Errors
    /// If a name or label is malformed, which the tests rule out.
    pub fn new(
        info: CurrentInfo,
        totals: SharedTotals,
        drops: Arc<SinkDrops>,
        clients: Arc<ClientCounts>,
    ) -> prometheus::Result<Self> {
        let descriptions = families::all()
            .map(|family| {
                Desc::new(
                    family.name.to_owned(),
                    family.help.to_owned(),
                    family
                        .labels
                        .iter()
                        .map(|&label| label.to_owned())
                        .collect(),
                    Default::default(),
                )
            })
            .collect::<prometheus::Result<_>>()?;
        Ok(Families {
            info,
            totals,
            drops,
            clients,
            descriptions,
        })
    }
}

impl Collector for Families {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let info = self.info.get();
        // A copy: the next snapshot must not wait until a page is written.
        let totals = self.totals.lock().clone();
        let inputs = Inputs {
            info: &info,
            totals: &totals,
            drops: &self.drops,
            clients: &self.clients,
        };
        families::all()
            .map(|family| {
                let mut metrics = Vec::new();
                (family.series)(
                    &inputs,
                    &mut Series {
                        labels: family.labels,
                        metric_type: family.metric_type,
                        out: &mut metrics,
                    },
                );
                let mut described = MetricFamily::default();
                described.set_name(family.name.to_owned());
                described.set_help(family.help.to_owned());
                described.set_field_type(family.metric_type);
                described.set_metric(metrics);
                described
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::{Missable, Power, ZonePower};
    use prometheus::{Registry, TextEncoder};

    use super::*;
    use crate::sinks::api::tests::{cost, info, snapshot};

    fn text(totals: SharedTotals) -> String {
        let registry = Registry::new();
        let info = CurrentInfo::new(Arc::new(info()));
        let families = Families::new(info, totals, Arc::default(), Arc::default()).unwrap();
        registry.register(Box::new(families)).unwrap();
        TextEncoder::new()
            .encode_to_string(&registry.gather())
            .unwrap()
    }

    #[test]
    fn what_is_not_measured_has_no_series() {
        let totals = SharedTotals::default();
        totals.lock().add(&snapshot(1));
        let text = text(totals);
        assert!(text.contains("component=\"gro\""), "{text}");
        assert!(!text.contains("xdp_generic"), "{text}");
        assert!(!text.contains("joules"), "{text}");
        assert!(
            text.contains("netto_probe_attached{method=\"fentry\",probe=\"inet_sendmsg\"} 0")
                || text
                    .contains("netto_probe_attached{probe=\"inet_sendmsg\",method=\"fentry\"} 0"),
            "{text}"
        );
    }

    #[test]
    fn what_probes_missed_adds_up_under_its_probe_and_reason() {
        let mut described = info();
        described.missable = vec![Missable {
            probe: "inet_sendmsg".to_owned(),
            reason: "recursion".to_owned(),
            component: "tx_syscall".to_owned(),
        }];
        let totals = SharedTotals::default();
        let mut measured = snapshot(1);
        cost(&mut measured).probe_missed = vec![3];
        totals.lock().add(&measured);
        totals.lock().add(&measured);
        let families = Families::new(
            CurrentInfo::new(Arc::new(described)),
            totals.clone(),
            Arc::default(),
            Arc::default(),
        );
        let registry = Registry::new();
        registry.register(Box::new(families.unwrap())).unwrap();
        let page = TextEncoder::new()
            .encode_to_string(&registry.gather())
            .unwrap();
        let line = page
            .lines()
            .find(|line| line.starts_with("netto_probe_missed_total{"));
        let line = line.unwrap_or_else(|| panic!("{page}"));
        assert!(line.contains("probe=\"inet_sendmsg\""), "{line}");
        assert!(line.contains("reason=\"recursion\""), "{line}");
        assert!(line.ends_with(" 6"), "{line}");
        // Of a kernel that does not count it, nothing is said.
        assert!(!text(totals).contains("netto_probe_missed_total{"));
    }

    #[test]
    fn energy_appears_where_it_is_measured() {
        let totals = SharedTotals::default();
        let mut measured = snapshot(1);
        measured.sections.power = Some(Power {
            host_watts: 40.0,
            network_watts: 10.0,
            network_energy_joules: 5.5,
            zones: vec![ZonePower {
                zone: "package-0/dram".to_owned(),
                energy_joules: 2.25,
            }],
        });
        totals.lock().add(&measured);
        totals.lock().add(&measured);
        let text = text(totals);
        assert!(
            text.contains("netto_network_energy_joules_total 11\n"),
            "{text}"
        );
        assert!(
            text.contains("netto_energy_joules_total{zone=\"package-0/dram\"} 4.5\n"),
            "{text}"
        );
    }
}
