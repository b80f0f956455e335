//! The other side of `/metrics`: promtool finds no fault, and a real Prometheus scrapes it.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::child::{self, Owned};
use crate::daemon::Daemon;
use crate::http;
use crate::trial::Test;

pub const TESTS: &[Test] = &[
    Test {
        name: "prometheus::promtool_finds_no_fault_with_the_metrics",
        tools: &["promtool"],
        body: promtool,
    },
    Test {
        name: "prometheus::a_server_scrapes_netto_and_answers_queries",
        tools: &["prometheus"],
        body: server,
    },
];

fn promtool() -> Result<()> {
    let daemon = Daemon::start(&[])?;
    let page = http::get_ok(daemon.at, "/metrics")?;
    ensure!(
        page.head
            .to_ascii_lowercase()
            .contains("content-type: text/plain"),
        "{}",
        page.head
    );
    let mut tool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start promtool")?;
    tool.stdin
        .take()
        .context("no standard input")?
        .write_all(page.body.as_bytes())?;
    let output = tool.wait_with_output()?;
    // Advice counts as a fault too: a name or help text that breaks the conventions.
    ensure!(
        output.status.success() && output.stderr.is_empty() && output.stdout.is_empty(),
        "promtool: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

fn server() -> Result<()> {
    let daemon = Daemon::start(&[])?;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("prometheus.yml");
    std::fs::write(
        &config,
        format!(
            "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: netto\n    static_configs:\n      - targets: ['{}']\n",
            daemon.at
        ),
    )?;
    let at = SocketAddr::from(([127, 0, 0, 1], child::free_port()?));
    let mut server = Owned::start(child::mortal("prometheus").args([
        &format!("--config.file={}", config.display()),
        &format!(
            "--storage.tsdb.path={}",
            folder.path().join("data").display()
        ),
        &format!("--web.listen-address={at}"),
    ]))?;
    for (query, is_right) in [
        ("up", (|value| value == 1.0) as fn(f64) -> bool),
        ("count(netto_cpu_seconds_total)", |value| value >= 8.0),
        ("max(rate(netto_cpu_seconds_total[5s]))", |value| {
            value >= 0.0
        }),
        ("count(netto_build_info)", |value| value == 1.0),
    ] {
        child::eventually(Duration::from_secs(40), || {
            if let Some(status) = server.try_wait()? {
                bail!("prometheus ended ({status}): {}", server.stderr());
            }
            let encoded = query.replace('(', "%28").replace(')', "%29");
            let encoded = encoded.replace('[', "%5B").replace(']', "%5D");
            let answer = http::get_ok(at, &format!("/api/v1/query?query={encoded}"))?.json()?;
            let value = answer["data"]["result"][0]["value"][1]
                .as_str()
                .with_context(|| format!("{query}: {answer}"))?
                .parse::<f64>()?;
            ensure!(is_right(value), "{query} is {value}");
            Ok(())
        })?;
    }
    Ok(())
}
