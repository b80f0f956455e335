//! How long packets waited, as it comes out of API and metrics; and what a real Prometheus makes
//! of the native histograms.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use metrics_common::Info;
use metrics_common::latency::{bounds, bucket_of};
use netto::config::Config;
use netto::features::FEATURES;
use netto::run;
use serde_json::Value;

use crate::support::*;
use crate::work::{LONG_NS, SHORT_NS};

const NAME: &str = "netto_netstack_latency_seconds";

#[test]
fn what_a_daemon_says_of_itself_does_not_move_the_cursor() {
    let prepared = run::bind(FEATURES, &config()).expect("prepared");
    let evil = Info {
        hostname: "\x1b[2Jevil".to_owned(),
        ..info()
    };
    let daemon = Daemon::serving(prepared, evil, endless());
    let url = format!("http://{}", daemon.address);
    let output = Command::new(env!("CARGO_BIN_EXE_netto"))
        .args(["latency", "--once", "--connect", &url])
        .output()
        .expect("netto runs");
    let printed = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
    assert!(printed.contains("[2Jevil"), "{printed}");
    assert!(!printed.contains('\x1b'), "{printed}");
}

#[test]
fn the_api_shows_percentiles_with_their_bounds_groups_and_what_is_missing() {
    let daemon = Daemon::start(&config(), endless());
    daemon.counted();
    let json = get(daemon.address, "/api/v1/latency", &[]).json();
    let point = &json["points"][0];
    assert_eq!(point["point"], "tcp-start");
    let short = bounds(bucket_of(SHORT_NS).expect("a bucket"));
    let long = bounds(bucket_of(LONG_NS).expect("a bucket"));
    for (name, expected) in [
        ("p50", short),
        ("p90", short),
        ("p99", long),
        ("p99.9", long),
    ] {
        let found = &point["interval"]["percentiles"][name];
        assert_eq!(found["lower_ns"], expected.lower_ns, "{name}");
        assert_eq!(found["upper_ns"], expected.upper_ns, "{name}");
    }
    assert_eq!(point["interval"]["histogram"]["count"], 100);
    assert_eq!(point["interval"]["negative"], 3);
    assert_eq!(point["interval"]["lost"], 7);
    let intervals = json["span"]["intervals"].as_u64().expect("a number");
    assert_eq!(point["histogram"]["count"], 100 * intervals);
    assert_eq!(json["groups"][0]["name"], "eth\"0\\");
    assert_eq!(json["groups"][1]["name"], Value::Null);
    assert_eq!(json["missing"][0]["reason"], "no such tracepoint");
    let refused = get(daemon.address, "/api/v1/latency?last=soon", &[]);
    assert_eq!(refused.status, 400);
}

#[test]
fn metrics_have_classic_buckets_and_under_netstacklats_name_if_asked_for() {
    let plain = Daemon::start(&config(), endless());
    plain.counted();
    let compat = "ebpf_exporter_netstack_latency_seconds";
    let page = get(plain.address, "/metrics", &[]).text();
    assert!(!page.contains(compat));
    let with = Daemon::start(
        &Config {
            latency_compat: true,
            ..config()
        },
        endless(),
    );
    with.counted();
    let page = get(with.address, "/metrics", &[]).text();
    let of = |name: &str, labels: &[(&str, &str)]| {
        series(&page, name, labels).unwrap_or_else(|| panic!("no {name} {labels:?} in {page}"))
    };
    let count = of("netto_snapshots_total", &[]);
    let point = ("point", "tcp-start");
    let bucket = |end: &str| of(&format!("{NAME}_bucket"), &[point, ("le", end)]);
    assert_eq!(bucket("4.096e-06"), 0.0);
    assert_eq!(bucket("8.192e-06"), 90.0 * count);
    assert_eq!(bucket("0.004194304"), 100.0 * count);
    assert_eq!(bucket("+Inf"), 100.0 * count);
    assert_eq!(of(&format!("{NAME}_count"), &[point]), 100.0 * count);
    let sum = (90 * SHORT_NS + 10 * LONG_NS) as f64 / 1e9;
    let found = of(&format!("{NAME}_sum"), &[point]);
    assert!((found - sum * count).abs() < 1e-9 * count, "{found}");
    let anomalies = |kind| {
        of(
            "netto_netstack_latency_anomalies_total",
            &[point, ("kind", kind)],
        )
    };
    assert_eq!(
        (anomalies("negative"), anomalies("too_long")),
        (3.0 * count, 0.0)
    );
    let lost = of("netto_netstack_latency_lost_stamps_total", &[point]);
    assert_eq!(lost, 7.0 * count);
    // Packets are grouped by interface, so a hook's total is the sum over interfaces.
    let group = [("hook", "tcp-start"), ("cgroup", ""), ("iface", "other")];
    assert_eq!(of(&format!("{compat}_count"), &group), count);
}

