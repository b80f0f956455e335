//! Trouble made on purpose, on the real kernel: each is told once, begins within two intervals and ends
//! when it is mended; and an ordinary load that changes, in which hardly anything is told.
//!
//! netto counts TCP in the network namespace of process 1. So it is one, of a PID namespace of its own, in
//! the receiver's network namespace.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, ensure};
use metrics_common::random::SplitMix64;
use nix::sched::{CloneFlags, setns};
use serde_json::Value;

use crate::child::{self, Owned};
use crate::daemon;
use crate::disks::{Disk, Limit};
use crate::http;
use crate::lab::{Namespace, Network};
use crate::measure;
use crate::traffic::agent;
use crate::trial::tests;

tests! {
    anomalies::each_made_on_purpose_is_told_once_begins_within_two_intervals_and_ends ["ip", "nft", "tc", "unshare"];
    anomalies::those_of_disks_are_told_once_begin_within_two_intervals_and_end
        ["ip", "losetup", "mkfs.ext4", "unshare"];
    anomalies::an_ordinary_load_that_changes_has_one_at_most
        ["ip", "losetup", "mkfs.ext4", "unshare"];
}

const NETTO_PORT: u16 = 10_880;
const LISTENER: u16 = 6001;
const SINK: u16 = 6002;
const DATAGRAMS: u16 = 6003;
/// Of the file that disks have.
const FILE_BYTES: usize = 40 << 20;
/// The length of an interval, seconds.
const INTERVAL: f64 = 0.5;
/// With a budget, intervals of a debug build have several periods.
const UNLIMITED: &str = "--max-overhead=100";
/// What is made may take so long to be there, seconds.
const MAKING: f64 = 0.2;
/// How long what is made lasts.
const LASTS: Duration = Duration::from_secs(10);
/// What is usual is known by then.
const WARM: Duration = Duration::from_secs(150);
/// Says how many minutes of ordinary load there are (not `NETTO_…`, which only options are).
const MINUTES: &str = "ORDINARY_MINUTES";
/// Names a log of them, by which `netto anomalies` judges them again after a change of its rules.
const LOG: &str = "ORDINARY_LOG";

/// A netto in a namespace.
struct Inside<'a> {
    at: &'a Namespace,
    _netto: Owned,
}

