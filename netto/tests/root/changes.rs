//! The host changes while netto measures: CPUs go and come back, modules are
//! loaded. Guests only, because it is their whole host that changes.

use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use metrics_common::component::{COMPONENTS, index_of};
use metrics_common::{Kind, Snapshot};

use crate::child;
use crate::follow::Followed;
use crate::guest;
use crate::trial::{NotOnThisKernel, tests};

tests! {
    changes::a_cpu_that_goes_and_comes_back_is_followed_without_a_spike;
    changes::a_component_whose_module_is_loaded_becomes_available;
}

/// How long reading the symbols anew may take beside the measurement, which goes on
/// meanwhile: an emulated processor needs half a minute for an unoptimised build.
const READING: Duration = Duration::from_secs(180);
/// Snapshots, of 100 ms each, to wait for a change to be seen.
const PATIENCE: usize = 150;

const SWITCH: &str = "/sys/devices/system/cpu/cpu1/online";

/// Switches CPU 1; on again when dropped.
struct CpuSwitch;

impl CpuSwitch {
    fn set(&self, online: bool) -> Result<()> {
        std::fs::write(SWITCH, if online { "1" } else { "0" })
            .with_context(|| format!("cannot switch CPU 1 (online: {online})"))
    }
}

impl Drop for CpuSwitch {
    fn drop(&mut self) {
        // If this fails, the CPU is on already, or the test has reported why it is not.
        let _ = self.set(true);
    }
}

/// Threads that send to themselves over loopback, until dropped.
struct Traffic {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<std::io::Result<()>>>,
}

impl Traffic {
    fn start(threads: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..threads)
            .map(|_| {
                let stop = stop.clone();
                std::thread::spawn(move || {
                    let socket = UdpSocket::bind("127.0.0.1:0")?;
                    socket.connect(socket.local_addr()?)?;
                    while !stop.load(Ordering::Relaxed) {
                        socket.send(&[0; 64])?;
                        socket.recv(&mut [0; 64])?;
                    }
                    Ok(())
                })
            })
            .collect();
        Traffic { stop, threads }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A sender that failed shows as a CPU without samples.
            let _ = thread.join();
        }
    }
}

/// No CPU's time exceeds the interval, and all tables have the same CPUs.
fn must_be_sane(snapshot: &Snapshot) -> Result<()> {
    let columns = snapshot.cpus.len();
    for (column, cpu) in snapshot.cpus.iter().enumerate() {
        let mut timed_ns = 0;
        for (component, row) in COMPONENTS.iter().zip(&snapshot.cost().components) {
            let Some(row) = row else { continue };
            ensure!(
                row.len() == columns,
                "{} has {} CPUs",
                component.slug,
                row.len()
            );
            if matches!(component.kind, Kind::Timed(..)) {
                timed_ns += row[column];
            }
        }
        ensure!(
            timed_ns <= snapshot.interval_ns,
            "snapshot {}: CPU {cpu} did {timed_ns} ns of work in {} ns",
            snapshot.sequence,
            snapshot.interval_ns
        );
    }
    ensure!(
        snapshot.cost().stacks_taken.len() == columns
            && snapshot
                .sections
                .modes
                .as_ref()
                .map(|modes| modes.cpus.len())
                == Some(columns),
        "snapshot {} tells of different CPUs",
        snapshot.sequence
    );
    Ok(())
}

/// Waits for a snapshot of exactly these CPUs that the condition holds for.
fn wait_for(
    daemon: &mut Followed,
    cpus: &[u32],
    condition: impl Fn(&Snapshot) -> bool,
) -> Result<Snapshot> {
    for _ in 0..PATIENCE {
        let snapshot = daemon.next()?;
        must_be_sane(&snapshot)?;
        if snapshot.cpus == cpus && condition(&snapshot) {
            return Ok(snapshot);
        }
    }
    anyhow::bail!("no snapshot of CPUs {cpus:?} that is as it should be");
}

