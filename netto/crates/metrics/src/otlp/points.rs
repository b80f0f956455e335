//! From running totals to a request in OTLP: which metrics there are, and what they are called.
//!
//! Pure. Sums are cumulative since netto's start. A thing that is not measured has no points.

use metrics_common::{ComponentInfo, CpuModes, Info, KindName, OwnPart, Snapshot};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
    metric,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

/// The component whose parts are networking's events.
const NETWORK: &str = "network";

/// What is told of a host: the sum of all intervals since netto's start.
pub fn request(info: &Info, sum: &Snapshot) -> ExportMetricsServiceRequest {
    let points = Points {
        start_ns: info.started_unix_ns.min(sum.time_unix_ns),
        time_ns: sum.time_unix_ns,
        cpus: &sum.cpus,
    };
    let mut metrics = Vec::new();
    cost(&points, info, sum, &mut metrics);
    modes(&points, sum, &mut metrics);
    power(&points, sum, &mut metrics);
    own(&points, info, sum, &mut metrics);
    metrics.retain(has_points);
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource(info)),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(InstrumentationScope {
                    name: "netto".to_owned(),
                    version: info.version.clone(),
                    ..InstrumentationScope::default()
                }),
                metrics,
                schema_url: String::new(),
            }],
            schema_url: String::new(),
        }],
    }
}

/// The host and the service, by the names that OpenTelemetry gives to their attributes.
fn resource(info: &Info) -> Resource {
    let mut attributes = vec![
        text("service.name", "netto"),
        text("service.version", &info.version),
        // One netto measures a host: its name tells it from others, and stays over restarts.
        text("service.instance.id", &info.hostname),
        text("host.name", &info.hostname),
        text("os.type", "linux"),
        text("os.version", &info.kernel),
    ];
    if !info.boot_id.is_empty() {
        attributes.push(text("netto.boot.id", &info.boot_id));
    }
    Resource {
        attributes,
        ..Resource::default()
    }
}

fn cost(points: &Points<'_>, info: &Info, sum: &Snapshot, metrics: &mut Vec<Metric>) {
    let cost = sum.cost();
    let row_of = |index: usize| cost.components.get(index)?.as_deref();
    let rows = || info.components.iter().enumerate();
    let (mut times, mut calls, mut network) = (Vec::new(), Vec::new(), Vec::new());
    for (index, event) in rows().filter(|(_, event)| is_event(event)) {
        let slug = text("event", &event.slug);
        let kind = flag("network", event.parent.as_deref() == Some(NETWORK));
        if let Some(row) = cost.entries.get(index).and_then(Option::as_deref) {
            points.per_cpu(&mut calls, row, count, std::slice::from_ref(&slug));
        }
        // Parts and their event never stand side by side: whoever adds up all points
        // counts each nanosecond once.
        let parts = || rows().filter(|(_, part)| is_part_of(part, event));
        let is_split = parts()
            .any(|(index, part)| part.kind == KindName::Remainder && row_of(index).is_some());
        if is_split {
            for (index, part) in parts() {
                let component = text("component", &part.slug);
                let attributes = [slug.clone(), component, kind.clone()];
                let row = row_of(index).unwrap_or_default();
                points.per_cpu(&mut times, row, seconds, &attributes);
            }
        } else {
            let row = row_of(index).unwrap_or_default();
            points.per_cpu(&mut times, row, seconds, &[slug, kind]);
        }
    }
    if let Some((index, _)) = rows().find(|(_, component)| component.slug == NETWORK) {
        let row = row_of(index).unwrap_or_default();
        points.per_cpu(&mut network, row, seconds, &[]);
    }
    let (mut taken, mut lost, mut missed) = (Vec::new(), Vec::new(), Vec::new());
    points.per_cpu(&mut taken, &cost.stacks_taken, count, &[]);
    points.per_cpu(&mut lost, &cost.stacks_lost, count, &[]);
    for (way, times) in info.missable.iter().zip(&cost.probe_missed) {
        let attributes = vec![text("probe", &way.probe), text("reason", &way.reason)];
        missed.push(points.one(count(*times), attributes));
    }
    metrics.extend([
        total(
            "netto.cpu.time",
            "s",
            "CPU time by event of the network stack, and by component where the event's time is \
             split by sampled stacks (an estimate). Of networking if `network` is true.",
            times,
        ),
        total(
            "netto.network.cpu.time",
            "s",
            "CPU time spent on networking: the sum of its events.",
            network,
        ),
        total(
            "netto.calls",
            "{call}",
            "How often an event was entered: socket calls where they are timed, and softirqs.",
            calls,
        ),
        total("netto.samples", "{sample}", "Kernel stacks sampled.", taken),
        total(
            "netto.samples.lost",
            "{sample}",
            "Kernel stacks that were lost for lack of room in the buffer.",
            lost,
        ),
        total(
            "netto.probe.missed",
            "{run}",
            "How often a probe missed what it is there to see, and why.",
            missed,
        ),
    ]);
}

fn is_event(component: &ComponentInfo) -> bool {
    matches!(
        component.kind,
        KindName::Timed | KindName::Estimated | KindName::Carved
    )
}

fn is_part_of(part: &ComponentInfo, event: &ComponentInfo) -> bool {
    matches!(part.kind, KindName::Sampled | KindName::Remainder)
        && part.parent.as_ref() == Some(&event.slug)
}

fn modes(points: &Points<'_>, sum: &Snapshot, metrics: &mut Vec<Metric>) {
    let mut times = Vec::new();
    for (cpu, modes) in sum
        .cpus
        .iter()
        .zip(sum.sections.modes.iter().flat_map(|m| &m.cpus))
    {
        for (mode, ns) in CpuModes::NAMES.iter().zip(modes.values()) {
            let attributes = vec![number("cpu", *cpu), text("mode", mode)];
            times.push(points.one(seconds(ns), attributes));
        }
    }
    metrics.push(total(
        "netto.cpu.mode.time",
        "s",
        "CPU time by mode, as /proc/stat has it.",
        times,
    ));
}

