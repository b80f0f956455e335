//! Exports by OTLP, decoded by a receiver that is built from the protocol's own types.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use flate2::read::GzDecoder;
use metrics_common::{COMPONENTS, Kind, OwnPart, Snapshot};
use netto::config::Config;
use netto::features::{self, FEATURES};
use netto::run;
use netto_metrics::catalogue::{self, Family};
use netto_metrics::families::families;
use netto_metrics::otlp::target::Target;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{NumberDataPoint, metric};
use prost::Message;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::process::Process;
use crate::support::*;

/// A request as it came.
struct Pushed {
    head: String,
    request: ExportMetricsServiceRequest,
}

/// Listens on loopback, keeps exports, and answers as configured.
struct Receiver {
    address: SocketAddr,
    pushed: mpsc::Receiver<Pushed>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Makes a stream of a connection: with TLS, or without.
type Wrap = Box<dyn Fn(TcpStream) -> Box<dyn Stream> + Send>;

trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

impl Receiver {
    /// Answers with these statuses, one after the other, and then with 200.
    fn start(statuses: &'static [&'static str]) -> Receiver {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        Receiver::start_on(address, statuses, Box::new(|stream| Box::new(stream)))
    }

    fn start_on(address: SocketAddr, statuses: &'static [&'static str], wrap: Wrap) -> Receiver {
        let listener = TcpListener::bind(address).expect("a port");
        let address = listener.local_addr().expect("an address");
        let (sender, pushed) = mpsc::channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let thread = std::thread::spawn(move || {
            let mut statuses = statuses.iter();
            for stream in listener.incoming() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let stream = stream.expect("a connection");
                stream.set_read_timeout(Some(LIMIT)).expect("a time limit");
                let mut stream = wrap(stream);
                // A client that disconnects in the middle has not pushed anything.
                let Some(one) = receive(&mut stream) else {
                    continue;
                };
                let status = statuses.next().unwrap_or(&"200 OK");
                let is_taken = status.starts_with("200");
                let answer =
                    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                let is_told = stream
                    .write_all(answer.as_bytes())
                    .and_then(|()| stream.flush());
                if is_taken && is_told.is_ok() {
                    let _ = sender.send(one);
                }
            }
        });
        Receiver {
            address,
            pushed,
            is_over,
            thread: Some(thread),
        }
    }

    fn next(&self) -> Pushed {
        self.pushed
            .recv_timeout(LIMIT)
            .expect("something is pushed")
    }

    /// Settings of a daemon that pushes every snapshot to this receiver.
    fn config(&self) -> Config {
        Config {
            otlp: Some(Target {
                url: format!("http://{}/v1/metrics", self.address),
                headers: vec![("authorization".to_owned(), "Bearer abc".to_owned())],
                interval: Duration::ZERO,
            }),
            ..config()
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reads one request; `None` if it breaks off.
fn receive(stream: &mut dyn Read) -> Option<Pushed> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    let mut read_more = |bytes: &mut Vec<u8>| {
        let count = stream.read(&mut chunk).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&chunk[..count]);
        Some(())
    };
    let end = loop {
        match bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            Some(end) => break end,
            None => read_more(&mut bytes)?,
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let length: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .expect("a length")
        .trim()
        .parse()
        .expect("a number");
    while bytes.len() < end + 4 + length {
        read_more(&mut bytes)?;
    }
    let mut plain = Vec::new();
    GzDecoder::new(&bytes[end + 4..])
        .read_to_end(&mut plain)
        .expect("gzip");
    let request = ExportMetricsServiceRequest::decode(&plain[..]).expect("OTLP");
    Some(Pushed { head, request })
}

/// The points of a metric by their attributes, and the time that they all have.
fn points(request: &ExportMetricsServiceRequest, name: &str) -> (BTreeMap<String, f64>, u64) {
    let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
    let metric = metrics.iter().find(|metric| metric.name == name);
    let points: Vec<NumberDataPoint> = match metric.and_then(|metric| metric.data.clone()) {
        Some(metric::Data::Sum(sum)) => sum.data_points,
        Some(metric::Data::Gauge(gauge)) => gauge.data_points,
        other => panic!("{name}: {other:?}"),
    };
    let time = points[0].time_unix_nano;
    let mut values = BTreeMap::new();
    for point in points {
        assert_eq!(point.time_unix_nano, time);
        let value = match point.value {
            Some(Number::AsDouble(value)) => value,
            Some(Number::AsInt(value)) => value as f64,
            None => panic!("{name}: no value"),
        };
        let is_new = values.insert(key(&point.attributes), value).is_none();
        assert!(is_new, "{name}: a point twice");
    }
    (values, time)
}

/// `cpu.logical_number=0,event=rx_softirq`
fn key(attributes: &[KeyValue]) -> String {
    let shown: Vec<String> = attributes
        .iter()
        .map(|attribute| {
            let value = match attribute.value.clone().and_then(|value| value.value) {
                Some(Value::StringValue(value)) => value,
                Some(Value::IntValue(value)) => value.to_string(),
                Some(Value::BoolValue(value)) => value.to_string(),
                other => panic!("{other:?}"),
            };
            format!("{}={value}", attribute.key)
        })
        .collect();
    shown.join(",")
}

/// The number of the snapshot with which an export was made.
fn last_snapshot(pushed: &Pushed) -> u64 {
    let (_, time) = points(&pushed.request, "netto.samples");
    (time - snapshot(0).time_unix_ns) / snapshot(0).interval_ns
}

#[test]
fn exports_are_the_sums_of_all_snapshots() {
    let receiver = Receiver::start(&[]);
    let daemon = Daemon::start(&receiver.config(), endless());
    let pushed: Vec<Pushed> = (0..5).map(|_| receiver.next()).collect();
    for one in &pushed {
        assert!(
            one.head.starts_with("post /v1/metrics http/1.1"),
            "{}",
            one.head
        );
        for header in [
            "content-type: application/x-protobuf",
            "authorization: bearer abc",
        ] {
            assert!(one.head.contains(header), "{}", one.head);
        }
        let seen: Vec<Snapshot> = (1..=last_snapshot(one)).map(snapshot).collect();
        check_sums(&one.request, &seen);
    }
    // The same instant, asked for: the page has later sums of the same series.
    let (times, _) = points(&pushed[4].request, "netto.network.cpu.time");
    let page = get(daemon.address, "/metrics", &[]).text();
    for cpu in ["0", "1"] {
        let shown = series(&page, "netto_network_cpu_seconds_total", &[("cpu", cpu)]);
        let pushed = times[&format!("cpu.logical_number={cpu}")];
        assert!(
            shown.is_some_and(|shown| shown >= pushed),
            "{shown:?} {pushed}"
        );
    }
    daemon.stop().expect("a clean end");
}

fn check_sums(request: &ExportMetricsServiceRequest, seen: &[Snapshot]) {
    let count = seen.len() as f64;
    let (mut expected, mut network) = (BTreeMap::new(), 0.0);
    for (index, component) in COMPONENTS.iter().enumerate() {
        let (event, rest) = match component.kind {
            Kind::Sum => continue,
            Kind::Sampled(_) | Kind::Remainder => {
                let event = component.parent.expect("of an event");
                (event, format!(",component={}", component.slug))
            }
            // Told by its parts.
            _ if COMPONENTS
                .iter()
                .any(|part| part.parent == Some(component.slug)) =>
            {
                continue;
            }
            _ => (component.slug, String::new()),
        };
        if component.slug == HIDDEN {
            continue;
        }
        let of_event = COMPONENTS
            .iter()
            .find(|row| row.slug == event)
            .expect("a row");
        let is_network = of_event.parent == Some("network");
        for column in 0..2 {
            let rows = seen
                .iter()
                .map(|s| s.cost().cpu_ns(index).expect("measured")[column]);
            let seconds = rows.sum::<u64>() as f64 / 1e9;
            let key =
                format!("cpu.logical_number={column},event={event}{rest},network={is_network}");
            expected.insert(key, seconds);
            network += if is_network { seconds } else { 0.0 };
        }
    }
    assert!(network > 0.0);
    assert_eq!(points(request, "netto.cpu.time").0, expected);
    let at = |name: &str, key: &str| points(request, name).0[key];
    assert_eq!(at("netto.samples", "cpu.logical_number=0"), 50.0 * count);
    assert_eq!(
        at("netto.samples.lost", "cpu.logical_number=1"),
        3.0 * count
    );
    assert_eq!(at("netto.network.energy", ""), 0.5 * count);
    assert_eq!(at("netto.energy", "zone=package-0"), 2.0 * count);
    assert_eq!(at("netto.overhead", ""), 0.005);
    assert_eq!(at("netto.daemon.memory", ""), f64::from(20 << 20));
    let part = format!("cpu.logical_number=0,part={}", OwnPart::Sampler.slug());
    assert!((at("netto.own.cpu.time", &part) - 1e-3 * count).abs() < 1e-9);
    let resource = request.resource_metrics[0].resource.as_ref().expect("one");
    let attributes = key(&resource.attributes);
    for attribute in [
        "host.name=testhost",
        "os.version=6.18.0-test",
        "service.name=netto",
    ] {
        assert!(attributes.contains(attribute), "{attributes}");
    }
}

/// What Prometheus is told and OTLP is not, with the place that says it instead.
const SAID_ELSEWHERE: [&str; 3] = [
    "netto_component_cpu_seconds_total", // netto.cpu.time
    "netto_build_info",                  // the resource
    "netto_host_info",                   // the resource
];

#[test]
fn every_metric_of_every_feature_is_pushed() {
    let demo = netto_demo::demo(netto_demo::Settings {
        cpus: 4,
        seed: 1,
        period: Duration::from_millis(50),
        frequency_hz: 1000,
        features: FEATURES,
        without: &[],
    });
    let receiver = Receiver::start(&[]);
    let prepared = run::bind(FEATURES, &receiver.config()).expect("the daemon can be prepared");
    let daemon = Daemon::serving(prepared, demo.info, demo.source);
    daemon.wait_for("/metrics", |page| {
        series(&page.text(), "netto_snapshots_total", &[]) >= Some(3.0)
    });
    let page = get(daemon.address, "/metrics", &[]).text();
    // Those before may have been made before the page.
    receiver.pushed.try_iter().for_each(drop);
    receiver.next();
    let request = receiver.next().request;
    let pushed: BTreeMap<&str, &metric::Data> = request.resource_metrics[0].scope_metrics[0]
        .metrics
        .iter()
        .filter_map(|metric| Some((metric.name.as_str(), metric.data.as_ref()?)))
        .collect();
    let mut elsewhere = Vec::new();
    for feature in FEATURES {
        let families = feature.metrics.families;
        let is_pushed = |family: &Family| {
            family
                .otlp_name()
                .is_some_and(|name| pushed.contains_key(&*name))
        };
        assert!(
            families.iter().any(is_pushed),
            "nothing of {}",
            feature.name
        );
    }
    for family in families(&features::metrics(FEATURES), false) {
        let is_shown = page.contains(&format!("\n# TYPE {} ", family.name));
        let Some(name) = family.otlp_name() else {
            elsewhere.push(family.name);
            continue;
        };
        let data = pushed.get(&*name);
        let has_its_kind = matches!(
            (family.kind, data),
            (catalogue::Kind::Counter, Some(metric::Data::Sum(_)))
                | (catalogue::Kind::Gauge, Some(metric::Data::Gauge(_)))
                | (
                    catalogue::Kind::Histogram,
                    Some(metric::Data::ExponentialHistogram(_))
                )
        );
        assert!(has_its_kind || !is_shown, "{name}: {data:?}");
    }
    assert_eq!(elsewhere, SAID_ELSEWHERE);
    daemon.stop().expect("a clean end");
}

#[test]
fn a_receiver_that_restarts_misses_nothing() {
    let receiver = Receiver::start(&[]);
    let daemon = Daemon::start(&receiver.config(), endless());
    let address = receiver.address;
    let mut seen: Vec<u64> = (0..3).map(|_| last_snapshot(&receiver.next())).collect();
    receiver.is_over.store(true, Ordering::SeqCst);
    // Its last connection is refused in the middle, its port is closed.
    seen.extend(receiver.pushed.iter().map(|one| last_snapshot(&one)));
    drop(receiver);
    let goes_on = series(
        &get(daemon.address, "/metrics", &[]).text(),
        "netto_snapshots_total",
        &[],
    )
    .expect("a count");
    daemon.wait_for("/metrics", |page| {
        series(&page.text(), "netto_snapshots_total", &[]) > Some(goes_on + 10.0)
    });
    let receiver = Receiver::start_on(address, &[], Box::new(|stream| Box::new(stream)));
    while seen
        .last()
        .is_none_or(|last| (*last as f64) < goes_on + 10.0)
    {
        seen.push(last_snapshot(&receiver.next()));
    }
    let page = get(daemon.address, "/metrics", &[]).text();
    let dropped = series(
        &page,
        "netto_sink_dropped_snapshots_total",
        &[("sink", "otlp")],
    );
    assert_eq!(dropped, Some(0.0));
    daemon.stop().expect("a clean end");
    seen.extend(receiver.pushed.try_iter().map(|one| last_snapshot(&one)));
    // An export answered while the port was closing may be repeated; none is missing.
    seen.dedup();
    let all: Vec<u64> = (1..=seen.len() as u64).collect();
    assert_eq!(seen, all);
}

#[test]
fn temporary_refusals_are_retried_and_permanent_ones_counted() {
    let receiver = Receiver::start(&["503 Busy\r\nRetry-After: 0", "401 Unauthorized"]);
    let daemon = Daemon::start(&receiver.config(), endless());
    // The first came again and was refused for good then.
    assert_eq!(last_snapshot(&receiver.next()), 2);
    let page = get(daemon.address, "/metrics", &[]).text();
    let dropped = series(
        &page,
        "netto_sink_dropped_snapshots_total",
        &[("sink", "otlp")],
    );
    assert_eq!(dropped, Some(1.0));
    daemon.stop().expect("a clean end");
}

#[test]
fn the_last_interval_is_pushed_before_netto_ends() {
    let receiver = Receiver::start(&[]);
    let mut config = receiver.config();
    if let Some(target) = &mut config.otlp {
        target.interval = Duration::from_secs(3600);
    }
    let daemon = Daemon::start(&config, endless());
    assert_eq!(last_snapshot(&receiver.next()), 1);
    daemon.wait_for("/metrics", |page| {
        series(&page.text(), "netto_snapshots_total", &[]) > Some(3.0)
    });
    daemon.stop().expect("a clean end");
    assert!(last_snapshot(&receiver.next()) > 3);
}

#[test]
fn a_receiver_that_never_answers_delays_nothing_else() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut config = config();
    config.otlp = Some(Target {
        url: format!(
            "http://{}/v1/metrics",
            silent.local_addr().expect("an address")
        ),
        headers: Vec::new(),
        interval: Duration::ZERO,
    });
    let daemon = Daemon::start(&config, endless());
    daemon.wait_for("/metrics", |page| {
        series(&page.text(), "netto_snapshots_total", &[]) > Some(20.0)
    });
    daemon.stop().expect("an end, in time");
}

#[test]
fn metrics_are_pushed_by_tls_to_whom_this_host_trusts() {
    let key = KeyPair::generate().expect("a key");
    let names = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    let certificate = names.self_signed(&key).expect("a certificate");
    let folder = tempfile::tempdir().expect("a folder");
    let trusted = folder.path().join("trusted.pem");
    std::fs::write(&trusted, certificate.pem()).expect("a file");
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .expect("a certificate");
    let tls = Arc::new(tls);
    let wrap: Wrap = Box::new(move |stream| {
        let connection = rustls::ServerConnection::new(tls.clone()).expect("a connection");
        Box::new(rustls::StreamOwned::new(connection, stream))
    });
    let receiver = Receiver::start_on(SocketAddr::from(([127, 0, 0, 1], 0)), &[], wrap);
    let trusts = format!("export SSL_CERT_FILE='{}';", trusted.display());
    let pushes = format!(
        "--otlp-endpoint https://localhost:{} --otlp-headers x-scope=a%20b",
        receiver.address.port()
    );
    let _process = Process::start(&trusts, &pushes);
    let one = receiver.next();
    assert!(one.head.contains("x-scope: a b"), "{}", one.head);
    assert!(!points(&one.request, "netto.cpu.time").0.is_empty());
}
