//! Converts running totals to an OTLP request.
//!
//! Pure. Sums are cumulative since the start of netto. Quantities that are not measured have no
//! points.

use metrics_common::Info;
use metrics_common::histogram::Histogram;
use netto_questions::figures::visible;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Attribute;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Metric,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, metric,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

use crate::catalogue::{Catalogue, Family, Inputs, Kind, Otlp, Samples, Value};
use crate::families::families;
use crate::histogram::{self, SCHEMA, ZERO_THRESHOLD};

/// Labels whose values are numbers.
const NUMBERS: &[&str] = &["cpu"];
/// Labels whose values are `true` or `false`.
const FLAGS: &[&str] = &["network", "hardware"];

/// The attribute of a label: OpenTelemetry's where its semantic conventions have one.
fn name_of(label: &'static str, value: &str) -> &'static str {
    match label {
        "cpu" => "cpu.logical_number",
        "mode" => "cpu.mode",
        "interface" => "network.interface.name",
        "container" => "container.id",
        "namespace" => "k8s.namespace.name",
        // A pod whose name is unknown has its identifier instead.
        "pod" if is_uid(value) => "k8s.pod.uid",
        "pod" => "k8s.pod.name",
        _ => label,
    }
}

/// Whether it has the form of a UUID, with hyphens or underscores.
fn is_uid(text: &str) -> bool {
    const HYPHENS: [usize; 4] = [8, 13, 18, 23];
    text.len() == 36
        && text.char_indices().all(|(at, letter)| {
            if HYPHENS.contains(&at) {
                matches!(letter, '-' | '_')
            } else {
                letter.is_ascii_hexdigit()
            }
        })
}

/// The request for a host: the sum of all intervals since the start of netto.
pub fn request(
    inputs: &Inputs<'_>,
    host_id: Option<&str>,
    catalogues: &[Catalogue],
) -> ExportMetricsServiceRequest {
    let metrics = families(catalogues, false).filter_map(|family| metric(family, inputs));
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource(inputs.info, host_id)),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(InstrumentationScope {
                    name: "netto".to_owned(),
                    version: inputs.info.version.clone(),
                    ..InstrumentationScope::default()
                }),
                metrics: metrics.collect(),
                schema_url: String::new(),
            }],
            schema_url: String::new(),
        }],
    }
}

/// A family with its points; `None` if there are none.
fn metric(family: &Family, inputs: &Inputs<'_>) -> Option<Metric> {
    let name = family.otlp_name()?;
    let (labels, samples) = match family.otlp {
        Otlp::Instead(labels, samples) => (labels, samples),
        _ => (family.labels, family.samples),
    };
    let time_ns = inputs.sum().time_unix_ns;
    let mut points = Points {
        labels,
        time_ns,
        // A current state has no start time.
        start_ns: match family.kind {
            Kind::Gauge => 0,
            _ => inputs.info.started_unix_ns.min(time_ns),
        },
        numbers: Vec::new(),
        histograms: Vec::new(),
    };
    samples(inputs, &mut points);
    let Points {
        numbers: data_points,
        histograms,
        ..
    } = points;
    if data_points.is_empty() && histograms.is_empty() {
        return None;
    }
    let aggregation_temporality = AggregationTemporality::Cumulative.into();
    let data = match family.kind {
        Kind::Counter => metric::Data::Sum(Sum {
            data_points,
            aggregation_temporality,
            is_monotonic: true,
        }),
        Kind::Gauge => metric::Data::Gauge(Gauge { data_points }),
        Kind::Histogram => metric::Data::ExponentialHistogram(ExponentialHistogram {
            data_points: histograms,
            aggregation_temporality,
        }),
    };
    Some(Metric {
        name,
        unit: family.unit.ucum(),
        description: family.help.to_owned(),
        data: Some(data),
        ..Metric::default()
    })
}

/// Collects the samples of a family as points.
struct Points {
    labels: &'static [&'static str],
    start_ns: u64,
    time_ns: u64,
    numbers: Vec<NumberDataPoint>,
    histograms: Vec<ExponentialHistogramDataPoint>,
}

impl Points {
    fn attributes(&self, values: &[&str]) -> Vec<KeyValue> {
        let labels = self.labels.iter().zip(values);
        // As in Prometheus, an empty label is absent.
        let labels = labels.filter(|(_, value)| !value.is_empty());
        let attributes = labels.map(|(label, value)| {
            let name = name_of(label, value);
            let number = value.parse().ok().filter(|_| NUMBERS.contains(label));
            let flag = value.parse().ok().filter(|_| FLAGS.contains(label));
            let text = || Attribute::StringValue(visible(value).into_owned());
            let value = number.map(Attribute::IntValue);
            let value = value.or_else(|| flag.map(Attribute::BoolValue));
            attribute(name, value.unwrap_or_else(text))
        });
        attributes.collect()
    }
}

impl Samples for Points {
    fn push(&mut self, labels: &[&str], value: Value) {
        let value = match value {
            Value::Count(count) => Number::AsInt(i64::try_from(count).unwrap_or(i64::MAX)),
            Value::Nanoseconds(_) | Value::Number(_) => Number::AsDouble(value.as_f64()),
        };
        self.numbers.push(NumberDataPoint {
            attributes: self.attributes(labels),
            start_time_unix_nano: self.start_ns,
            time_unix_nano: self.time_ns,
            value: Some(value),
            ..NumberDataPoint::default()
        });
    }

    fn push_histogram(&mut self, labels: &[&str], latencies: &Histogram) {
        let native = histogram::native(latencies);
        let first = native.buckets.first().map_or(0, |(index, _)| *index);
        let last = native.buckets.last().map_or(-1, |(index, _)| *index);
        let mut bucket_counts = vec![0; (last + 1 - first).unsigned_abs() as usize];
        for (index, count) in &native.buckets {
            bucket_counts[(index - first).unsigned_abs() as usize] = *count;
        }
        self.histograms.push(ExponentialHistogramDataPoint {
            attributes: self.attributes(labels),
            start_time_unix_nano: self.start_ns,
            time_unix_nano: self.time_ns,
            count: latencies.count(),
            sum: Some(latencies.sum_ns as f64 / 1e9),
            scale: SCHEMA,
            zero_count: native.zero,
            zero_threshold: ZERO_THRESHOLD,
            // A bucket's number denotes its end in Prometheus, and its beginning here.
            positive: Some(Buckets {
                offset: first - 1,
                bucket_counts,
            }),
            ..ExponentialHistogramDataPoint::default()
        });
    }
}

/// The host and the service, under OpenTelemetry's attribute names.
fn resource(info: &Info, host_id: Option<&str>) -> Resource {
    let mut attributes = vec![
        text("service.name", "netto"),
        text("service.version", &info.version),
        // One netto measures a host: the host's name is unique and stays over restarts.
        text("service.instance.id", &info.hostname),
        text("host.name", &info.hostname),
        text("os.type", "linux"),
        text("os.version", &info.kernel),
    ];
    attributes.extend(host_id.map(|id| text("host.id", id)));
    if !info.boot_id.is_empty() {
        attributes.push(text("netto.boot.id", &info.boot_id));
    }
    Resource {
        attributes,
        ..Resource::default()
    }
}

fn attribute(key: &str, value: Attribute) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Attribute::StringValue(value.to_owned()))
}

#[cfg(test)]
mod tests;
