//! What it counts on the made-up host: a softirq each millisecond.

use metrics_common::latency::Histogram;
use metrics_common::sections::Ticks;
use metrics_common::sections::ticks::Gaps;
use netto_feature::demo::Generator;

use crate::kernel::VECTORS;

const GAP_NS: u64 = 1_000_000;

/// Fills the section.
pub(crate) fn generator() -> Generator {
    let mut count = 0;
    Box::new(move |interval, sections| {
        count += 1;
        let raised = interval.length_ns / GAP_NS;
        let mut histogram = Histogram::default();
        (0..raised).for_each(|_| {
            histogram.record(GAP_NS);
        });
        let vector = VECTORS[0].to_owned();
        sections.ticks = Some(Ticks {
            count,
            raised,
            gaps: vec![Gaps { vector, histogram }],
        });
    })
}