impl<'a> Inside<'a> {
    fn start(at: &'a Namespace, options: &[&str]) -> Result<Self> {
        let mut command = at.command("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.arg(daemon::binary());
        let port = NETTO_PORT.to_string();
        let period = (INTERVAL * 1e3).to_string();
        command.args(["run", "--port", &port, "--user-period", &period]);
        command.args(options);
        let netto = Owned::start(&mut command)?;
        let inside = Inside { at, _netto: netto };
        child::eventually(|| inside.get("/readyz").map(drop))?;
        Ok(inside)
    }

    /// Asks it, from a thread that is in its namespace.
    fn get(&self, path: &str) -> Result<http::Response> {
        let namespace = File::open(format!("/run/netns/{}", self.at.name()))?;
        let asking = || {
            setns(namespace, CloneFlags::CLONE_NEWNET).context("cannot go into the namespace")?;
            http::get_ok((Ipv4Addr::LOCALHOST, NETTO_PORT).into(), path)
        };
        let asked = std::thread::scope(|scope| scope.spawn(asking).join());
        asked.map_err(|_| anyhow!("who asks has panicked"))?
    }

    /// Waits until it does of these metrics.
    fn knows_what_is_usual(&self, of: &[&str]) -> Result<()> {
        child::within(WARM, || {
            let answer = self.get("/api/v1/anomalies")?.json()?;
            let unjudged = answer["unjudged"].as_array().context("no list")?;
            let lacks = of
                .iter()
                .find(|wanted| unjudged.iter().any(|not| not == **wanted));
            ensure!(lacks.is_none(), "{lacks:?}: {answer}");
            Ok(())
        })
    }

    /// The anomalies of a metric.
    fn anomalies_of(&self, metric: &str) -> Result<Vec<Value>> {
        let answer = self.get("/api/v1/anomalies")?.json()?;
        let all = answer["anomalies"].as_array().context("no list")?;
        let of_metric = all.iter().filter(|anomaly| anomaly["metric"] == metric);
        Ok(of_metric.cloned().collect())
    }

    /// Makes trouble for a while, and mends it.
    fn is_told<T>(&self, metric: &str, make: impl FnOnce() -> Result<T>) -> Result<()> {
        ensure!(
            self.anomalies_of(metric)?.is_empty(),
            "{metric} before it is made"
        );
        let (before, made) = (now()?, make()?);
        let after = now()?;
        std::thread::sleep(LASTS);
        drop(made);
        let mended = now()?;
        let one = child::eventually(|| {
            let listed = self.anomalies_of(metric)?;
            let [anomaly] = &listed[..] else {
                return Err(anyhow!("{metric}: {listed:?}"));
            };
            ensure!(
                anomaly.get("end_unix_seconds").is_some(),
                "it lasts: {anomaly}"
            );
            Ok(anomaly.clone())
        })?;
        println!("\n{one:#}");
        let number = |name: &str| one[name].as_f64().context("no number");
        let (begin, end) = (number("begin_unix_seconds")?, number("end_unix_seconds")?);
        println!(
            "{metric}: made at 0 s, begins at {:.2} s; mended at {:.2} s, ends at {:.2} s",
            begin - before,
            mended - before,
            end - before
        );
        // An interval may have begun before.
        ensure!(begin > before - INTERVAL - MAKING, "it begins too early");
        ensure!(begin < after + 2.0 * INTERVAL + MAKING, "it begins late");
        ensure!(end < mended + 4.0 * INTERVAL, "it ends late");
        ensure!(one["spells"] == 1, "it came back");
        Ok(())
    }
}

fn now() -> Result<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64())
}

/// What mends when it is dropped.
struct Mends<F: FnMut()>(F);

