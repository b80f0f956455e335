//! For tests of features: the output of their metrics.

use metrics_common::histogram::Histogram;
use metrics_common::{Info, Snapshot};

use crate::catalogue::{Catalogue, Inputs, Samples, Value};
use crate::per_cpu::PerCpu;
use crate::prometheus::text::Text;
use crate::totals::Totals;

/// A sample as given to a writer.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Its label values.
    pub labels: Vec<String>,
    /// Its value.
    pub value: f64,
}

impl Samples for Vec<Sample> {
    fn push(&mut self, labels: &[&str], value: Value) {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        let value = value.as_f64();
        Vec::push(self, Sample { labels, value });
    }

    fn push_histogram(&mut self, labels: &[&str], latencies: &Histogram) {
        Samples::push(self, labels, Value::Count(latencies.count()));
    }
}

/// The samples of this family after these intervals, for a feature with these metrics.
pub fn samples_of(
    find: fn(&Inputs<'_>, &mut dyn Samples),
    catalogue: Catalogue,
    info: &Info,
    snapshots: &[&Snapshot],
) -> Vec<Sample> {
    let mut found: Vec<Sample> = Vec::new();
    with_inputs(catalogue, info, snapshots, |inputs| {
        find(inputs, &mut found);
    });
    found
}

/// The text of these metrics after these intervals.
pub fn page_of(catalogue: Catalogue, info: &Info, snapshots: &[&Snapshot]) -> String {
    let mut text = Text::default();
    with_inputs(catalogue, info, snapshots, |inputs| {
        let families = catalogue.families.iter().chain(catalogue.compat);
        families.for_each(|family| PerCpu::Components.write(family, inputs, &mut text));
    });
    String::from_utf8_lossy(&text.into_bytes()).into_owned()
}

/// Calls `each` with the inputs of these metrics after these intervals.
pub fn with_inputs(
    catalogue: Catalogue,
    info: &Info,
    snapshots: &[&Snapshot],
    each: impl FnOnce(&Inputs<'_>),
) {
    let mut totals = Totals::of(catalogue.state.into_iter());
    snapshots.iter().for_each(|snapshot| totals.add(snapshot));
    each(&Inputs {
        info,
        totals: &totals,
        drops: &Default::default(),
        clients: &Default::default(),
    });
}
