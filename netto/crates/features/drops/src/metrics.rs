//! The metrics: packets that were dropped, and why.

use netto_metrics::catalogue::{Catalogue, Value};
use netto_metrics::metrics;

/// Stands for the functions that there was no room for.
const OTHERS: &str = "other functions";

/// The exported metrics.
pub const METRICS: Catalogue = Catalogue::of(metrics! {
    Counter "netto_dropped_packets_total" Count("packet") ["reason", "function"];
        "Packets that the kernel dropped, in any network namespace, by its reason and the \
         function that dropped them.";
        |inputs, out| {
            let Some(drops) = &inputs.sum().sections.drops else { return };
            for place in &drops.places {
                let labels = [place.reason.as_str(), place.function.as_str()];
                out.push(&labels, Value::Count(place.packets));
            }
            if drops.other_packets > 0 {
                out.push(&["", OTHERS], Value::Count(drops.other_packets));
            }
        };
    Counter "netto_cpu_dropped_packets_total" Count("packet") ["cpu"];
        "Packets that a CPU dropped.";
        |inputs, out| {
            let drops = inputs.sum().sections.drops.as_ref();
            let row = drops.map_or(&[][..], |drops| &drops.cpus);
            inputs.push_row(out, row, Value::Count);
        };
});
