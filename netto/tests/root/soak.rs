//! `root soak MINUTES FOLDER`: netto for a long time with everything that changes on a host. What it
//! used is a table and a drawing, of which `cargo xtask soak` makes a verdict.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::unistd::{SysconfVar, sysconf};
use plotters::prelude::*;

use crate::child::{self, Owned};
use crate::daemon::{self, Daemon};
use crate::groups::Group;
use crate::lab::{Namespace, Network};
use crate::websocket::{Received, WebSocket};
use crate::{http, lab, measure, traffic, turn};

const DASHBOARDS: u64 = 20;
/// Between two looks at what netto uses.
const LOOK: Duration = Duration::from_secs(5);
const SCRAPE: Duration = Duration::from_secs(1);
/// Looks between two changes of each kind.
const EVERY_LOAD: usize = 6;
const EVERY_ROTATION: usize = 12;
const EVERY_NAMESPACE: usize = 2;
/// Small, so that netto often begins a new file by itself, too.
const LOG_OPTIONS: [&str; 4] = ["--log-max-size", "2M", "--log-keep", "3"];

/// What netto used so far, at one moment.
#[derive(Debug, Clone, Default)]
struct Look {
    seconds: f64,
    resident_kb: f64,
    anonymous_kb: f64,
    descriptors: f64,
    threads: f64,
    cpu_seconds: f64,
    lost_samples: f64,
    lost_snapshots: f64,
}

/// The head of the table that `cargo xtask soak` reads.
const COLUMNS: &str = "seconds,resident_kb,anonymous_kb,descriptors,threads,cpu_seconds,lost_samples,\
    lost_snapshots";

impl Look {
    fn line(&self) -> String {
        let Look {
            seconds,
            resident_kb,
            anonymous_kb,
            descriptors,
            threads,
            cpu_seconds,
            lost_samples,
            lost_snapshots,
        } = self;
        format!(
            "{seconds:.1},{resident_kb},{anonymous_kb},{descriptors},{threads},{cpu_seconds:.2},\
             {lost_samples},{lost_snapshots}"
        )
    }
}

/// Runs it.
pub fn main(words: &[String]) -> Result<ExitCode> {
    let [minutes, folder] = words else {
        bail!("usage: root soak MINUTES FOLDER");
    };
    let minutes: u64 = minutes.parse().context("minutes are a whole number")?;
    let folder = Path::new(folder);
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let _turn = turn::wait()?;
    lab::remove_leftovers();
    let looks = soak(Duration::from_secs(60 * minutes), folder)?;
    draw(&looks, &folder.join("soak.svg"))?;
    Ok(ExitCode::SUCCESS)
}

fn soak(length: Duration, folder: &Path) -> Result<Vec<Look>> {
    let network = Network::direct()?;
    let log = folder.join("soak.netto");
    for old in fs::read_dir(folder)? {
        let old = old?.path();
        if old.to_string_lossy().contains("soak.netto") {
            fs::remove_file(old)?;
        }
    }
    let port = child::free_port()?;
    let (port_text, log_text) = (port.to_string(), log.to_string_lossy().into_owned());
    let mut words = vec!["run", "--address", "127.0.0.1", "--port", &port_text];
    words.extend(["--owners", "process", "--latency", "--log-file", &log_text]);
    words.extend(LOG_OPTIONS);
    let mut daemon = Daemon::of(&mut daemon::command(&words), port)?;
    let (at, begun) = (daemon.at, Instant::now());
    let (is_over, messages) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut looks, mut table) = (Vec::new(), File::create(folder.join("soak.csv"))?);
    writeln!(table, "{COLUMNS}")?;
    let mut keep = |look: Look| {
        looks.push(look);
        writeln!(table, "{}", looks[looks.len() - 1].line())
    };
    thread::scope(|scope| {
        for number in 0..DASHBOARDS {
            let (is_over, messages) = (&is_over, &messages);
            scope.spawn(move || watch(at, number, is_over, messages));
        }
        scope.spawn(|| scrape(at, &is_over));
        let looked = changes(&network, &mut daemon, &log, begun, length, &mut keep);
        is_over.store(true, Ordering::Relaxed);
        looked
    })?;
    let seen = messages.load(Ordering::Relaxed);
    ensure!(seen > 0, "no dashboard got a message");
    println!("{DASHBOARDS} dashboards got {seen} messages");
    let (status, stderr) = daemon.terminate()?;
    ensure!(status.success(), "netto ended with {status}: {stderr}");
    fs::write(folder.join("netto.log"), stderr)?;
    Ok(looks)
}

/// Changes the load, the log's file, network namespaces, control groups and BPF programs (and with
/// these the kernel's symbols), and looks meanwhile.
fn changes(
    network: &Network,
    daemon: &mut Daemon,
    log: &Path,
    begun: Instant,
    length: Duration,
    keep: &mut dyn FnMut(Look) -> io::Result<()>,
) -> Result<()> {
    let mut load: Vec<Owned> = Vec::new();
    let mut program = None;
    for step in 0.. {
        if begun.elapsed() >= length {
            break;
        }
        if step % EVERY_LOAD == 0 {
            load.clear();
            load.extend(next_load(network, step / EVERY_LOAD)?);
        }
        if step % EVERY_NAMESPACE == 0 {
            program = match program {
                Some(_) => None,
                None => Some(traffic::agent(
                    &network.right,
                    &["attach", "xdp-pass", "lan"],
                )?),
            };
            let group = Group::new(&format!("soak{step}"))?;
            drop((Namespace::new()?, group));
        }
        if step % EVERY_ROTATION == EVERY_ROTATION - 1 {
            fs::rename(log, log.with_extension("netto.moved"))?;
            daemon.process.signal("HUP")?;
        }
        thread::sleep(LOOK);
        daemon.must_live()?;
        keep(look(daemon, begun)?)?;
    }
    Ok(())
}

