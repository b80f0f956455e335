//! Metrics about netto itself, its host, and its clients.

use std::sync::atomic::Ordering;

use metrics_common::Availability;

use crate::catalogue::{Family, Otlp, Value};
use crate::metrics;
use netto_pipeline::metrics_collector::Sink;

/// A constant 1, for its labels.
const ONE: Value = Value::Count(1);

/// The families.
pub const METRICS: &[Family] = metrics! {
    // OTLP has it in the resource.
    Gauge "netto_build_info" Info ["version"] as Otlp::Absent;
        "A constant 1, labelled with the version of netto.";
        |inputs, out| out.push(&[&inputs.info.version], ONE);
    Gauge "netto_host_info" Info ["kernel", "hostname"] as Otlp::Absent;
        "A constant 1, labelled with the kernel release and the host name.";
        |inputs, out| out.push(&[&inputs.info.kernel, &inputs.info.hostname], ONE);
    Gauge "netto_component_info" Info ["component", "parent", "kind", "method"];
        "A constant 1 for every component that is measured here, with the method.";
        |inputs, out| for component in &inputs.info.components {
            if let Availability::Available { method } = &component.availability {
                let parent = component.parent.as_deref().unwrap_or_default();
                let kind = component.kind.as_str();
                out.push(&[&component.slug, parent, kind, method.as_str()], ONE);
            }
        };
    Gauge "netto_probe_attached" Flag ["probe", "method"];
        "Whether a probe is attached (1) or could not be (0).";
        |inputs, out| {
            // A probe may serve several purposes; its series must be unique.
            let mut seen = Vec::new();
            let probes = &inputs.info.probes;
            for probe in probes {
                let key = (&probe.name, &probe.method);
                if seen.contains(&key) {
                    continue;
                }
                seen.push(key);
                let mut same = probes.iter().filter(|probe| (&probe.name, &probe.method) == key);
                let attached = same.all(|probe| probe.failure.is_none());
                let labels = [probe.name.as_str(), probe.method.as_str()];
                out.push(&labels, Value::Count(attached.into()));
            }
        };
    Counter "netto_snapshots_total" Count("interval") [];
        "Intervals measured.";
        |inputs, out| out.push(&[], Value::Count(inputs.totals.snapshots));
    Gauge "netto_last_snapshot_timestamp_seconds" Timestamp [];
        "End of the last interval, seconds since the Unix epoch.";
        |inputs, out| {
            if inputs.totals.snapshots > 0 {
                out.push(&[], Value::Number(inputs.sum().time_unix_ns as f64 / 1e9));
            }
        };
    Counter "netto_sink_dropped_snapshots_total" Count("snapshot") ["sink"];
        "Snapshots that a sink missed because it was too slow.";
        |inputs, out| for sink in Sink::ALL {
            out.push(&[sink.slug()], Value::Count(inputs.drops.get(sink)));
        };
    Counter "netto_http_malformed_requests_total" Count("request") [];
        "Requests that were no HTTP, or no TLS where that is spoken.";
        |inputs, out| out.push(&[], Value::Count(inputs.clients.malformed.total()));
    Counter "netto_http_connections_given_away_total" Count("connection") [];
        "Connections that were closed or refused because others needed the place.";
        |inputs, out| {
            let given_away = inputs.clients.given_away.load(Ordering::Relaxed);
            out.push(&[], Value::Count(given_away));
        };
};
