//! The metrics: CPU time of networking and its components.

use metrics_common::{ComponentInfo, Cost, KindName};
use netto_metrics::catalogue::{Catalogue, Family, Inputs, Otlp, Samples, Unit, Value};

/// The component whose parts are networking's events.
const NETWORK: &str = "network";
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
            .filter(|(own, _)| of_event(own))
            .collect();
        let is_split = parts.iter().any(|(own, _)| own.kind == KindName::Remainder);
        let shown = match is_split {
            true => parts
                .iter()
                .map(|(own, row)| (own.slug.as_str(), *row))
                .collect(),
            false => vec![("", row)],
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
pub const METRICS: Catalogue = Catalogue::of(&[
    Family::counter(
        "netto_cpu_seconds_total",
        Unit::Seconds,
        "CPU time spent on an event of the network stack (or another softirq, for context). \
         netto_component_info tells by which method each is measured.",
        &["cpu", "event"],
        |inputs, out| {
            per_component(inputs, EVENTS, |cpu, component, value| {
                out.push(&[cpu, &component.slug], value);
            });
        },
    )
    .in_otlp(Otlp::Instead(
        &["cpu", "event", "component", "network"],
        events_or_their_parts,
    )),
    Family::counter(
        "netto_calls_total",
        Unit::Count("call"),
        "How often an event was entered: socket calls where they are timed, and softirqs.",
        &["cpu", "event"],
        |inputs, out| {
            inputs.per_cpu(|cpu, column| {
                for (component, row) in inputs.info.components.iter().zip(&cost(inputs).entries) {
                    if let Some(entries) = row.as_ref().and_then(|row| row.get(column)) {
                        out.push(&[cpu, &component.slug], Value::Count(*entries));
                    }
                }
            });
        },
    ),
    Family::counter(
        "netto_ksoftirqd_rx_seconds_total",
        Unit::Seconds,
        "Part of the RX softirq's CPU time that ran in ksoftirqd, because there was too much of it.",
        &["cpu"],
        |inputs, out| {
            if let Some(row) = &cost(inputs).ksoftirqd_rx_ns {
                inputs.push_row(out, row, Value::Nanoseconds);
            }
        },
    ),
    Family::counter(
        "netto_component_cpu_seconds_total",
        Unit::Seconds,
        "CPU time spent in one component of an event: an estimate, the event's time split \
         by sampled stacks.",
        &["cpu", "event", "component"],
        |inputs, out| {
            per_component(inputs, PARTS, |cpu, component, value| {
                let event = component.parent.as_deref().unwrap_or_default();
                out.push(&[cpu, event, &component.slug], value);
            });
        },
    )
    // Included in `netto.cpu.time`.
    .in_otlp(Otlp::Absent),
    Family::counter(
        "netto_network_cpu_seconds_total",
        Unit::Seconds,
        "CPU time spent on networking: the sum of its events.",
        &["cpu"],
        |inputs, out| {
            per_component(inputs, &[KindName::Sum], |cpu, component, value| {
                if component.slug == NETWORK {
                    out.push(&[cpu], value);
                }
            });
        },
    ),
    Family::counter(
        "netto_samples_total",
        Unit::Count("sample"),
        "Kernel stacks sampled.",
        &["cpu"],
        |inputs, out| {
            inputs.push_row(out, &cost(inputs).stacks_taken, Value::Count);
        },
    ),
    Family::counter(
        "netto_samples_lost_total",
        Unit::Count("sample"),
        "Kernel stacks that were lost for lack of room in the buffer.",
        &["cpu"],
        |inputs, out| {
            inputs.push_row(out, &cost(inputs).stacks_lost, Value::Count);
        },
    ),
    Family::counter(
        "netto_probe_missed_total",
        Unit::Count("run"),
        "How often a probe missed what it is there to see, and why; only where the kernel counts it.",
        &["probe", "reason"],
        |inputs, out| {
            for (way, missed) in inputs.info.missable.iter().zip(&cost(inputs).probe_missed) {
                out.push(&[&way.probe, &way.reason], Value::Count(*missed));
            }
        },
    ),
]);

#[cfg(test)]
mod tests;
