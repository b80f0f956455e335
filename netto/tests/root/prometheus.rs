//! The other side of `/metrics`: promtool finds no fault, and a real Prometheus scrapes it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use metrics_common::codec::ServerMessage;
use metrics_common::{Info, KindName, Snapshot};
use netto_log_format::LogReader;
use serde_json::Value;

use crate::child::{self, Owned};
use crate::daemon::{self, Daemon, Shared};
use crate::lab::Network;
use crate::trial::tests;
use crate::{board, http, traffic};

tests! {
    prometheus::promtool_finds_no_fault_with_the_metrics ["promtool"];
    prometheus::totals_are_the_same_in_promql_in_the_log_and_on_the_board ["prometheus", "ip"]
        = || watched(SHORTLY, None);
    prometheus::a_minute_by_rate_is_the_same_in_promql_and_in_the_log ["prometheus", "ip"]
        = || watched(MINUTE, Some(TOLERANCE));
    prometheus::the_board_shows_latency_by_native_histograms_as_by_classic_ones ["prometheus"];
}

const RULES: &str = include_str!("../../../dist/prometheus/netto.rules.yml");
const FLEET_RULES: &str = include_str!("../../../dist/prometheus/netto-fleet.rules.yml");
/// How long traffic is watched before netto is restarted.
const SHORTLY: Duration = Duration::from_secs(5);
const MINUTE: Duration = Duration::from_secs(40);
/// From the beginning of that time to the first scrape, and from the last scrape to its end.
const UNSEEN_SECONDS: f64 = 3.0;
/// For a server to start, and to answer.
/// Tolerance of `rate()` against the log over such a long time.
const TOLERANCE: f64 = 0.01;
/// Rounding error of the difference of two exact totals as floating-point numbers, seconds.
const ROUNDING_SECONDS: f64 = 1e-6;
/// Over windows of five seconds a rate can be too large by what lies between the end of an
/// interval and a scrape, at either end.
const MOST_OF_A_CPU: f64 = 1.1;

fn promtool_finds_no_fault_with_the_metrics() -> Result<()> {
    let daemon = Shared::take()?;
    no_fault_with(&http::get_ok(daemon.at, "/metrics")?)
}

