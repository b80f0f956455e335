//! Its metrics: totals only, since conversations come and go without end.

use metrics_common::Flows;
use netto_metrics::catalogue::{Catalogue, Inputs, Samples, Value};
use netto_metrics::metrics;

fn push(inputs: &Inputs<'_>, out: &mut dyn Samples, of: fn(&Flows) -> u64) {
    let count = inputs.sum().sections.flows.as_ref().map(of);
    out.push_known(&[], count.map(Value::Count));
}

/// What is exported.
pub(crate) const METRICS: Catalogue = Catalogue::of(metrics! {
    Counter "netto_flow_packets_total" Count("packet") [];
        "IP packets seen at the interfaces of --flows, in both directions.";
        |inputs, out| push(inputs, out, |flows| flows.packets);
    Counter "netto_flow_bytes_total" Bytes [];
        "Bytes of these packets, of IP.";
        |inputs, out| push(inputs, out, |flows| flows.bytes);
    Counter "netto_flow_lost_packets_total" Count("packet") [];
        "Those of these packets that are in no flow and in no prefix, because there were too many.";
        |inputs, out| push(inputs, out, |flows| flows.lost_packets);
    Counter "netto_flow_prefix_packets_total" Count("packet") [];
        "Those of these packets that are counted by prefix, because there were too many flows.";
        |inputs, out| push(inputs, out, |flows| flows.prefix_packets);
    Counter "netto_flow_malformed_frames_total" Count("frame") [];
        "Frames at these interfaces whose headers are wrong or cut off.";
        |inputs, out| push(inputs, out, |flows| flows.malformed_packets);
    Counter "netto_flow_other_frames_total" Count("frame") [];
        "Frames at these interfaces that carry no IP packet.";
        |inputs, out| push(inputs, out, |flows| flows.other_packets);
    Counter "netto_flows_ended_total" Count("flow") [];
        "Flows that have ended, each direction by itself.";
        |inputs, out| push(inputs, out, |flows| flows.ended);
    Gauge "netto_flows_active" Count("flow") [];
        "Flows under way at the end of the newest interval, each direction by itself.";
        |inputs, out| push(inputs, out, |flows| flows.active);
    Gauge "netto_flows_one_in" Count("packet") [];
        "One in so many packets is sampled for conversations; totals have all.";
        |inputs, out| push(inputs, out, |flows| flows.one_in);
});
