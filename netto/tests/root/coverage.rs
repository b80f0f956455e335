//! How often a 95 % interval contains the truth: a BPF program whose run time the kernel
//! accounts for, followed interval by interval, alone and beside a second netto. Samplers in
//! step with each other always meet the same moments, and then intervals are off together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use metrics_common::component::index_of;
use metrics_common::confidence;

use crate::burners::{ProgramAccounts, program_seconds};
use crate::daemon::Daemon;
use crate::follow::Followed;
use crate::lab::Network;
use crate::lab_itself::needs_kernel;
use crate::traffic;
use crate::trial::tests;

tests! {
    coverage::a_known_cost_lies_in_its_interval ["ip"] = || starts(false);
    coverage::a_known_cost_lies_in_its_interval_beside_a_second_netto_too ["ip"] = || starts(true);
}

const SETTLE: Duration = Duration::from_secs(1);
const STARTS: usize = 3;
const INTERVALS: usize = 31;
const LENGTH: Duration = Duration::from_millis(500);
/// Of 31 intervals; 25 to 29 were seen, and 15 with samplers in lock-step. What calls the
/// program is no part of the account, which takes some from the 95 %.
const LEAST_COVERED: usize = 21;
/// By how much all intervals of a start together may be off.
const MOST_OFF: f64 = 0.08;
/// How often the kernel's account is read; between two readings it grows evenly.
const READ_EVERY: Duration = Duration::from_millis(10);

/// The program's run time so far at many moments, nanoseconds since the Unix epoch and seconds.
struct Account {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<(u64, f64)>>>,
}

impl Account {
    fn open() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut readings = Vec::new();
            while !until.load(Ordering::Relaxed) {
                let before = unix_ns();
                let ran = program_seconds();
                readings.push((before.midpoint(unix_ns()), ran));
                std::thread::sleep(READ_EVERY);
            }
            readings
        });
        Account {
            stop,
            thread: Some(thread),
        }
    }

    fn close(mut self) -> Result<Vec<(u64, f64)>> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("closed twice")?;
        thread.join().ok().context("the reader panicked")
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn unix_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_nanos() as u64)
}

/// The run time at a moment between two readings.
fn at(readings: &[(u64, f64)], time_ns: u64) -> Option<f64> {
    let next = readings.partition_point(|(time, _)| *time < time_ns);
    let (before, after) = (readings.get(next.checked_sub(1)?)?, readings.get(next)?);
    let part = (time_ns - before.0) as f64 / (after.0 - before.0) as f64;
    Some(before.1 + part * (after.1 - before.1))
}

fn starts(beside: bool) -> Result<()> {
    needs_kernel(6, 6, "tcx")?;
    let network = Network::direct()?;
    let _accounts = ProgramAccounts::open()?;
    let _program = traffic::agent(&network.right, &["attach", "tcx", "lan"])?;
    let _traffic = traffic::udp_blast(&network.left, network.nobody_v4)?;
    for start in 1..=STARTS {
        let _other = beside.then(|| Daemon::start(&[])).transpose()?;
        let (covered, deviation) = one_start()?;
        println!(
            "\nstart {start}: {covered} of {INTERVALS} intervals contain the truth, all together are {:+.1} % off",
            deviation * 100.0
        );
        ensure!(
            covered >= LEAST_COVERED && deviation.abs() <= MOST_OFF,
            "start {start}: {covered} of {INTERVALS}, {:+.1} % off",
            deviation * 100.0
        );
    }
    Ok(())
}

/// In how many intervals the truth was contained, and by how much their sum is off.
fn one_start() -> Result<(usize, f64)> {
    let row = index_of("tc_classify").context("no such row")?;
    let mut daemon = Followed::start()?;
    std::thread::sleep(SETTLE);
    let account = Account::open();
    let mut measured = Vec::new();
    for _ in 0..INTERVALS {
        let from = SystemTime::now();
        std::thread::sleep(LENGTH);
        measured.push(daemon.between(from, SystemTime::now())?);
    }
    // The last snapshot may be later than the last reading.
    std::thread::sleep(SETTLE);
    let readings = account.close()?;
    let (mut covered, mut by_netto, mut in_truth) = (0, 0.0, 0.0);
    for sum in &measured {
        let end_ns = sum.time_unix_ns;
        let ran = at(&readings, end_ns)
            .zip(at(&readings, end_ns - sum.interval_ns))
            .map(|(end, begin)| end - begin)
            .context("the account was not read then")?;
        let (low, high) =
            confidence::of_component(&daemon.info, sum, row).context("no interval")?;
        covered += usize::from((low as f64..=high as f64).contains(&(ran * 1e9)));
        by_netto += sum.total_ns(row).context("not measured")? as f64 / 1e9;
        in_truth += ran;
    }
    Ok((covered, by_netto / in_truth - 1.0))
}
