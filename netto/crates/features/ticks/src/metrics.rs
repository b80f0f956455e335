//! Its metrics: a counter, and a histogram with a label.

use netto_metrics::catalogue::{Catalogue, Family, Unit, Value};

/// What is exported of it.
pub(crate) const METRICS: Catalogue = Catalogue::of(&[
    Family::counter(
        "netto_raised_softirqs_total",
        Unit::Count("softirq"),
        "Softirqs that were raised.",
        &[],
        |inputs, out| {
            if let Some(ticks) = &inputs.sum().sections.ticks {
                out.push(&[], Value::Count(ticks.raised));
            }
        },
    ),
    Family::histogram(
        "netto_raised_softirq_gap_seconds",
        "From one raised softirq to the next of the same vector and CPU.",
        &["vector"],
        |inputs, out| {
            let ticks = inputs.sum().sections.ticks.as_ref();
            for gaps in ticks.map_or(&[][..], |ticks| &ticks.gaps) {
                out.push_histogram(&[&gaps.vector], &gaps.histogram);
            }
        },
    ),
]);
