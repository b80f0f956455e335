//! A family of metrics: what it is called, and of what its series are made.
//!
//! Totals are netto's own, in exact integers. What has a series for each CPU is written by `text`;
//! what has a few for the whole host is left to the `prometheus` crate.

use std::sync::{Arc, Mutex, PoisonError};

use metrics_common::Info;
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

use super::Totals;
use netto_pipeline::clients::ClientCounts;
use netto_pipeline::metrics_collector::SinkDrops;

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

/// One family of metrics, which gives its series to an `S`.
pub struct Family<S> {
    /// Name, with prefix, unit and for counters `_total`.
    pub name: &'static str,
    /// What it says, in a sentence.
    pub help: &'static str,
    /// Counter, gauge or histogram.
    pub metric_type: MetricType,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// Finds its series; none where the thing is not measured.
    pub series: fn(&Inputs<'_>, &mut S),
}

impl<S> Family<S> {
    /// What it is, as the text format has it.
    pub fn kind(&self) -> &'static str {
        match self.metric_type {
            MetricType::COUNTER => "counter",
            MetricType::HISTOGRAM => "histogram",
            _ => "gauge",
        }
    }
}

/// Collects the series of one family for the `prometheus` crate.
pub struct Series {
    labels: &'static [&'static str],
    metric_type: MetricType,
    out: Vec<Metric>,
}

impl Series {
    /// None yet of this family.
    pub fn of<S>(family: &Family<S>) -> Self {
        Series {
            labels: family.labels,
            metric_type: family.metric_type,
            out: Vec::new(),
        }
    }

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

    /// The family with its series, as the crate writes it.
    pub fn finish<S>(self, family: &Family<S>) -> MetricFamily {
        let mut described = MetricFamily::default();
        described.set_name(family.name.to_owned());
        described.set_help(family.help.to_owned());
        described.set_field_type(family.metric_type);
        described.set_metric(self.out);
        described
    }
}

/// What the daemon says of itself, which the actor renews and every page reads.
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

    /// The newest description.
    pub fn get(&self) -> Arc<Info> {
        let current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }
}
