//! A fleet of made-up hosts, scraped by one real Prometheus with the shipped rules.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::child::{self, Owned};
use crate::prometheus::{self, Server};
use crate::trial::tests;
use crate::{board, daemon, http};

tests! {
    fleet::each_host_is_a_target_with_figures_of_its_own ["prometheus", "promtool"];
    fleet::a_thousand_hosts_without_cpus ["prometheus"] = || a_thousand("none");
    fleet::a_thousand_hosts_by_cpu_and_event ["prometheus"] = || a_thousand("events");
}

/// What production scrapes by.
const INTERVAL_SECONDS: u64 = 15;
/// Until the figures are taken.
const WATCHED: Duration = Duration::from_secs(200);

/// A demonstration with so many further hosts, and the line with which they are found.
fn hosts(count: u32, cpus: u32, per_cpu: &str) -> Result<(Owned, SocketAddr, String)> {
    let at = SocketAddr::from(([127, 0, 0, 1], child::free_port()?));
    let (count, cpus) = (count.to_string(), cpus.to_string());
    let demo = Owned::start(&mut daemon::command(&[
        "demo",
        "--hosts",
        &count,
        "--cpus",
        &cpus,
        "--prometheus-per-cpu",
        per_cpu,
        "--port",
        &at.port().to_string(),
    ]))?;
    child::eventually(|| http::get_ok(at, "/readyz"))?;
    let found = format!("http_sd_configs: [url: \"http://{at}/hosts\"]");
    Ok((demo, at, found))
}

fn each_host_is_a_target_with_figures_of_its_own() -> Result<()> {
    const COUNT: usize = 4;
    let (_demo, at, found) = hosts(COUNT as u32, 2, "events")?;
    let mut seen: [BTreeSet<String>; 3] = Default::default();
    let mut last = String::new();
    for target in http::get_ok(at, "/hosts")?
        .json()?
        .as_array()
        .context("no list")?
    {
        ensure!(target["targets"][0] == at.to_string(), "{target}");
        let path = target["labels"]["__metrics_path__"].as_str();
        let page = http::get_ok(at, path.with_context(|| format!("no path: {target}"))?)?;
        prometheus::no_fault_with(&page)?;
        let begins = [
            "netto_host_info{",
            "netto_network_cpu_seconds_total",
            "netto_snapshots_total ",
        ];
        for (seen, begin) in seen.iter_mut().zip(begins) {
            let line = page.body.lines().find(|line| line.starts_with(begin));
            seen.insert(line.with_context(|| format!("no {begin}"))?.to_owned());
        }
        last = page.body;
    }
    let [names, figures, intervals] = &seen;
    ensure!(names.len() == COUNT && figures.len() == COUNT, "{seen:?}");
    ensure!(intervals.iter().eq(["netto_snapshots_total 1"]), "{seen:?}");
    ensure!(http::get(at, "/hosts/demo-0/metrics")?.status == 404);

    let mut server = Server::scraping(1, &found)?;
    child::eventually(|| {
        server.must_live()?;
        let recorded = server.value("sum(fleet:netto_hosts:count)")?;
        ensure!(recorded == COUNT as f64, "{recorded} hosts are recorded");
        let kernels = server.query("kernel:netto_rx_softirq_seconds_per_packet:rate5m")?;
        ensure!(kernels.len() == 3, "{kernels:?}");
        let empty = board::check(board::FLEET, &server, "", &last)?;
        ensure!(empty.is_empty(), "no data for the panels {empty:?}");
        Ok(())
    })?;
    board::check_variables(board::FLEET, &server, "")?;
    prometheus::rules_are_evaluated(&server)
}

/// Prints what a Prometheus needs for a thousand hosts of 16 CPUs.
fn a_thousand(per_cpu: &str) -> Result<()> {
    const HOSTS: u32 = 1_000;
    let (demo, _, found) = hosts(HOSTS, 16, per_cpu)?;
    let mut server = Server::scraping(INTERVAL_SECONDS, &found)?;
    let begun = Instant::now();
    std::thread::sleep(WATCHED / 2);
    let now = || -> Result<[f64; 2]> {
        let samples = server.own_metric("prometheus_tsdb_head_samples_appended_total")?;
        Ok([samples, server.own_metric("process_cpu_seconds_total")?])
    };
    let ([samples, cpu], half) = (now()?, Instant::now());
    std::thread::sleep(WATCHED / 2);
    let ([samples_later, cpu_later], seconds) = (now()?, half.elapsed().as_secs_f64());
    server.must_live()?;
    let up = server.value("sum(up)")?;
    ensure!(up == f64::from(HOSTS), "{up} hosts are reached");
    let scraped = server.value("sum(scrape_samples_scraped)")? / f64::from(HOSTS);
    println!("--prometheus-per-cpu {per_cpu}: {scraped:.0} series a host");
    println!("after {:.0} s:", begun.elapsed().as_secs_f64());
    let series = server.own_metric("prometheus_tsdb_head_series")?;
    let per_second = (samples_later - samples) / seconds;
    let cpus = (cpu_later - cpu) / seconds;
    println!(
        "{series:.0} series with the recorded ones, {per_second:.0} samples/s, {cpus:.2} CPUs"
    );
    let [prometheus_mb, demo_mb] = [server.pid(), demo.pid()].map(resident_mb);
    println!(
        "resident: Prometheus {:.0} MB, the hosts {:.0} MB",
        prometheus_mb?, demo_mb?
    );
    let rules = server.get("rules", &[])?;
    for group in rules["groups"].as_array().context("no groups")? {
        let (name, time) = (&group["name"], group["evaluationTime"].as_f64());
        println!("rules {name}: {:.3} s", time.unwrap_or(f64::NAN));
    }
    let mut times = board::times(board::FLEET, &server)?;
    times.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let all: f64 = times.iter().map(|(_, time)| time).sum();
    let (slowest, time) = &times[0];
    println!(
        "the board: {:.0} ms, the slowest query {:.0} ms ({slowest})",
        all * 1e3,
        time * 1e3
    );
    let begun = Instant::now();
    let raw = "topk(10, sum by (event, component) (rate(netto_component_cpu_seconds_total[5m])))";
    server.query_range(raw)?;
    println!(
        "the ten largest components without rules: {:.0} ms",
        begun.elapsed().as_secs_f64() * 1e3
    );
    let (bytes, samples) = block(&server.snapshot()?)?;
    println!(
        "on disk: {:.2} bytes for each of {samples} samples",
        bytes / samples
    );
    Ok(())
}

fn resident_mb(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line.and_then(|line| line.split_whitespace().next());
    let kb: f64 = kb.context("no resident memory")?.parse()?;
    Ok(kb * 1024.0 / 1e6)
}

/// Bytes and samples of the blocks of a snapshot.
fn block(folder: &Path) -> Result<(f64, f64)> {
    let (mut bytes, mut samples) = (0.0, 0.0);
    for block in std::fs::read_dir(folder)? {
        let block = block?.path();
        let meta: Value = serde_json::from_slice(&std::fs::read(block.join("meta.json"))?)?;
        samples += meta["stats"]["numSamples"].as_f64().context("no samples")?;
        for part in ["chunks", "."] {
            for file in std::fs::read_dir(block.join(part))? {
                let file = file?.metadata()?;
                if file.is_file() {
                    bytes += file.len() as f64;
                }
            }
        }
    }
    Ok((bytes, samples))
}