/// Fails with what promtool says of a page.
pub fn no_fault_with(page: &http::Response) -> Result<()> {
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

/// A Prometheus with the shipped rules.
pub struct Server {
    process: Owned,
    at: SocketAddr,
    started: SystemTime,
    seconds: u64,
    folder: tempfile::TempDir,
}

impl Server {
    /// Scrapes these every second.
    fn start(targets: &[SocketAddr]) -> Result<Self> {
        let targets: Vec<String> = targets.iter().map(|at| format!("'{at}'")).collect();
        let targets = targets.join(", ");
        Server::scraping(1, &format!("static_configs: [targets: [{targets}]]"))
    }

    /// Scrapes what this line of a scrape configuration finds, every so many seconds.
    pub fn scraping(seconds: u64, discovery: &str) -> Result<Self> {
        Server::with_options(seconds, discovery, &[])
    }

    /// The same with these options of the server.
    fn with_options(seconds: u64, discovery: &str, options: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(file("netto.rules.yml"), RULES)?;
        std::fs::write(file("netto-fleet.rules.yml"), FLEET_RULES)?;
        let config = format!(
            "global:\n  scrape_interval: {seconds}s\n  scrape_timeout: {seconds}s\n  \
             evaluation_interval: {seconds}s\n\
             rule_files: [netto.rules.yml, netto-fleet.rules.yml]\n\
             scrape_configs:\n  - job_name: netto\n    {discovery}\n",
        );
        std::fs::write(file("prometheus.yml"), config)?;
        let at = SocketAddr::from(([127, 0, 0, 1], child::free_port()?));
        let started = SystemTime::now();
        let mut command = child::mortal("prometheus");
        command.args([
            &format!("--config.file={}", file("prometheus.yml")),
            &format!("--storage.tsdb.path={}", file("data")),
            &format!("--web.listen-address={at}"),
            "--web.enable-admin-api",
        ]);
        let process = Owned::start(command.args(options))?;
        Ok(Server {
            process,
            at,
            started,
            seconds,
            folder,
        })
    }

    /// Its process's number.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The sum of a metric about the server itself.
    pub fn own_metric(&self, name: &str) -> Result<f64> {
        let page = http::get_ok(self.at, "/metrics")?.body;
        let of_name = |line: &&str| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
        };
        let values = page
            .lines()
            .filter(of_name)
            .filter_map(|line| line.rsplit(' ').next());
        values.map(|value| Ok(value.parse::<f64>()?)).sum()
    }

    /// Writes what it has in memory to a block, as it does by itself after two hours: its folder.
    pub fn snapshot(&self) -> Result<std::path::PathBuf> {
        let path = "/api/v1/admin/tsdb/snapshot";
        // Millions of series take it many seconds, beside rules that take a minute of its CPU time.
        let limit = Duration::from_secs(300);
        let answer = http::request_within(limit, self.at, "POST", path)?.json()?;
        let name = answer["data"]["name"].as_str();
        let name = name.with_context(|| format!("no snapshot: {answer}"))?;
        Ok(self.folder.path().join("data/snapshots").join(name))
    }

    /// What its API answers.
    pub fn get(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value> {
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(parameters)
            .finish();
        let mut answer = http::get(self.at, &format!("/api/v1/{path}?{query}"))?.json()?;
        ensure!(
            answer["status"] == "success",
            "{parameters:?}: {}",
            answer["error"]
        );
        Ok(answer["data"].take())
    }

    /// The current result of a query: its series.
    pub fn query(&self, text: &str) -> Result<Vec<Value>> {
        series(self.get("query", &[("query", text)])?)
    }

    /// The same for every scrape since the server's start.
    pub fn query_range(&self, text: &str) -> Result<Vec<Value>> {
        let start = self.started.duration_since(UNIX_EPOCH)?.as_secs();
        let end = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let (start, end, step) = (start.to_string(), end.to_string(), self.seconds.to_string());
        let range = [
            ("query", text),
            ("start", &start),
            ("end", &end),
            ("step", &step),
        ];
        series(self.get("query_range", &range)?)
    }

    /// The current result of a query with a single value.
    pub fn value(&self, text: &str) -> Result<f64> {
        let found = self.query(text)?;
        match &found[..] {
            [only] => number(&only["value"][1]),
            _ => bail!("{text} gives {found:?}"),
        }
    }

    /// The same by one label.
    fn values_by(&self, label: &str, text: &str) -> Result<BTreeMap<String, f64>> {
        let found = self.query(text)?;
        let of = |one: &Value| {
            Some((
                one["metric"][label].as_str()?.to_owned(),
                number(&one["value"][1]).ok()?,
            ))
        };
        found
            .iter()
            .map(|one| of(one).with_context(|| format!("{text} gives {one}")))
            .collect()
    }

    /// Every sample of a single series: seconds since 1970, and the value.
    fn samples(&self, series: &str) -> Result<Vec<(f64, f64)>> {
        let found = self.query(&format!("{series}[5m]"))?;
        let [only] = &found[..] else {
            bail!("{series} gives {found:?}");
        };
        let samples = only["values"].as_array().context("no samples")?;
        let of = |one: &Value| Ok((one[0].as_f64().context("no time")?, number(&one[1])?));
        samples.iter().map(of).collect()
    }

    /// Fails if it has ended.
    pub fn must_live(&mut self) -> Result<()> {
        match self.process.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("prometheus ended ({status}): {}", self.process.stderr()),
        }
    }
}

fn series(mut data: Value) -> Result<Vec<Value>> {
    match data["resultType"].as_str() {
        // A number without a series is an answer too.
        Some("scalar") => Ok(vec![data]),
        _ => match data["result"].take() {
            Value::Array(series) => Ok(series),
            other => bail!("no series: {other}"),
        },
    }
}

fn number(text: &Value) -> Result<f64> {
    let text = text.as_str().with_context(|| format!("no value: {text}"))?;
    text.parse().with_context(|| format!("no number: {text}"))
}

/// A demonstration, in which everything is measured that can be.
fn demonstration() -> Result<(Owned, SocketAddr)> {
    let at = SocketAddr::from(([127, 0, 0, 1], child::free_port()?));
    let port = at.port().to_string();
    let words = [
        "demo",
        "--cpus",
        "4",
        "--latency",
        "--health",
        "--flows",
        "eth0",
        "--port",
        &port,
    ];
    let demo = Owned::start(&mut daemon::command(&words))?;
    child::eventually(|| http::get_ok(at, "/readyz"))?;
    Ok((demo, at))
}

/// The figures of netto's log, its description first.
fn logged(path: &Path) -> Result<(Info, Vec<Snapshot>)> {
    let (mut info, mut snapshots) = (None, Vec::new());
    for message in LogReader::new(File::open(path)?)? {
        match message? {
            ServerMessage::Hello(hello) => info = Some(*hello),
            ServerMessage::Snapshot(snapshot) => snapshots.push(*snapshot),
            _ => {}
        }
    }
    Ok((info.context("the log has no description")?, snapshots))
}

/// Seconds of every event over all CPUs, by the log.
fn seconds_by_event(info: &Info, sum: &Snapshot) -> BTreeMap<String, f64> {
    let is_event = |kind: &KindName| {
        matches!(
            kind,
            KindName::Timed | KindName::Estimated | KindName::Carved
        )
    };
    info.components
        .iter()
        .enumerate()
        .filter(|(_, component)| is_event(&component.kind))
        .filter_map(|(row, component)| {
            let ns = sum.total_ns(row)?;
            Some((component.slug.clone(), ns as f64 / 1e9))
        })
        .collect()
}

