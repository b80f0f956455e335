//! Figures against a truth that is not netto's: the kernel's own account of a BPF program's run
//! time, of a process's CPU time, of softirqs. Bounds are such that a factor of two does not
//! pass; `tests/accuracy/main.rs` says which component is checked by which.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::query::ProgInfoIter;
use metrics_common::{COMPONENTS, Kind, Source};

use crate::child::Owned;
use crate::daemon::{Daemon, Shared};
use crate::lab::{Namespace, Network};
use crate::lab_itself::needs_kernel;
use crate::measure::{self, Cost};
use crate::trial::{NotOnThisKernel, tests};
use crate::{http, traffic};

tests! {
    burners::a_tc_program_costs_what_the_kernel_says_it_ran ["ip"];
    burners::an_xdp_program_costs_what_the_kernel_says_it_ran ["ip"];
    burners::unix_sockets_cost_what_their_users_have_had_of_the_cpu ["ip"] = || {
        own_clock(
            "unix-blast",
            &["local_ipc", "tx_syscall", "rx_syscall"],
            0.7,
            1.35,
        )
    };
    burners::connecting_costs_what_the_connecting_process_has_had_of_the_cpu ["ip"] = || {
        own_clock(
            "connect-storm",
            &["connections", "rx_softirq", "tx_syscall"],
            0.6,
            1.15,
        )
    };
    burners::softirqs_are_counted_as_the_kernel_counts_them ["ip", "tc"];
}

const SETTLE: Duration = Duration::from_secs(1);
/// How long softirqs are counted.
const MEASURED: Duration = Duration::from_secs(4);
/// Of work that is compared: some hundred samples.
const ENOUGH_SECONDS: f64 = 0.6;
/// How often is looked whether there is enough of it, and for how long at most.
const LOOK: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

/// The figure is the truth, but for this much.
fn is_accurate(what: &str, figure: f64, truth: f64, low: f64, high: f64) -> Result<()> {
    let ratio = figure / truth;
    println!("\n{what}: {figure:.3} by netto, {truth:.3} in truth: {ratio:.3}");
    ensure!(
        high < 2.0 * low,
        "bounds of {low} and {high} let a factor of two pass"
    );
    ensure!(
        ratio >= low && ratio <= high,
        "{what}: {figure:.3} is {ratio:.3} of {truth:.3}, expected {low} to {high}"
    );
    Ok(())
}

/// Readings after enough seconds of work, for which a busy machine takes longer.
fn enough<T>(what: &str, read: impl Fn() -> Result<(T, f64)>) -> Result<(T, f64)> {
    let deadline = Instant::now() + LONGEST;
    while Instant::now() < deadline {
        std::thread::sleep(LOOK);
        let (reading, worked) = read()?;
        if worked >= ENOUGH_SECONDS {
            return Ok((reading, worked));
        }
    }
    bail!("{what} had less than {ENOUGH_SECONDS} s of the CPU")
}

/// Lets the kernel account for the time of BPF programs, until dropped.
pub struct ProgramAccounts(String);

const ACCOUNTS: &str = "/proc/sys/kernel/bpf_stats_enabled";

impl ProgramAccounts {
    /// Begins.
    pub fn open() -> Result<Self> {
        let before = std::fs::read_to_string(ACCOUNTS).context(ACCOUNTS)?;
        std::fs::write(ACCOUNTS, "1").context(ACCOUNTS)?;
        Ok(ProgramAccounts(before))
    }
}

impl Drop for ProgramAccounts {
    fn drop(&mut self) {
        // Keeping the accounts does no harm.
        let _ = std::fs::write(ACCOUNTS, self.0.trim());
    }
}

/// Seconds that the tests' programs have run.
pub fn program_seconds() -> f64 {
    let is_ours = |name: &str| name.starts_with("nettotest_");
    let programs = ProgInfoIter::default().filter(|p| is_ours(&p.name.to_string_lossy()));
    programs
        .map(|program| program.run_time_ns as f64 / 1e9)
        .sum()
}

/// The program adds some microseconds to each packet, compared with which its call is cheap.
fn program(how: &str, part: &str) -> Result<()> {
    let network = Network::direct()?;
    let _accounts = ProgramAccounts::open()?;
    let _program = traffic::agent(&network.right, &["attach", how, "lan"])?;
    let daemon = Daemon::start(&["--user-period", "100"])?;
    let _traffic = traffic::udp_blast(&network.left, network.nobody_v4)?;
    std::thread::sleep(SETTLE);
    let (before, ran) = (daemon.reading()?, program_seconds());
    let (after, ran) = enough(how, || Ok((daemon.reading()?, program_seconds() - ran)))?;
    let cost = Cost::between(&before, &after, daemon.info()?);
    is_accurate(part, cost.part_seconds(part)?, ran, 0.8, 1.25)
}

fn a_tc_program_costs_what_the_kernel_says_it_ran() -> Result<()> {
    needs_kernel(6, 6, "tcx")?;
    program("tcx", "tc_classify")
}

