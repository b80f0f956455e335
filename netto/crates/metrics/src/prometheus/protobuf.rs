//! The metrics as length-delimited messages of `io.prometheus.client`: the only format in which
//! Prometheus scrapes native histograms.
//!
//! The messages are the part of Prometheus' data model that netto uses, with its field numbers.

use metrics_common::histogram::Histogram as Latencies;
use netto_questions::figures::visible;
use prost::Message;

use crate::catalogue::{Family, Kind, Samples, Value};
use crate::histogram::{self, SCHEMA, ZERO_THRESHOLD};
use crate::per_cpu::Page;

/// The media type of requests and answers.
pub const CONTENT_TYPE: &str = "application/vnd.google.protobuf; \
                                proto=io.prometheus.client.MetricFamily; encoding=delimited";
/// The type of the messages.
pub(super) const MESSAGE: &str = "io.prometheus.client.MetricFamily";
/// The type of a counter.
const COUNTER: i32 = 0;

#[derive(Clone, PartialEq, Message)]
struct MetricFamily {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    help: String,
    #[prost(int32, tag = "3")]
    kind: i32,
    #[prost(message, repeated, tag = "4")]
    metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(double, tag = "1")]
    value: f64,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(uint64, tag = "1")]
    count: u64,
    #[prost(double, tag = "2")]
    sum: f64,
    #[prost(message, repeated, tag = "3")]
    classic: Vec<Bucket>,
    #[prost(sint32, tag = "5")]
    schema: i32,
    #[prost(double, tag = "6")]
    zero_threshold: f64,
    #[prost(uint64, tag = "7")]
    zero_count: u64,
    #[prost(message, repeated, tag = "12")]
    spans: Vec<Span>,
    #[prost(sint64, repeated, tag = "13")]
    deltas: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Bucket {
    #[prost(uint64, tag = "1")]
    cumulative_count: u64,
    #[prost(double, tag = "2")]
    upper_bound: f64,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

impl Histogram {
    fn of(latencies: &Latencies) -> Self {
        let native = histogram::native(latencies);
        let (spans, deltas) = histogram::spans(&native);
        let classic = histogram::classic(latencies).into_iter();
        let spans = spans.into_iter();
        Histogram {
            count: latencies.count(),
            sum: latencies.sum_ns as f64 / 1e9,
            classic: classic
                .map(|(upper_bound, cumulative_count)| Bucket {
                    cumulative_count,
                    upper_bound,
                })
                .collect(),
            schema: SCHEMA,
            zero_threshold: ZERO_THRESHOLD,
            zero_count: native.zero,
            spans: spans
                .map(|(offset, length)| Span { offset, length })
                .collect(),
            deltas,
        }
    }
}

/// A page of metrics being written.
#[derive(Debug, Default)]
pub struct Messages {
    bytes: Vec<u8>,
    labels: &'static [&'static str],
    family: MetricFamily,
}

/// The number of a kind among the messages' types.
fn type_of(kind: Kind) -> i32 {
    match kind {
        Kind::Counter => COUNTER,
        Kind::Gauge => 1,
        Kind::Histogram => 4,
    }
}

impl Page for Messages {
    fn family(&mut self, family: &Family, add: &mut dyn FnMut(&mut dyn Samples)) {
        self.labels = family.labels;
        self.family = MetricFamily {
            name: family.name.to_owned(),
            help: family.help.to_owned(),
            kind: type_of(family.kind),
            metrics: Vec::new(),
        };
        add(self);
        if !self.family.metrics.is_empty() {
            let bytes = self.family.encode_length_delimited_to_vec();
            self.bytes.extend(bytes);
        }
    }
}

impl Messages {
    /// The whole page.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn metric(&self, values: &[&str]) -> Metric {
        let labels = self.labels.iter().zip(values);
        Metric {
            labels: labels
                .map(|(name, value)| Label {
                    name: (*name).to_owned(),
                    value: visible(value).into_owned(),
                })
                .collect(),
            ..Metric::default()
        }
    }
}

impl Samples for Messages {
    fn push(&mut self, values: &[&str], value: Value) {
        let number = Some(Number {
            value: value.as_f64(),
        });
        let mut metric = self.metric(values);
        if self.family.kind == COUNTER {
            metric.counter = number;
        } else {
            metric.gauge = number;
        }
        self.family.metrics.push(metric);
    }

    fn push_histogram(&mut self, values: &[&str], latencies: &Latencies) {
        let mut metric = self.metric(values);
        metric.histogram = Some(Histogram::of(latencies));
        self.family.metrics.push(metric);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics;

    #[test]
    fn series_and_histograms_are_read_back() {
        const THINGS: Family = metrics! {
            Counter "netto_things_total" Seconds ["cpu"]; "Things."; |_, _| {};
        }[0];
        const LATENCY: Family = metrics! {
            Histogram "netto_wait_seconds" Seconds ["cpu"]; ""; |_, _| {};
        }[0];
        let mut messages = Messages::default();
        messages.family(&THINGS, &mut |out| {
            out.push(&["3"], Value::Nanoseconds(1_500_000_000))
        });
        messages.family(&THINGS, &mut |_| {});
        let mut latencies = Latencies::default();
        for ns in [10, 1 << 20, (1 << 20) + 1] {
            latencies.record(ns);
        }
        messages.family(&LATENCY, &mut |out| out.push_histogram(&["3"], &latencies));
        let bytes = messages.into_bytes();
        let mut rest = bytes.as_slice();
        let counter = MetricFamily::decode_length_delimited(&mut rest).unwrap();
        assert_eq!(
            (counter.kind, counter.name.as_str()),
            (0, "netto_things_total")
        );
        assert_eq!(counter.metrics[0].counter.as_ref().unwrap().value, 1.5);
        assert_eq!(counter.metrics[0].labels[0].value, "3");
        let family = MetricFamily::decode_length_delimited(&mut rest).unwrap();
        assert!(rest.is_empty() && family.kind == 4);
        let histogram = family.metrics[0].histogram.as_ref().unwrap();
        assert_eq!(
            (histogram.count, histogram.zero_count, histogram.schema),
            (3, 1, 2)
        );
        // Their bucket overlaps those that end at 2^-9.75 and 2^-9.5 s; two packets are not enough
        // for a count in both.
        assert_eq!(histogram.spans[0].offset, -38, "{histogram:?}");
        assert_eq!(histogram.deltas, [2]);
        assert_eq!(histogram.classic.len(), 29);
    }
}