/// Watches traffic for so long; what `rate()` says of it is compared only if it may differ by so
/// much: over a short time it goes by when scrapes came.
fn watched(length: Duration, of_rate: Option<f64>) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("netto.log");
    let log = path.to_string_lossy();
    let options = ["--log-file", &log, "--log-exact"];
    let first = Daemon::start(&options)?;
    let (_demo, demo_at) = demonstration()?;
    let mut server = Server::start(&[first.at, demo_at])?;
    let network = Network::direct()?;
    let _load = traffic::tcp(&network.left, &network.right, network.right_v4)?;
    let host = first.at.to_string();
    let of = format!("instance=\"{host}\"");
    child::eventually(|| {
        server.must_live()?;
        let up = server.value(&format!("up{{{of}}}"))?;
        ensure!(up == 1.0, "not scraped yet");
        Ok(())
    })?;
    let watched_from = SystemTime::now();
    std::thread::sleep(length);

    let port = first.at.port();
    let (status, stderr) = first.terminate()?;
    ensure!(status.success(), "netto ended ({status}): {stderr}");
    let (info, snapshots) = logged(&path)?;
    let second = Daemon::start_on(port, &[])?;
    child::eventually(|| {
        server.must_live()?;
        // Enough for each window of the board's.
        let of_late = format!("count_over_time(netto_snapshots_total{{{of}}}[3s])");
        let scrapes = server.value(&of_late)?;
        ensure!(scrapes >= 3.0, "{scrapes} scrapes in three seconds");
        restart_is_a_reset(&server, &of)
    })?;

    let from = watched_from.duration_since(UNIX_EPOCH)?.as_secs_f64();
    let watched = from..from + length.as_secs_f64();
    same_as_log(&server, &of, watched, of_rate, &info, &snapshots)?;
    rules_are_evaluated(&server)?;

    // Advice is given once its rule has held for ten seconds.
    child::eventually(|| {
        let of_demo = format!("max(netto_advice_active{{instance=\"{demo_at}\"}})");
        ensure!(server.value(&of_demo)? == 1.0, "no advice yet");
        Ok(())
    })?;
    let mut empty: Option<std::collections::BTreeSet<String>> = None;
    for at in [second.at, demo_at] {
        let page = http::get_ok(at, "/metrics")?.body;
        board::check_variables(board::HOST, &server, &at.to_string())?;
        let here = board::check(board::HOST, &server, &at.to_string(), &page)?;
        empty = Some(match empty {
            Some(before) => before.intersection(&here).cloned().collect(),
            None => here,
        });
    }
    let empty = empty.unwrap_or_default();
    ensure!(
        empty.is_empty(),
        "no host has data for the panels {empty:?}"
    );
    Ok(())
}

/// A Prometheus that asks for native histograms has no series of buckets, sums and counts.
fn the_board_shows_latency_by_native_histograms_as_by_classic_ones() -> Result<()> {
    let (_demo, at) = demonstration()?;
    let targets = format!("static_configs: [targets: ['{at}']]");
    let native = ["--enable-feature=native-histograms"];
    for (options, has_buckets) in [(&[][..], true), (&native[..], false)] {
        let mut server = Server::with_options(1, &targets, options)?;
        child::eventually(|| {
            server.must_live()?;
            let scrapes = server.value("max(count_over_time(netto_snapshots_total[4s]))")?;
            ensure!(scrapes >= 3.0, "{scrapes} scrapes in four seconds");
            Ok(())
        })?;
        let buckets = server.query("netto_netstack_latency_seconds_bucket")?;
        ensure!(
            buckets.is_empty() != has_buckets,
            "{options:?}: {buckets:?}"
        );
        let page = http::get_ok(at, "/metrics")?.body;
        let empty = board::check(board::HOST, &server, &at.to_string(), &page)?;
        let of_latency = board::panels_with(board::HOST, "netto_netstack_latency_seconds")?;
        ensure!(of_latency.len() == 3, "{of_latency:?}");
        ensure!(
            empty.is_disjoint(&of_latency),
            "{options:?}: no data in {empty:?}"
        );
        child::eventually(|| rules_are_evaluated(&server))?;
    }
    Ok(())
}

