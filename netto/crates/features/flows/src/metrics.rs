//! Its metrics: totals only, since conversations come and go without end.

use metrics_common::Flows;
use netto_metrics::catalogue::{Catalogue, Family, Inputs, Samples, Unit, Value};

fn push(inputs: &Inputs<'_>, out: &mut dyn Samples, of: fn(&Flows) -> u64) {
    if let Some(flows) = &inputs.sum().sections.flows {
        out.push(&[], Value::Count(of(flows)));
    }
}

/// What is exported.
pub(crate) const METRICS: Catalogue = Catalogue::of(&[
    Family::counter(
        "netto_flow_packets_total",
        Unit::Count("packet"),
        "IP packets seen at the interfaces of --flows, in both directions.",
        &[],
        |inputs, out| push(inputs, out, |flows| flows.packets),
    ),
    Family::counter(
        "netto_flow_bytes_total",
        Unit::Bytes,
        "Bytes of these packets, of IP.",
        &[],
        |inputs, out| push(inputs, out, |flows| flows.bytes),
    ),
    Family::counter(
        "netto_flow_lost_packets_total",
        Unit::Count("packet"),
        "Those of these packets that are in no flow and in no prefix, because there were too many.",
        &[],
        |inputs, out| push(inputs, out, |flows| flows.lost_packets),
    ),
    Family::counter(
        "netto_flow_prefix_packets_total",
        Unit::Count("packet"),
        "Those of these packets that are counted by prefix, because there were too many flows.",
        &[],
        |inputs, out| push(inputs, out, |flows| flows.prefix_packets),
    ),
    Family::counter(
        "netto_flow_malformed_frames_total",
        Unit::Count("frame"),
        "Frames at these interfaces whose headers are wrong or cut off.",
        &[],
        |inputs, out| push(inputs, out, |flows| flows.malformed_packets),
    ),
    Family::counter(
        "netto_flow_other_frames_total",
        Unit::Count("frame"),
        "Frames at these interfaces that carry no IP packet.",
        &[],
        |inputs, out| push(inputs, out, |flows| flows.other_packets),
    ),
    Family::counter(
        "netto_flows_ended_total",
        Unit::Count("flow"),
        "Flows that have ended, each direction by itself.",
        &[],
        |inputs, out| push(inputs, out, |flows| flows.ended),
    ),
    Family::gauge(
        "netto_flows_active",
        Unit::Count("flow"),
        "Flows under way at the end of the newest interval, each direction by itself.",
        &[],
        |inputs, out| push(inputs, out, |flows| flows.active),
    ),
    Family::gauge(
        "netto_flows_one_in",
        Unit::Count("packet"),
        "One in so many packets is sampled for conversations; totals have all.",
        &[],
        |inputs, out| push(inputs, out, |flows| flows.one_in),
    ),
]);