fn an_xdp_program_costs_what_the_kernel_says_it_ran() -> Result<()> {
    program("xdp-generic", "xdp_generic")
}

/// CPU time of a process so far, all its threads together, seconds.
pub fn cpu_seconds(process: &Owned) -> Result<f64> {
    let path = format!("/proc/{}/stat", process.pid());
    let text = std::fs::read_to_string(&path).context(path)?;
    // The name before may hold anything; utime and stime are the 14th and 15th field of all.
    let (_, rest) = text.rsplit_once(')').context("no name")?;
    let ticks: Option<Vec<f64>> = rest
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|word| word.parse().ok())
        .collect();
    // SAFETY: sysconf has no preconditions.
    let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    Ok(ticks.context("no times")?.iter().sum::<f64>() / hz)
}

/// A process that does nothing else: its rows together are its own CPU time, less the way
/// into the kernel and back, and what it does outside. It was 1.07 of it for UNIX sockets and
/// 0.86 for connections, of which sockets are made and closed by functions that serve all files.
fn own_clock(agent: &str, rows: &[&str], low: f64, high: f64) -> Result<()> {
    let namespace = Namespace::new()?;
    let daemon = Daemon::start(&["--user-period", "100"])?;
    let load = traffic::agent(&namespace, &[agent])?;
    std::thread::sleep(SETTLE);
    let (before, spent) = (daemon.reading()?, cpu_seconds(&load)?);
    let (after, spent) = enough(agent, || {
        Ok((daemon.reading()?, cpu_seconds(&load)? - spent))
    })?;
    let cost = Cost::between(&before, &after, daemon.info()?);
    let seconds: Result<Vec<f64>> = rows.iter().map(|row| cost.event_seconds(row)).collect();
    println!("{rows:?}: {seconds:.3?}");
    is_accurate(agent, seconds?.iter().sum(), spent, low, high)
}

/// How often each softirq has run, over all CPUs, by the kernel's names.
pub fn softirq_counts() -> Result<BTreeMap<String, u64>> {
    let text = std::fs::read_to_string("/proc/softirqs")?;
    let rows = text.lines().filter_map(|line| line.split_once(':'));
    rows.map(|(name, counts)| {
        let counts: Result<Vec<u64>, _> = counts.split_whitespace().map(str::parse).collect();
        Ok((name.trim().to_owned(), counts?.iter().sum()))
    })
    .collect()
}

/// The kernel's names of the vectors.
const VECTORS: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// How often netto has seen an event.
fn calls(daemon: &Daemon) -> Result<BTreeMap<String, f64>> {
    let mut calls = BTreeMap::new();
    for sample in measure::parse(&http::get_ok(daemon.at, "/metrics")?.body)? {
        if sample.name == "netto_calls_total" {
            *calls.entry(sample.label("event").to_owned()).or_default() += sample.value;
        }
    }
    Ok(calls)
}

/// Opens and closes sockets for so long: what is left of each waits for a grace period, and a
/// quiet machine has hardly anything else that does.
fn make_rcu_callbacks(length: Duration) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < length {
        drop(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Both counts are read one after the other, and netto's are those of its last interval.
fn softirqs_are_counted_as_the_kernel_counts_them() -> Result<()> {
    let network = Network::direct()?;
    let left = &network.left;
    // A queue that holds packets back is emptied by the TX softirq.
    left.run(
        "tc",
        "qdisc add dev lan root tbf rate 50mbit burst 32k latency 50ms",
    )?;
    let daemon = Shared::take()?;
    let _traffic = traffic::udp(left, &network.right, network.right_v4)?;
    std::thread::sleep(SETTLE);
    let (before, kernel_before) = (calls(&daemon)?, softirq_counts()?);
    make_rcu_callbacks(MEASURED)?;
    let (after, kernel_after) = (calls(&daemon)?, softirq_counts()?);
    let mut compared = BTreeSet::new();
    for component in COMPONENTS {
        let Kind::Timed(Source::Softirq(vector), _) = component.kind else {
            continue;
        };
        let name = VECTORS[usize::from(vector)];
        let by_kernel = kernel_after[name] - kernel_before[name];
        let Some(now) = after.get(component.slug) else {
            let lack = format!("{} is not counted here", component.slug);
            return Err(NotOnThisKernel(lack).into());
        };
        let by_netto = now - before.get(component.slug).copied().unwrap_or_default();
        if by_kernel < 100 {
            // So few may all have been in the moments between the readings.
            ensure!(
                by_netto < 200.0,
                "{name}: {by_netto}, {by_kernel} by the kernel"
            );
            continue;
        }
        is_accurate(component.slug, by_netto, by_kernel as f64, 0.7, 1.35)?;
        compared.insert(component.slug);
    }
    for always in ["tx_softirq", "rx_softirq", "softirq_timer", "softirq_rcu"] {
        ensure!(compared.contains(always), "only {compared:?} ran");
    }
    Ok(())
}
