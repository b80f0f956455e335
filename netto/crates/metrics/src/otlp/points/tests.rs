//! What is pushed of a snapshot, and what is not.

use metrics_common::component::index_of;

use super::*;
use metrics_common::fixture::{measured as snapshot, without_xdp as info};

fn points(request: &ExportMetricsServiceRequest, name: &str) -> Vec<NumberDataPoint> {
    let metrics = request.resource_metrics[0].scope_metrics[0].metrics.iter();
    let found: Vec<_> = metrics.filter(|metric| metric.name == name).collect();
    match found[..] {
        [] => Vec::new(),
        [metric] => match metric.data.clone().unwrap() {
            metric::Data::Sum(sum) => {
                assert!(sum.is_monotonic);
                assert_eq!(sum.aggregation_temporality, 2, "cumulative");
                sum.data_points
            }
            metric::Data::Gauge(gauge) => gauge.data_points,
            other => panic!("{other:?}"),
        },
        _ => panic!("{name} twice"),
    }
}

fn is(point: &NumberDataPoint, key: &str, value: &Value) -> bool {
    let wanted = Some(AnyValue {
        value: Some(value.clone()),
    });
    point
        .attributes
        .iter()
        .any(|attribute| attribute.key == key && attribute.value == wanted)
}

fn value(point: &NumberDataPoint) -> f64 {
    match point.value {
        Some(Number::AsDouble(value)) => value,
        Some(Number::AsInt(value)) => value as f64,
        None => panic!("a point without a value"),
    }
}

#[test]
fn all_points_of_networking_add_up_to_what_its_events_took() {
    let mut sum = snapshot(1);
    sum.add(&snapshot(2));
    let info = info();
    let request = request(&info, &sum);
    let times = points(&request, "netto.cpu.time");
    for (index, event) in info.components.iter().enumerate() {
        if !is_event(event) {
            continue;
        }
        let slug = Value::StringValue(event.slug.clone());
        let of_event: Vec<_> = times.iter().filter(|p| is(p, "event", &slug)).collect();
        let is_split = of_event.iter().all(|p| p.attributes.len() == 4);
        assert!(is_split || of_event.iter().all(|p| p.attributes.len() == 3));
        let network = Value::BoolValue(event.parent.as_deref() == Some(NETWORK));
        assert!(of_event.iter().all(|p| is(p, "network", &network)));
        if let (false, Some(ns)) = (is_split, sum.total_ns(index)) {
            let seconds: f64 = of_event.iter().map(|p| value(p)).sum();
            assert!((seconds - ns as f64 / 1e9).abs() < 1e-9, "{}", event.slug);
        }
    }
    let point = times
        .iter()
        .find(|p| is(p, "component", &Value::StringValue("gro".to_owned())))
        .unwrap();
    assert!(is(point, "cpu", &Value::IntValue(0)), "{point:?}");
    let row = sum.cost().cpu_ns(index_of("gro").unwrap()).unwrap();
    assert_eq!(value(point), row[0] as f64 / 1e9);
    assert_eq!(point.time_unix_nano, sum.time_unix_ns);
    assert!(point.start_time_unix_nano <= point.time_unix_nano);
}

#[test]
fn what_is_not_measured_has_no_points() {
    let request = request(&info(), &snapshot(1));
    for name in ["netto.network.energy", "netto.energy", "netto.overhead"] {
        assert_eq!(points(&request, name), [], "{name}");
    }
    let hidden = Value::StringValue("xdp_generic".to_owned());
    let times = points(&request, "netto.cpu.time");
    assert!(!times.iter().any(|point| is(point, "component", &hidden)));
}

#[test]
fn an_event_that_is_not_split_stands_for_itself() {
    let mut measured = snapshot(1);
    let info = info();
    let remainder = index_of("rx_unattributed").unwrap();
    measured.sections.cost.as_mut().unwrap().components[remainder] = None;
    let request = request(&info, &measured);
    let slug = Value::StringValue("rx_softirq".to_owned());
    let times = points(&request, "netto.cpu.time");
    let of_event: Vec<_> = times.iter().filter(|p| is(p, "event", &slug)).collect();
    assert_eq!(of_event.len(), measured.cpus.len());
    let row = measured.cost().cpu_ns(index_of("rx_softirq").unwrap());
    assert_eq!(value(of_event[1]), row.unwrap()[1] as f64 / 1e9);
}

#[test]
fn the_host_is_told_by_the_usual_attributes() {
    let info = info();
    let resource = resource(&info);
    let of = |key: &str| {
        let found = resource.attributes.iter().find(|a| a.key == key).unwrap();
        found.value.clone().unwrap().value.unwrap()
    };
    assert_eq!(of("host.name"), Value::StringValue(info.hostname.clone()));
    assert_eq!(of("os.version"), Value::StringValue(info.kernel.clone()));
    assert_eq!(of("service.name"), Value::StringValue("netto".to_owned()));
}
