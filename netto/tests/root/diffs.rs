//! `netto diff` on real runs: what did not change is not called changed, and what a program costs
//! that was added is found where it belongs, in the size that the program itself wrote down.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::Value;

use crate::burn::{self, Burnt};
use crate::child::Owned;
use crate::daemon::{Daemon, run_to_end};
use crate::lab::Network;
use crate::lab_itself::needs_kernel;
use crate::trial::tests;
use crate::{cpus, traffic};

tests! {
    diff::a_tc_program_is_found_with_what_it_costs_and_no_change_is_none ["ip"];
    pairs::twenty_pairs_of_runs_without_a_change_have_none ["ip"];
}

/// The part that the program's time belongs to.
const PART: &str = "tc_classify";
/// The wholes of that component.
const WHOLES: [&str; 2] = ["rx_softirq", "network"];
/// Time of each packet in the program.
const BURN_NS: u64 = 1_000;
/// Time of calling the program, and of its beginning and end that it does not measure; included in
/// netto's figure.
const AROUND_NS: f64 = 400.0;
const PACKETS_PER_SECOND: &str = "60000";
/// Time until a started program has settled.
const SETTLE: Duration = Duration::from_millis(1500);
const SPAN: Duration = Duration::from_secs(10);
const SHORT_SPAN: Duration = Duration::from_secs(7);
const PAIRS: usize = 20;
/// One of twenty may be called changed. More than three are by chance once in sixty times.
const MOST_CALLED_CHANGED: usize = 3;

/// A steady load, and a netto that logs it.
struct Run {
    daemon: Daemon,
    log: PathBuf,
    _folder: tempfile::TempDir,
    network: Network,
    _load: Owned,
}

/// A part of the log.
pub struct Span {
    from: SystemTime,
    to: SystemTime,
}

impl Span {
    /// The time from now on.
    pub fn watch(length: Duration) -> Self {
        let from = SystemTime::now();
        std::thread::sleep(length);
        Span {
            from,
            to: SystemTime::now(),
        }
    }

    fn seconds(&self) -> Result<f64> {
        Ok(self.to.duration_since(self.from)?.as_secs_f64())
    }

    /// As `netto diff` takes it.
    pub fn of(&self, log: &Path) -> Result<String> {
        let (from, to) = (
            Timestamp::try_from(self.from)?,
            Timestamp::try_from(self.to)?,
        );
        Ok(format!("{}@{from}..{to}", log.display()))
    }
}

impl Run {
    fn start() -> Result<Self> {
        let network = Network::direct()?;
        let folder = tempfile::tempdir()?;
        let log = folder.path().join("netto.log");
        let daemon =
            Daemon::start(&["--user-period", "200", "--log-file", &log.to_string_lossy()])?;
        let to = std::net::SocketAddr::new(network.nobody_v4, 9).to_string();
        let cpu = (cpus::count()? - 1).to_string();
        let load = traffic::agent(&network.left, &["udp-paced", &to, PACKETS_PER_SECOND, &cpu])?;
        std::thread::sleep(SETTLE);
        Ok(Run {
            daemon,
            log,
            _folder: folder,
            network,
            _load: load,
        })
    }

    /// Stops netto, so that its log is complete, and compares parts of it.
    fn compare(self, pairs: &[(&Span, &Span)]) -> Result<Vec<Changes>> {
        let (status, stderr) = self.daemon.terminate()?;
        ensure!(status.success(), "netto ended ({status}): {stderr}");
        let compared = pairs.iter().map(|(a, b)| {
            let (a, b) = (a.of(&self.log)?, b.of(&self.log)?);
            let (status, json, stderr) = run_to_end(&["diff", &a, &b, "--format", "json"])?;
            ensure!(status.success(), "netto diff ended ({status}): {stderr}");
            ensure!(stderr.is_empty(), "netto diff warns: {stderr}");
            let comparison: Value = serde_json::from_str(&json)?;
            ensure!(!comparison["blocks"].is_null(), "too few intervals: {json}");
            Changes::of(&comparison)
        });
        compared.collect()
    }
}

/// The result of a comparison by component.
struct Changes(Vec<Change>);

/// The result for one component, in CPU seconds per second.
struct Change {
    slug: String,
    cpus: f64,
    low: f64,
    high: f64,
    is_real: bool,
}