impl<F: FnMut()> Drop for Mends<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Connects again and again, and waits for no answer; with the queue full, each is dropped.
pub fn connect_again(to: SocketAddr) -> Result<()> {
    loop {
        // A refusal is an answer, too.
        let _ = TcpStream::connect_timeout(&to, Duration::from_millis(50));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn each_made_on_purpose_is_told_once_begins_within_two_intervals_and_ends() -> Result<()> {
    let network = Network::direct()?;
    let (left, right) = (&network.left, &network.right);
    right.sysctl("net/core/somaxconn", "1")?;
    let at = |to: IpAddr, port| SocketAddr::new(to, port).to_string();
    let left_v4 = IpAddr::from([10, 77, 1, 1]);
    let sink = agent(left, &["tcp-sink", &at(left_v4, SINK)])?;
    let writer = agent(right, &["tcp-writes", &at(left_v4, SINK), "1000", "400"])?;
    let netto = Inside::start(right, &["--health", UNLIMITED])?;
    netto.knows_what_is_usual(&["tcp-retransmits", "accept-queue-overflows", "packet-drops"])?;

    netto.is_told("tcp-retransmits", || {
        left.nft(&format!(
            "add table inet loss; add chain inet loss in {{ type filter hook input priority 0; }};
             add rule inet loss in tcp dport {SINK} numgen inc mod 10 == 0 drop"
        ))?;
        Ok(Mends(|| left.nft("delete table inet loss").unwrap_or(())))
    })?;
    // Stopped first, because it would be disturbed by what follows.
    drop((writer, sink));

    let listener = at(network.right_v4, LISTENER);
    netto.is_told("accept-queue-overflows", || {
        let silent = agent(right, &["listen", &listener])?;
        let connecting = agent(left, &["connect-again", &listener])?;
        Ok([connecting, silent])
    })?;

    let datagrams = at(left_v4, DATAGRAMS);
    let _sink = agent(left, &["udp-sink", &datagrams])?;
    let _sender = agent(right, &["udp-paced", &datagrams, "1000", "0"])?;
    std::thread::sleep(Duration::from_secs(10));
    netto.is_told("packet-drops", || {
        right.run(
            "tc",
            "qdisc add dev lan root tbf rate 64kbit burst 1600 limit 1600",
        )?;
        Ok(Mends(|| drop(right.run("tc", "qdisc del dev lan root"))))
    })?;
    let named = netto.anomalies_of("drops-for-lack-of-room")?;
    ensure!(named.len() == 1, "by their reason: {named:?}");
    let detail = named[0]["evidence"].as_str().context("no evidence")?;
    ensure!(detail.contains("QDISC_DROP"), "{detail}");
    let by_queues = netto.anomalies_of("qdisc-drops")?;
    ensure!(
        by_queues.len() == 1,
        "by the queueing discipline: {by_queues:?}"
    );
    Ok(())
}

fn those_of_disks_are_told_once_begin_within_two_intervals_and_end() -> Result<()> {
    let mut disk = Disk::new()?;
    let file = disk.mount()?.join("records");
    fs::write(&file, vec![7; FILE_BYTES])?;
    child::run(&mut Command::new("sync"))?;
    let file = file.to_str().context("a path that is not UTF-8")?;
    let limit = Limit::new("reader", &disk)?;
    let here = Namespace::new()?;
    // Locals are dropped in reverse order: agents first, then netto, then the namespace and the disk.
    let options = ["--health", "--score-devices", &disk.name, UNLIMITED];
    let netto = Inside::start(&here, &options)?;
    let cached = agent(&here, &["reads-file", file, "cached", "500"])?;
    let direct = agent(&here, &["reads-file", file, "direct", "100"])?;
    limit.take(direct.pid())?;
    netto.knows_what_is_usual(&["disk-read-time", "page-cache-misses"])?;

    netto.is_told("disk-read-time", || {
        limit.set(20)?;
        Ok(Mends(|| limit.set(0).unwrap_or(())))
    })?;
    drop(direct);
    netto.is_told("page-cache-misses", || {
        let mut forgets = Some(agent(&here, &["forgets-file", file])?);
        // Without it, the reader would need a minute until all is cached again.
        Ok(Mends(move || {
            drop(forgets.take());
            let _ = fs::read(file);
        }))
    })?;
    drop(cached);
    Ok(())
}

/// One kind of load for some seconds.
fn load(network: &Network, files: [&str; 2], kind: u64) -> Result<Vec<Owned>> {
    let to = |port| SocketAddr::new(network.right_v4, port).to_string();
    let stream = to(SINK);
    let reads = |words: &[&str]| Ok(vec![agent(&network.left, words)?]);
    let tcp = |words: &[&str]| -> Result<Vec<Owned>> {
        let sink = agent(&network.right, &["tcp-sink", &to(SINK)])?;
        Ok(vec![agent(&network.left, words)?, sink])
    };
    match kind {
        0 => Ok(Vec::new()),
        1 => tcp(&["tcp-blast", &stream]),
        2 => tcp(&["tcp-writes", &stream, "512", "2000"]),
        3 => tcp(&["tcp-writes", &stream, "65536", "500"]),
        4 => tcp(&["tcp-writes", &stream, "100", "20"]),
        5 => {
            let sink = agent(&network.right, &["udp-sink", &to(DATAGRAMS)])?;
            let words = ["udp-paced", &to(DATAGRAMS), "3000", "0"];
            Ok(vec![agent(&network.left, &words)?, sink])
        }
        6 => {
            let reader = agent(&network.right, &["tcp-reads", &stream])?;
            Ok(vec![
                agent(&network.left, &["tcp-ticks", &stream, "300"])?,
                reader,
            ])
        }
        7 => Ok(vec![agent(&network.right, &["connect-storm"])?]),
        8 => reads(&["reads-file", files[0], "cached", "2000"]),
        // Another file, because writing past the page cache removes the pages that case 8 reads.
        9 => reads(&["reads-file", files[1], "direct", "200"]),
        _ => reads(&["writes-file", files[1], "50"]),
    }
}

/// When rules of advice began and ended to be given, as Prometheus is told each second.
#[derive(Default)]
struct Given {
    active: BTreeMap<String, f64>,
    /// Seconds since the begin, the rule, and whether it began.
    changes: Vec<(f64, String, bool)>,
}

impl Given {
    fn look(&mut self, netto: &Inside<'_>, at: f64) -> Result<()> {
        for sample in measure::parse(&netto.get("/metrics")?.body)? {
            if sample.name != "netto_advice_active" {
                continue;
            }
            let rule = sample.label("rule").to_owned();
            let before = self.active.insert(rule.clone(), sample.value);
            if before.unwrap_or(0.0) != sample.value {
                println!("{at:.0} s: {rule} {}", sample.value);
                self.changes.push((at, rule, sample.value > 0.0));
            }
        }
        Ok(())
    }

    /// The rule that began most often, and how often.
    fn most_begun(&self) -> Option<(&str, usize)> {
        let begins = self.changes.iter().filter(|change| change.2);
        let mut counts = BTreeMap::new();
        for (_, rule, _) in begins {
            *counts.entry(&**rule).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count)
    }
}

fn an_ordinary_load_that_changes_has_one_at_most() -> Result<()> {
    let minutes = std::env::var(MINUTES).unwrap_or_else(|_| "5".to_owned());
    let minutes: f64 = minutes.parse().context(MINUTES)?;
    let mut disk = Disk::new()?;
    let at = disk.mount()?.to_owned();
    let files = ["cached", "direct"].map(|name| format!("{}/{name}", at.display()));
    for file in &files {
        fs::write(file, vec![7; FILE_BYTES / 2])?;
    }
    child::run(&mut Command::new("sync"))?;
    let files = [&*files[0], &*files[1]];
    let network = Network::direct()?;
    let log = std::env::var(LOG).ok();
    let mut options = vec!["--health", "--latency", "--score-devices", &disk.name];
    options.extend(log.iter().flat_map(|log| ["--log-file", log]));
    let netto = Inside::start(&network.right, &options)?;
    let mut random = SplitMix64(28);
    let (begun, mut given) = (Instant::now(), Given::default());
    let (mut changes, mut seen) = (0, Vec::<Value>::new());
    while begun.elapsed().as_secs_f64() < 60.0 * minutes {
        let _first = load(&network, files, random.below(11))?;
        for _ in 0..3 + random.below(40) {
            std::thread::sleep(Duration::from_secs(1));
            given.look(&netto, begun.elapsed().as_secs_f64())?;
        }
        // The newest 64 are kept.
        let answer = netto.get("/api/v1/anomalies")?.json()?;
        let all = answer["anomalies"].as_array().context("no list")?;
        for anomaly in all {
            if seen.iter().all(|before| before["id"] != anomaly["id"]) {
                println!("{:.0} s: {anomaly}", begun.elapsed().as_secs_f64());
                seen.push(anomaly.clone());
            }
        }
        changes += 1;
    }
    let most = given.most_begun();
    println!(
        "\n{minutes} minutes, {changes} changes of load: {} anomalies, {} changes of advice, {most:?} began \
         most often",
        seen.len(),
        given.changes.len()
    );
    ensure!(seen.len() <= 1, "more than one was told");
    // Advice that returns with its load is given longer each time; more than two begins mean that it flickers.
    ensure!(most.is_none_or(|(_, count)| count <= 2), "{most:?}");
    Ok(())
}
