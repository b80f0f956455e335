//! What netto says of itself, its host, and of those who read it.

use std::sync::atomic::Ordering;

use metrics_common::Availability;
use prometheus::proto::MetricType;

use crate::prometheus::family::{Family, Series};
use netto_pipeline::metrics_collector::Sink;

/// The families.
pub const FAMILIES: &[Family<Series>] = &[
    Family {
        name: "netto_build_info",
        help: "A constant 1, labelled with the version of netto.",
        metric_type: MetricType::GAUGE,
        labels: &["version"],
        series: |inputs, out| out.push(&[&inputs.info.version], 1.0),
    },
    Family {
        name: "netto_host_info",
        help: "A constant 1, labelled with the kernel release and the host name.",
        metric_type: MetricType::GAUGE,
        labels: &["kernel", "hostname"],
        series: |inputs, out| out.push(&[&inputs.info.kernel, &inputs.info.hostname], 1.0),
    },
    Family {
        name: "netto_component_info",
        help: "A constant 1 for every component that is measured here, with the method.",
        metric_type: MetricType::GAUGE,
        labels: &["component", "parent", "kind", "method"],
        series: |inputs, out| {
            for component in &inputs.info.components {
                if let Availability::Available { method } = &component.availability {
                    let parent = component.parent.as_deref().unwrap_or_default();
                    let kind = component.kind.as_str();
                    out.push(&[&component.slug, parent, kind, method.as_str()], 1.0);
                }
            }
        },
    },
    Family {
        name: "netto_probe_attached",
        help: "Whether a probe is attached (1) or could not be (0).",
        metric_type: MetricType::GAUGE,
        labels: &["probe", "method"],
        series: |inputs, out| {
            // A probe may serve several purposes; the series must stay one.
            let mut seen = Vec::new();
            for probe in &inputs.info.probes {
                let key = (&probe.name, &probe.method);
                if seen.contains(&key) {
                    continue;
                }
                seen.push(key);
                let attached = inputs
                    .info
                    .probes
                    .iter()
                    .filter(|other| (&other.name, &other.method) == key)
                    .all(|other| other.failure.is_none());
                out.push(
                    &[&probe.name, probe.method.as_str()],
                    f64::from(u8::from(attached)),
                );
            }
        },
    },
    Family {
        name: "netto_snapshots_total",
        help: "Intervals measured.",
        metric_type: MetricType::COUNTER,
        labels: &[],
        series: |inputs, out| out.push(&[], inputs.totals.snapshots as f64),
    },
    Family {
        name: "netto_last_snapshot_timestamp_seconds",
        help: "End of the last interval, seconds since the Unix epoch.",
        metric_type: MetricType::GAUGE,
        labels: &[],
        series: |inputs, out| {
            if inputs.totals.snapshots > 0 {
                out.push(&[], inputs.totals.sum.time_unix_ns as f64 / 1e9);
            }
        },
    },
    Family {
        name: "netto_sink_dropped_snapshots_total",
        help: "Snapshots that a sink missed because it was too slow.",
        metric_type: MetricType::COUNTER,
        labels: &["sink"],
        series: |inputs, out| {
            for sink in Sink::ALL {
                out.push(&[sink.slug()], inputs.drops.get(sink) as f64);
            }
        },
    },
    Family {
        name: "netto_http_malformed_requests_total",
        help: "Requests that were no HTTP, or no TLS where that is spoken.",
        metric_type: MetricType::COUNTER,
        labels: &[],
        series: |inputs, out| out.push(&[], inputs.clients.malformed.total() as f64),
    },
    Family {
        name: "netto_http_connections_given_away_total",
        help: "Connections that were closed or refused because others needed the place.",
        metric_type: MetricType::COUNTER,
        labels: &[],
        series: |inputs, out| {
            out.push(
                &[],
                inputs.clients.given_away.load(Ordering::Relaxed) as f64,
            );
        },
    },
];