impl Changes {
    fn of(comparison: &Value) -> Result<Self> {
        let list = comparison["changes"].as_array().context("no changes")?;
        let change = |one: &Value| {
            Some(Change {
                slug: one["component"].as_str()?.to_owned(),
                cpus: one["cpus"]["value"].as_f64()?,
                low: one["cpus"]["interval"][0].as_f64()?,
                high: one["cpus"]["interval"][1].as_f64()?,
                is_real: one["is_real"].as_bool()?,
            })
        };
        let all = list
            .iter()
            .map(|one| change(one).with_context(|| format!("no change: {one}")));
        Ok(Changes(all.collect::<Result<_>>()?))
    }

    fn get(&self, slug: &str) -> Result<&Change> {
        let found = self.0.iter().find(|change| change.slug == slug);
        found.with_context(|| format!("{slug} is not compared"))
    }

    fn real(&self) -> Vec<String> {
        let real = self.0.iter().filter(|change| change.is_real);
        real.map(Change::to_string).collect()
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} {:+.4} CPUs ({:+.4} … {:+.4})",
            self.slug, self.cpus, self.low, self.high
        )
    }
}

fn a_tc_program_is_found_with_what_it_costs_and_no_change_is_none() -> Result<()> {
    needs_kernel(6, 6, "tcx")?;
    let run = Run::start()?;
    let first = Span::watch(SPAN);
    let second = Span::watch(SPAN);
    let words = ["burn", "lan", &BURN_NS.to_string()];
    let program = traffic::agent(&run.network.right, &words)?;
    let sums = burn::sums()?;
    std::thread::sleep(SETTLE);
    let before = burn::read(&sums)?;
    let third = Span::watch(SPAN);
    let burnt = burn::read(&sums)?.since(before);
    drop(program);
    let seconds = third.seconds()?;
    let [unchanged, changed] = &run.compare(&[(&first, &second), (&second, &third)])?[..] else {
        anyhow::bail!("two comparisons were asked for");
    };
    is_found(changed, burnt, seconds)?;
    let real = unchanged.real();
    ensure!(real.is_empty(), "called changed without a change: {real:?}");
    Ok(())
}

/// The program is the only change of its size, and its time lies within the interval.
fn is_found(changes: &Changes, burnt: Burnt, seconds: f64) -> Result<()> {
    let found = changes.get(PART)?;
    let truth = burnt.time_ns as f64 / 1e9 / seconds;
    let around = burnt.packets as f64 * AROUND_NS / 1e9 / seconds;
    println!(
        "\n{:.0} packets/s of {:.0} ns: {truth:.4} CPUs in truth, {found}\nreal: {:?}",
        burnt.packets as f64 / seconds,
        burnt.time_ns as f64 / burnt.packets.max(1) as f64,
        changes.real(),
    );
    ensure!(burnt.packets > 0, "no packet came through");
    ensure!(found.is_real, "{found} is not called a change");
    ensure!(
        found.low <= truth + around && truth <= found.high,
        "{truth:.4} CPUs in truth, up to {around:.4} more around it: {found}"
    );
    let is_other = |change: &&Change| {
        let is_part_of_it = change.slug == PART || WHOLES.contains(&change.slug.as_str());
        change.is_real && !is_part_of_it && change.cpus.abs() > truth / 2.0
    };
    let others: Vec<String> = changes
        .0
        .iter()
        .filter(is_other)
        .map(Change::to_string)
        .collect();
    ensure!(others.is_empty(), "changed as much as {found}: {others:?}");
    Ok(())
}

fn twenty_pairs_of_runs_without_a_change_have_none() -> Result<()> {
    let run = Run::start()?;
    let spans: Vec<Span> = (0..2 * PAIRS).map(|_| Span::watch(SHORT_SPAN)).collect();
    let pairs: Vec<(&Span, &Span)> = spans
        .chunks_exact(2)
        .map(|pair| (&pair[0], &pair[1]))
        .collect();
    let compared = run.compare(&pairs)?;
    let changed: Vec<Vec<String>> = compared
        .iter()
        .map(Changes::real)
        .filter(|real| !real.is_empty())
        .collect();
    println!(
        "\n{} of {PAIRS} comparisons call nothing changed; the others: {changed:#?}",
        PAIRS - changed.len()
    );
    ensure!(
        changed.len() <= MOST_CALLED_CHANGED,
        "{} of {PAIRS} comparisons call something changed",
        changed.len()
    );
    Ok(())
}
