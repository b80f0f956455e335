//! The metrics: CPU time of networking and its components.

use metrics_common::component::NETWORK;
use metrics_common::{ComponentInfo, Cost, KindName};
use netto_metrics::catalogue::{Catalogue, Inputs, Otlp, Samples, Value};
use netto_metrics::metrics;

/// The kinds of events.
const EVENTS: &[KindName] = &[KindName::Timed, KindName::Estimated, KindName::Carved];
/// The kinds of parts.
const PARTS: &[KindName] = &[KindName::Sampled, KindName::Remainder];

fn cost<'a>(inputs: &Inputs<'a>) -> &'a Cost {
    inputs.sum().cost()
}

/// Every measured component of these kinds, with its row.
fn rows<'a>(
    inputs: &Inputs<'a>,
    kinds: &'static [KindName],
) -> impl Iterator<Item = (&'a ComponentInfo, &'a [u64])> {
    let components = inputs.info.components.iter();
    components
        .zip(&cost(inputs).components)
        .filter(|(component, _)| kinds.contains(&component.kind))
        .filter_map(|(component, row)| Some((component, row.as_deref()?)))
}

/// Calls `each` with CPU, component and time of every measured component of these kinds.
fn per_component(
    inputs: &Inputs<'_>,
    kinds: &'static [KindName],
    mut each: impl FnMut(&str, &ComponentInfo, Value),
) {
    let rows: Vec<_> = rows(inputs, kinds).collect();
    inputs.per_cpu(|cpu, column| {
        for (component, row) in &rows {
            if let Some(ns) = row.get(column) {
                each(cpu, component, Value::Nanoseconds(*ns));
            }
        }
    });
}

/// An event is exported either itself or by its parts, so that the sum of all series counts each
/// nanosecond once.
fn events_or_their_parts(inputs: &Inputs<'_>, out: &mut dyn Samples) {
    for (event, row) in rows(inputs, EVENTS) {
        let is_network = event.parent.as_deref() == Some(NETWORK);
        let network = if is_network { "true" } else { "false" };
        let of_event = |part: &ComponentInfo| part.parent.as_ref() == Some(&event.slug);
        let parts: Vec<_> = rows(inputs, PARTS)
            .filter(|(part, _)| of_event(part))
            .collect();
        let is_split = parts
            .iter()
            .any(|(part, _)| part.kind == KindName::Remainder);
        let shown = if is_split {
            parts
                .iter()
                .map(|(part, row)| (part.slug.as_str(), *row))
                .collect()
        } else {
            vec![("", row)]
        };
        for (component, row) in shown {
            inputs.per_cpu(|cpu, column| {
                if let Some(ns) = row.get(column) {
                    let labels = [cpu, &event.slug, component, network];
                    out.push(&labels, Value::Nanoseconds(*ns));
                }
            });
        }
    }
}

/// The exported metrics.
pub const METRICS: Catalogue = Catalogue::of(metrics! {
    Counter "netto_cpu_seconds_total" Seconds ["cpu", "event"] as Otlp::Instead(
        &["cpu", "event", "component", "network"], events_or_their_parts);
        "CPU time spent on an event of the network stack (or another softirq, for context). \
         netto_component_info tells by which method each is measured.";
        |inputs, out| per_component(inputs, EVENTS, |cpu, component, value| {
            out.push(&[cpu, &component.slug], value);
        });
    Counter "netto_calls_total" Count("call") ["cpu", "event"];
        "How often an event was entered: socket calls where they are timed, and softirqs.";
        |inputs, out| inputs.per_cpu(|cpu, column| {
            for (component, row) in inputs.info.components.iter().zip(&cost(inputs).entries) {
                let entries = row.as_ref().and_then(|row| row.get(column));
                out.push_known(&[cpu, &component.slug], entries.copied().map(Value::Count));
            }
        });
    Counter "netto_ksoftirqd_rx_seconds_total" Seconds ["cpu"];
        "Part of the RX softirq's CPU time that ran in ksoftirqd, because there was too much of it.";
        |inputs, out| {
            if let Some(row) = &cost(inputs).ksoftirqd_rx_ns {
                inputs.push_row(out, row, Value::Nanoseconds);
            }
        };
    // Included in `netto.cpu.time`.
    Counter "netto_component_cpu_seconds_total" Seconds ["cpu", "event", "component"] as Otlp::Absent;
        "CPU time spent in one component of an event: an estimate, the event's time split \
         by sampled stacks.";
        |inputs, out| per_component(inputs, PARTS, |cpu, component, value| {
            let event = component.parent.as_deref().unwrap_or_default();
            out.push(&[cpu, event, &component.slug], value);
        });
    Counter "netto_network_cpu_seconds_total" Seconds ["cpu"];
        "CPU time spent on networking: the sum of its events.";
        |inputs, out| per_component(inputs, &[KindName::Sum], |cpu, component, value| {
            if component.slug == NETWORK {
                out.push(&[cpu], value);
            }
        });
    Counter "netto_samples_total" Count("sample") ["cpu"];
        "Kernel stacks sampled.";
        |inputs, out| inputs.push_row(out, &cost(inputs).stacks_taken, Value::Count);
    Counter "netto_samples_lost_total" Count("sample") ["cpu"];
        "Kernel stacks that were lost for lack of room in the buffer.";
        |inputs, out| inputs.push_row(out, &cost(inputs).stacks_lost, Value::Count);
    Counter "netto_probe_missed_total" Count("run") ["probe", "reason"];
        "How often a probe missed what it is there to see, and why; only where the kernel counts it.";
        |inputs, out| for (way, missed) in inputs.info.missable.iter().zip(&cost(inputs).probe_missed) {
            out.push(&[&way.probe, &way.reason], Value::Count(*missed));
        };
});

#[cfg(test)]
mod tests;