/// In turn: small packets at a rate, bulk TCP, and nothing.
fn next_load(network: &Network, turn: usize) -> Result<Vec<Owned>> {
    let (left, right, to) = (&network.left, &network.right, network.right_v4);
    let socket = SocketAddr::new(to, 5201).to_string();
    Ok(match turn % 4 {
        0 => {
            let sink = traffic::agent(right, &["udp-sink", &socket])?;
            vec![
                traffic::agent(left, &["udp-paced", &socket, "20000", "0"])?,
                sink,
            ]
        }
        1 => traffic::tcp(left, right, to)?.into(),
        2 => vec![traffic::udp_flows(left, network.right_v6)?],
        _ => Vec::new(),
    })
}

/// A dashboard that is opened again and again, each time for longer.
fn watch(at: SocketAddr, number: u64, is_over: &AtomicBool, messages: &AtomicU64) {
    for turn in 1.. {
        let Ok(mut socket) = WebSocket::open(at) else {
            thread::sleep(SCRAPE);
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            continue;
        };
        for _ in 0..20 * (turn + number) {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            match socket.receive() {
                Ok(Received::Message(_)) => messages.fetch_add(1, Ordering::Relaxed),
                Ok(Received::Closed(..)) | Err(_) => break,
            };
        }
    }
}

/// A Prometheus, a curious user, and a profiler.
fn scrape(at: SocketAddr, is_over: &AtomicBool) {
    const SELDOM: [&str; 4] = [
        "/api/v1/snapshot",
        "/api/v1/history?last=5m",
        "/api/v1/owners?last=1m",
        "/api/v1/flamegraph",
    ];
    for turn in 0_usize.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        // An answer that does not come shows in the daemon's own figures.
        let _ = http::get_bytes(at, "/metrics");
        if turn % 10 == 0 {
            let _ = http::get_bytes(at, SELDOM[turn / 10 % SELDOM.len()]);
        }
        thread::sleep(SCRAPE);
    }
}

fn look(daemon: &Daemon, begun: Instant) -> Result<Look> {
    let folder = format!("/proc/{}", daemon.process.pid());
    let status = fs::read_to_string(format!("{folder}/status"))?;
    let of_status = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next());
        let number = number.with_context(|| format!("no {name} in /proc/PID/status"))?;
        anyhow::Ok(number.parse::<f64>()?)
    };
    let stat = fs::read_to_string(format!("{folder}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').context("no /proc/PID/stat")?;
    let ticks: f64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse().unwrap_or(f64::NAN))
        .sum();
    let ticks_hz = sysconf(SysconfVar::CLK_TCK)?.context("unknown length of a tick")? as f64;
    let page = http::get_ok(daemon.at, "/metrics")?;
    let samples = measure::parse(&page.body)?;
    let sum = |name: &str| {
        let meant = samples.iter().filter(|sample| sample.name == name);
        meant.map(|sample| sample.value).sum()
    };
    Ok(Look {
        seconds: begun.elapsed().as_secs_f64(),
        resident_kb: of_status("VmRSS:")?,
        anonymous_kb: of_status("RssAnon:")?,
        descriptors: fs::read_dir(format!("{folder}/fd"))?.count() as f64,
        threads: of_status("Threads:")?,
        cpu_seconds: ticks / ticks_hz,
        lost_samples: sum("netto_samples_lost_total"),
        lost_snapshots: samples
            .iter()
            .filter(|sample| sample.name == "netto_sink_dropped_snapshots_total")
            .filter(|sample| sample.label("sink") == "file")
            .map(|sample| sample.value)
            .sum(),
    })
}

/// One under the other, over minutes: memory, descriptors and threads, CPU time.
fn draw(looks: &[Look], path: &Path) -> Result<()> {
    type Value = fn(&Look) -> f64;
    let cpu = looks.iter().zip(looks.iter().skip(1)).map(|(before, now)| {
        let share = (now.cpu_seconds - before.cpu_seconds) / (now.seconds - before.seconds);
        (now.seconds / 60.0, 100.0 * share)
    });
    let of = |value: Value| -> Vec<(f64, f64)> {
        let points = looks.iter().map(|look| (look.seconds / 60.0, value(look)));
        points.collect()
    };
    let panels = [
        (
            "resident, and without files, MB",
            vec![
                of(|look| look.resident_kb / 1e3),
                of(|look| look.anonymous_kb / 1e3),
            ],
        ),
        (
            "descriptors and threads",
            vec![of(|look| look.descriptors), of(|look| look.threads)],
        ),
        ("CPU time, % of one CPU", vec![cpu.collect()]),
    ];
    let area = SVGBackend::new(path, (900, 750)).into_drawing_area();
    area.fill(&WHITE)?;
    let end = looks.last().map_or(1.0, |look| look.seconds / 60.0);
    for (panel, (name, lines)) in area.split_evenly((panels.len(), 1)).iter().zip(panels) {
        let most = lines
            .iter()
            .flatten()
            .map(|point| point.1)
            .fold(0.0, f64::max);
        let mut chart = ChartBuilder::on(panel)
            .margin(10)
            .set_label_area_size(LabelAreaPosition::Left, 50)
            .set_label_area_size(LabelAreaPosition::Bottom, 30)
            .build_cartesian_2d(0.0..end, 0.0..1.1 * most.max(1.0))?;
        chart
            .configure_mesh()
            .x_desc("minutes")
            .y_desc(name)
            .draw()?;
        for (line, color) in lines.into_iter().zip([BLUE, RED]) {
            chart.draw_series([PathElement::new(line, color)])?;
        }
    }
    area.present()?;
    Ok(())
}