fn power(points: &Points<'_>, sum: &Snapshot, metrics: &mut Vec<Metric>) {
    let Some(power) = &sum.sections.power else {
        return;
    };
    let joules = points.one(Number::AsDouble(power.network_energy_joules), Vec::new());
    let zones = power.zones.iter().map(|zone| {
        let joules = Number::AsDouble(zone.energy_joules);
        points.one(joules, vec![text("zone", &zone.zone)])
    });
    metrics.extend([
        total(
            "netto.network.energy",
            "J",
            "Energy that fell to networking: an estimate.",
            vec![joules],
        ),
        total(
            "netto.energy",
            "J",
            "Energy used by a RAPL zone. Zones contain each other: never sum over all of them.",
            zones.collect(),
        ),
    ]);
}

fn own(points: &Points<'_>, info: &Info, sum: &Snapshot, metrics: &mut Vec<Metric>) {
    if let Some(ratio) = info.max_overhead_ratio {
        metrics.push(gauge(
            "netto.overhead.limit",
            "1",
            "Share of the time of any CPU that netto may cost.",
            vec![points.one(Number::AsDouble(ratio), Vec::new())],
        ));
    }
    let Some(own) = &sum.sections.own else {
        return;
    };
    let mut taken = Vec::new();
    for part in OwnPart::ALL {
        let row = own.part_ns(part).unwrap_or_default();
        points.per_cpu(&mut taken, row, seconds, &[text("part", part.slug())]);
    }
    let daemon = [("user", own.user_ns), ("system", own.system_ns)]
        .map(|(mode, ns)| points.one(seconds(ns), vec![text("mode", mode)]));
    let costliest = own.costliest.iter();
    let costliest = costliest.map(|cpu| points.one(Number::AsDouble(cpu.ratio), Vec::new()));
    let mut rates = Vec::new();
    let row = own.sampling_hz.as_deref().unwrap_or_default();
    points.per_cpu(&mut rates, row, count, &[]);
    metrics.extend([
        total(
            "netto.own.cpu.time",
            "s",
            "CPU time that netto took from a CPU, by part: an estimate.",
            taken,
        ),
        total(
            "netto.daemon.cpu.time",
            "s",
            "CPU time that the netto daemon itself used, by mode.",
            daemon.into(),
        ),
        gauge(
            "netto.daemon.memory",
            "By",
            "Resident memory of the netto daemon.",
            vec![points.one(count(own.resident_bytes), Vec::new())],
        ),
        gauge(
            "netto.overhead",
            "1",
            "Share of the time of the CPU that netto costs most, over the last ten seconds.",
            costliest.collect(),
        ),
        gauge(
            "netto.sampling.frequency",
            "Hz",
            "Stack samples per second that a CPU is asked for now; 0 while it is left alone.",
            rates,
        ),
    ]);
}

/// What all points of a request share.
struct Points<'a> {
    start_ns: u64,
    time_ns: u64,
    cpus: &'a [u32],
}

impl Points<'_> {
    fn one(&self, value: Number, attributes: Vec<KeyValue>) -> NumberDataPoint {
        NumberDataPoint {
            attributes,
            start_time_unix_nano: self.start_ns,
            time_unix_nano: self.time_ns,
            value: Some(value),
            ..NumberDataPoint::default()
        }
    }

    /// A point for each CPU of a row, with more attributes than the CPU.
    fn per_cpu(
        &self,
        out: &mut Vec<NumberDataPoint>,
        row: &[u64],
        value: fn(u64) -> Number,
        attributes: &[KeyValue],
    ) {
        for (cpu, of_cpu) in self.cpus.iter().zip(row) {
            let mut all = Vec::with_capacity(attributes.len() + 1);
            all.push(number("cpu", *cpu));
            all.extend_from_slice(attributes);
            out.push(self.one(value(*of_cpu), all));
        }
    }
}

fn seconds(ns: u64) -> Number {
    Number::AsDouble(ns as f64 / 1e9)
}

fn count(count: u64) -> Number {
    Number::AsInt(i64::try_from(count).unwrap_or(i64::MAX))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

fn number(key: &str, value: u32) -> KeyValue {
    attribute(key, Value::IntValue(value.into()))
}

fn flag(key: &str, value: bool) -> KeyValue {
    attribute(key, Value::BoolValue(value))
}

fn described(name: &str, unit: &str, description: &str, data: metric::Data) -> Metric {
    Metric {
        name: name.to_owned(),
        unit: unit.to_owned(),
        description: description.to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn total(name: &str, unit: &str, description: &str, points: Vec<NumberDataPoint>) -> Metric {
    let sum = Sum {
        data_points: points,
        aggregation_temporality: AggregationTemporality::Cumulative.into(),
        is_monotonic: true,
    };
    described(name, unit, description, metric::Data::Sum(sum))
}

fn gauge(name: &str, unit: &str, description: &str, points: Vec<NumberDataPoint>) -> Metric {
    let gauge = Gauge {
        data_points: points
            .into_iter()
            // What is as of now has no beginning.
            .map(|point| NumberDataPoint {
                start_time_unix_nano: 0,
                ..point
            })
            .collect(),
    };
    described(name, unit, description, metric::Data::Gauge(gauge))
}

fn has_points(metric: &Metric) -> bool {
    match &metric.data {
        Some(metric::Data::Sum(sum)) => !sum.data_points.is_empty(),
        Some(metric::Data::Gauge(gauge)) => !gauge.data_points.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