/// A server that ends with the test.
struct Prometheus {
    child: Child,
    address: std::net::SocketAddr,
    _folder: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// Starts one that asks for native histograms; `None` where it is not installed, which is said.
    fn start(target: std::net::SocketAddr) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| folder.path().join(name).display().to_string();
        let config = format!(
            "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: netto\n    \
             static_configs:\n      - targets: ['{target}']\n"
        );
        std::fs::write(file("prometheus.yml"), config).expect("a file");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let started = Command::new("prometheus")
            .args([
                "--enable-feature=native-histograms".to_owned(),
                format!("--config.file={}", file("prometheus.yml")),
                format!("--storage.tsdb.path={}", file("data")),
                format!("--web.listen-address={address}"),
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match started {
            Ok(child) => Some(Prometheus {
                child,
                address,
                _folder: folder,
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true" || ci == "1");
                assert!(
                    !is_ci,
                    "prometheus is not installed, and CI=true allows no skipping"
                );
                eprintln!("SKIPPED: prometheus is not installed");
                None
            }
            Err(error) => panic!("prometheus cannot be run: {error}"),
        }
    }

    /// The result of a query with one value; waits until it has one.
    fn value(&self, query: &str) -> f64 {
        let text = form_urlencoded::byte_serialize(query.as_bytes()).collect::<String>();
        let path = format!("/api/v1/query?query={text}");
        eventually(query, || {
            std::net::TcpStream::connect(self.address).ok()?;
            let answer = get(self.address, &path, &[]);
            let json = (answer.status == 200).then(|| answer.json())?;
            let value = json["data"]["result"][0]["value"][1].as_str();
            value?.parse().ok()
        })
    }
}

#[test]
fn a_prometheus_that_asks_for_them_gets_native_histograms_and_finds_the_percentiles() {
    let daemon = Daemon::start(&config(), endless());
    daemon.counted();
    let accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
                  encoding=delimited,text/plain;version=0.0.4;q=0.3";
    let answer = get(daemon.address, "/metrics", &[("Accept", accept)]);
    assert!(
        answer.head.contains("application/vnd.google.protobuf"),
        "{}",
        answer.head
    );
    let Some(prometheus) = Prometheus::start(daemon.address) else {
        return;
    };
    let point = format!("{NAME}{{point=\"tcp-start\"}}");
    // Only a native histogram has a count of its own.
    let count = prometheus.value(&format!("histogram_count({point})"));
    assert!(count >= 100.0 && count % 100.0 == 0.0, "{count}");
    for (share, ns) in [
        (0.5, SHORT_NS),
        (0.89, SHORT_NS),
        (0.95, LONG_NS),
        (0.999, LONG_NS),
    ] {
        let seconds = prometheus.value(&format!("histogram_quantile({share}, {point})"));
        let bounds = bounds(bucket_of(ns).expect("a bucket"));
        let (lower, upper) = (bounds.lower_ns as f64 / 1e9, bounds.upper_ns as f64 / 1e9);
        // A bucket of Prometheus' reaches beyond netto's by a fifth of itself at most.
        assert!(
            (lower / 1.2..=upper * 1.2).contains(&seconds),
            "{share} is {seconds}, not {lower} to {upper}"
        );
        eprintln!(
            "quantile {share}: {seconds} s, in truth {} s",
            ns as f64 / 1e9
        );
    }
    let sum = prometheus.value(&format!(
        "histogram_sum({point}) / histogram_count({point})"
    ));
    let expected = (90 * SHORT_NS + 10 * LONG_NS) as f64 / 1e11;
    assert!((sum - expected).abs() < expected * 1e-6, "{sum}");
    // Other families come the same way.
    assert!(prometheus.value("sum(netto_samples_total)") > 0.0);
    assert!(prometheus.value("netto_build_info") > 0.0);
}