fn a_cpu_that_goes_and_comes_back_is_followed_without_a_spike() -> Result<()> {
    guest::only()?;
    if !Path::new(SWITCH).exists() {
        return Err(NotOnThisKernel("CPU 1 cannot be taken offline here".to_owned()).into());
    }
    let mut daemon = Followed::start()?;
    let online: Vec<u32> = daemon.next()?.cpus;
    let (position, _) = online
        .iter()
        .enumerate()
        .find(|(_, cpu)| **cpu == 1)
        .context("CPU 1 is not online")?;
    let without: Vec<u32> = online.iter().copied().filter(|cpu| *cpu != 1).collect();
    let is_sampled = |snapshot: &Snapshot| snapshot.cost().stacks_taken[position] > 0;
    let _traffic = Traffic::start(2 * online.len());
    wait_for(&mut daemon, &online, is_sampled)?;
    let switch = CpuSwitch;
    for cycle in 1..=2 {
        switch.set(false)?;
        wait_for(&mut daemon, &without, |_| true)?;
        for _ in 0..5 {
            let snapshot = daemon.next()?;
            must_be_sane(&snapshot)?;
            ensure!(snapshot.cpus == without, "CPUs {:?}", snapshot.cpus);
        }
        switch.set(true)?;
        let first = wait_for(&mut daemon, &online, |_| true)?;
        let network = index_of("network")
            .and_then(|row| first.cost().cpu_ns(row))
            .context("networking is not measured")?;
        println!(
            "\ncycle {cycle}: after its return CPU 1 spent {} of {} ns on networking",
            network[position], first.interval_ns
        );
        wait_for(&mut daemon, &online, is_sampled)
            .context("CPU 1 is not sampled after its return")?;
    }
    Ok(())
}

/// The modules of connection tracking, in loading order, where guests keep them.
const MODULES: [&str; 2] = ["nf_conntrack", "nft_ct"];
const COMPONENT: &str = "conntrack";

fn file_of(module: &str) -> String {
    format!("/modules/{module}.ko")
}

/// Loads the modules again when dropped: other tests need them.
struct ModulesOut;

impl Drop for ModulesOut {
    fn drop(&mut self) {
        for module in MODULES {
            // If it fails, the next test that needs the module reports it.
            let _ = Command::new("insmod").arg(file_of(module)).output();
        }
    }
}

fn a_component_whose_module_is_loaded_becomes_available() -> Result<()> {
    guest::only()?;
    if !MODULES
        .iter()
        .all(|module| Path::new(&file_of(module)).exists())
    {
        return Err(NotOnThisKernel("connection tracking is no module here".to_owned()).into());
    }
    let loaded_again = ModulesOut;
    for module in MODULES.iter().rev() {
        child::run(Command::new("rmmod").arg(module))?;
    }
    let row = index_of(COMPONENT).context("no such row")?;
    let mut daemon = Followed::start()?;
    let is_available = |daemon: &Followed| daemon.info.components[row].availability.is_available();
    ensure!(!is_available(&daemon), "{COMPONENT} needs no module");
    let before = daemon.next()?;
    ensure!(
        before.cost().cpu_ns(row).is_none(),
        "a row without a meaning"
    );

    drop(loaded_again);
    let mut seen = 0;
    let deadline = Instant::now() + READING;
    while !is_available(&daemon) {
        daemon.next()?;
        seen += 1;
        ensure!(
            Instant::now() < deadline,
            "{COMPONENT} is still unavailable after {seen} snapshots"
        );
    }
    println!("\n{COMPONENT} became available after {seen} snapshots");
    let after = daemon.next()?;
    ensure!(
        after.cost().cpu_ns(row).is_some(),
        "available, and no values"
    );
    let info = daemon.daemon().info()?;
    ensure!(
        info == daemon.info,
        "/api/v1/info does not say what the log says"
    );
    let metrics = crate::http::get_ok(daemon.daemon().at, "/metrics")?.body;
    let series = format!("component=\"{COMPONENT}\"");
    ensure!(
        metrics
            .lines()
            .any(|line| line.starts_with("netto_component_cpu_seconds_total")
                && line.contains(&series)),
        "Prometheus is told nothing of {COMPONENT}"
    );
    Ok(())
}
