//! The strict parser of Python's prometheus-client reads netto's OpenMetrics, with all metrics by
//! CPU and with none.

use std::io::Write as _;
use std::process::{Command, Stdio};

use netto::config::Config;
use netto_metrics::per_cpu::PerCpu;
use serde_json::Value;

use crate::python::python;
use crate::support::*;

/// The families that the parser finds, with kind, unit and samples.
const PARSE: &str = r#"
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
print(json.dumps({family.name: {
    "kind": family.type, "unit": family.unit,
    "samples": [[sample.name, sample.labels, sample.value] for sample in family.samples],
} for family in parse(sys.stdin.read())}))
"#;

/// What the parser finds on the page of a netto with these metrics by CPU.
fn parsed(python: &std::path::Path, per_cpu: PerCpu) -> Value {
    let config = Config {
        prometheus_per_cpu: per_cpu,
        ..config()
    };
    let daemon = Daemon::start(&config, endless());
    daemon.counted();
    let accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
    let answer = get(daemon.address, "/metrics", &[("Accept", accept)]);
    assert!(
        answer
            .head
            .contains("application/openmetrics-text; version=1.0.0"),
        "{}",
        answer.head
    );
    let mut child = Command::new(python)
        .args(["-c", PARSE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("Python runs");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(&answer.body).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("Python ends");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The labels of each sample of a family.
fn labels(page: &Value, family: &str) -> Vec<Value> {
    let samples = page[family]["samples"].as_array();
    let samples = samples.unwrap_or_else(|| panic!("{family} is missing"));
    samples.iter().map(|sample| sample[1].clone()).collect()
}

#[test]
fn a_strict_parser_reads_every_metric_by_cpu_or_summed() {
    let Some(python) = python() else {
        return;
    };
    let all = parsed(&python, PerCpu::Components);
    assert_eq!(all["netto_cpu_seconds"]["kind"], "counter");
    assert_eq!(all["netto_cpu_seconds"]["unit"], "seconds");
    assert_eq!(all["netto_netstack_latency_seconds"]["kind"], "histogram");
    let of_networking = labels(&all, "netto_network_cpu_seconds");
    assert_eq!(of_networking.len(), 2, "{of_networking:?}");

    let none = parsed(&python, PerCpu::None);
    let families = none.as_object().expect("an object");
    for family in families.keys() {
        let labels = labels(&none, family);
        assert!(
            labels.iter().all(|labels| labels.get("cpu").is_none()),
            "{family}: {labels:?}"
        );
    }
    assert_eq!(
        labels(&none, "netto_network_cpu_seconds"),
        [serde_json::json!({})]
    );
    assert!(!families.contains_key("netto_sampling_hertz"));
}
