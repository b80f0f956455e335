//! Its metrics: a counter, and a histogram with a label.

use netto_metrics::catalogue::{Catalogue, Value};
use netto_metrics::metrics;

/// What is exported of it.
pub(crate) const METRICS: Catalogue = Catalogue::of(metrics! {
    Counter "netto_raised_softirqs_total" Count("softirq") [];
        "Softirqs that were raised.";
        |inputs, out| {
            let ticks = inputs.sum().sections.ticks.as_ref();
            out.push_known(&[], ticks.map(|ticks| Value::Count(ticks.raised)));
        };
    Histogram "netto_raised_softirq_gap_seconds" Seconds ["vector"];
        "From one raised softirq to the next of the same vector and CPU.";
        |inputs, out| {
            let ticks = inputs.sum().sections.ticks.as_ref();
            for gaps in ticks.map_or(&[][..], |ticks| &ticks.gaps) {
                out.push_histogram(&[&gaps.vector], &gaps.histogram);
            }
        };
});