/// From a scrape to a later one of the same process, PromQL's CPU seconds are those of the log
/// between the intervals that these scrapes saw last.
fn same_as_log(
    server: &Server,
    of: &str,
    watched: Range<f64>,
    of_rate: Option<f64>,
    info: &Info,
    snapshots: &[Snapshot],
) -> Result<()> {
    let ends = server.samples(&format!("netto_last_snapshot_timestamp_seconds{{{of}}}"))?;
    let last = snapshots.last().context("no snapshot in the log")?;
    let last_end = last.time_unix_ns as f64 / 1e9;
    let mut of_first = ends
        .iter()
        .filter(|(at, end)| *at >= watched.start && *end <= last_end + 1e-3);
    let begin = of_first.next().context("no scrape")?;
    let end = of_first.next_back().context("no second scrape")?;
    let span = end.0 - begin.0;
    ensure!(
        span > watched.end - watched.start - UNSEEN_SECONDS,
        "scrapes over {span} s only: {ends:?}"
    );
    let index = |(_, seen): (f64, f64)| {
        let is_at = |s: &Snapshot| (s.time_unix_ns as f64 / 1e9 - seen).abs() < 1e-3;
        snapshots
            .iter()
            .position(is_at)
            .with_context(|| format!("no snapshot of {seen} in the log"))
    };
    let mut between = snapshots[index(*begin)? + 1..=index(*end)?].iter();
    let mut sum = between.next().context("no snapshot between")?.clone();
    between.for_each(|snapshot| sum.add(snapshot));
    let log = seconds_by_event(info, &sum);
    let (from, to) = (begin.0, end.0);

    // Totals are exact, and so is their difference.
    let family = format!("netto_cpu_seconds_total{{{of}}}");
    let exact = server.values_by(
        "event",
        &format!("sum by (event) ({family} @ {to:.3} - {family} @ {from:.3})"),
    )?;
    // The usual query, evaluated at the times of the scrapes.
    let usual = server.values_by(
        "event",
        &format!(
            "sum by (event) (rate({family}[{:.0}ms] @ {to:.3})) * {span}",
            span * 1e3
        ),
    )?;
    let events: Vec<&String> = log.keys().collect();
    ensure!(
        events == exact.keys().collect::<Vec<_>>(),
        "{exact:?} is not of {events:?}"
    );
    for (event, seconds) in &log {
        let (exact, usual) = (exact[event], usual.get(event).copied().unwrap_or(f64::NAN));
        if *seconds > 0.001 {
            println!("{event}: {seconds:.6} s by the log, {exact:.6} s, {usual:.6} s by rate()");
        }
        ensure!(
            (exact - seconds).abs() < ROUNDING_SECONDS,
            "{event}: {exact} s by PromQL, {seconds} s by the log"
        );
        let is_near =
            |tolerance: f64| (usual - seconds).abs() <= tolerance * seconds + ROUNDING_SECONDS;
        ensure!(
            of_rate.is_none_or(is_near),
            "{event}: {usual} s by rate(), {seconds} s by the log"
        );
    }
    let busy = log.get("rx_softirq").copied().unwrap_or_default();
    ensure!(
        busy > 0.01 * span,
        "there was no traffic: {busy} s in {span} s"
    );
    Ok(())
}

fn restart_is_a_reset(server: &Server, of: &str) -> Result<()> {
    let resets = server.value(&format!("resets(netto_snapshots_total{{{of}}}[5m])"))?;
    ensure!(resets == 1.0, "{resets} resets of the number of snapshots");
    let family = format!("netto_network_cpu_seconds_total{{{of}}}");
    let resets = server.value(&format!("max(resets({family}[5m]))"))?;
    ensure!(resets == 1.0, "{resets} resets of a CPU's seconds");
    let most = server.value(&format!("max(max_over_time(rate({family}[5s])[5m:1s]))"))?;
    let now = server.value(&format!("max(rate({family}[5s]))"))?;
    println!("a CPU's networking: at most {most:.3} of it, {now:.3} after the restart");
    ensure!(
        most <= MOST_OF_A_CPU,
        "{most} CPUs' worth of networking on one CPU"
    );
    ensure!(now > 0.0, "nothing is counted after the restart");
    Ok(())
}

/// Whether the rules have been evaluated without an error, and record.
pub fn rules_are_evaluated(server: &Server) -> Result<()> {
    let rules = server.get("rules", &[])?;
    let groups = rules["groups"].as_array().context("no groups")?;
    let rules: Vec<&Value> = groups
        .iter()
        .filter_map(|group| group["rules"].as_array())
        .flatten()
        .collect();
    ensure!(!rules.is_empty(), "no rules are loaded");
    for rule in rules {
        ensure!(rule["health"] == "ok", "{rule}");
    }
    for recorded in [
        "instance:netto_network_cpu:ratio_rate5m",
        "instance_cpu:netto_network_softirq:ratio_rate5m",
        "instance_event_component:netto_cpus:rate5m",
    ] {
        let found = server.query(recorded)?;
        ensure!(!found.is_empty(), "{recorded} records nothing");
    }
    Ok(())
}
