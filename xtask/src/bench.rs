//! `cargo xtask bench`: what netto costs, measured on this machine, as a table.
//!
//! Owns the choice of parts and where the table goes; each part measures on
//! its own. Nothing here decides whether a figure is good enough: the table
//! shows the aim next to it, and people look.

mod analysis;
mod bulk;
mod cpus;
mod daemon;
mod dashboard;
mod document;
mod figures;
mod guest;
mod idle;
mod inside;
mod lab;
mod load;
mod own;
mod present;
mod programs;
mod sockets;
mod softirq;
mod table;

use std::cell::OnceCell;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

pub use self::load::Load;

use self::document::Document;
use self::figures::Spread;
use self::inside::Inside;
use self::lab::Lab;
use crate::{build, process, setup, vm};

/// What to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Bulk TCP with netto against without
    Bulk,
    /// An idle machine, and the start
    Idle,
    /// Packets from few to the most and back
    Sweep,
    /// All of that in a guest whose time is instructions
    Guest,
    /// The sweep in such a guest
    GuestSweep,
    /// What the probes cost packets
    Softirq,
    /// CPU time and memory of the daemon
    Daemon,
    /// User-space work per stack
    Analysis,
    /// Made-up hosts of up to a thousand CPUs
    Cpus,
    /// Other ways of timing socket calls
    Sockets,
    /// What the dashboard costs a browser
    Dashboard,
}

impl Part {
    /// Whether this machine is not touched: a made-up host or a guest, which need no root.
    fn is_harmless(self) -> bool {
        matches!(
            self,
            Part::Dashboard | Part::Cpus | Part::Guest | Part::GuestSweep
        )
    }

    /// As on the command line.
    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Options of `cargo xtask bench`.
#[derive(Debug, Args)]
pub struct Options {
    /// Measure only these parts
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// How often each comparison is repeated
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// The same for bulk TCP
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(6..=1000))]
    pairs: u16,
    /// The same in the guest: four runs, and some minutes, each
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    guest_rounds: u16,
    /// The same for sweeps
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    sweeps: u16,
    /// Length of a step of a sweep, seconds
    #[arg(long, default_value_t = 4.0)]
    step: f64,
    /// How long netto gets used to a load before its cost counts, seconds
    #[arg(long, default_value_t = 10.0)]
    warm_up: f64,
    /// More options for netto but --frequency, in one word (bulk, idle, sweep and guests)
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    netto_args: String,
    /// How long the dashboard is watched, minutes
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1440))]
    minutes: u16,
    /// Write the tables into docs/PERFORMANCE.md, each part into its place
    #[arg(long)]
    update_docs: bool,
}

impl Options {
    fn parts(&self) -> &[Part] {
        match self.only.is_empty() {
            true => Part::value_variants(),
            false => &self.only,
        }
    }
}

/// Measures and prints the tables.
///
/// # Errors
/// What could not be measured, and why.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let parts = options.parts();
    if !process::is_root() && !parts.iter().all(|part| part.is_harmless()) {
        bail!("measuring loads BPF programs and makes network namespaces: run it as root");
    }
    setup::ensure(root, setup::Purpose::Bench)?;
    let built = Built::new(root)?;
    if process::is_root() && !programs::of_any_netto()?.is_empty() {
        eprintln!("xtask: another netto is at work here; what it costs is in every figure");
    }
    let mut document = Document::open(root, options.update_docs)?;
    let lab = OnceCell::new();
    for &part in parts {
        let tables = measure(part, &built, options, &lab, document.text())
            .with_context(|| format!("cannot measure {}", part.name()))?;
        document.put(&part.name(), &tables)?;
    }
    Ok(())
}

/// What is measured, and what measures, as far as a part needs it.
struct Built<'a> {
    root: &'a Path,
    netto: PathBuf,
}

impl<'a> Built<'a> {
    fn new(root: &'a Path) -> Result<Self> {
        let netto = build::netto(root, build::Profile::Release)?;
        Ok(Built { root, netto })
    }

    fn benchmark(&self, name: &str) -> Result<PathBuf> {
        benchmark(self.root, name)
    }
}

/// The lab, made when it is first needed.
fn lab(cell: &OnceCell<Lab>) -> Result<&Lab> {
    if cell.get().is_none() {
        // It was empty a line ago, and nobody else has it.
        let _ = cell.set(Lab::new()?);
    }
    cell.get().context("no lab")
}

/// One part: where and how it was measured, and its tables.
fn measure(
    part: Part,
    built: &Built<'_>,
    options: &Options,
    cell: &OnceCell<Lab>,
    document: &str,
) -> Result<String> {
    let Built { root, netto } = built;
    let rounds = usize::from(options.rounds);
    let attach = || built.benchmark("attach");
    let tests;
    let mut inside = Inside {
        root,
        netto,
        tests: Path::new(""),
        netto_args: &options.netto_args,
    };
    if matches!(
        part,
        Part::Bulk | Part::Idle | Part::Sweep | Part::Guest | Part::GuestSweep
    ) {
        tests = vm::root_tests(root)?;
        inside.tests = &tests;
    }
    let sweep = format!("sweep --step {} --rounds {}", options.step, options.sweeps);
    let (what, tables) = match part {
        Part::Bulk => {
            let bulk = bulk::Options {
                netto,
                tests: inside.tests,
                netto_args: &options.netto_args,
                pairs: usize::from(options.pairs),
                warm_up: Duration::try_from_secs_f64(options.warm_up)?,
            };
            let tables = bulk::measure(lab(cell)?, &bulk, document)?;
            (machine(), joined(&tables))
        }
        Part::Idle => (machine(), joined(&idle::measure(&inside, document)?)),
        Part::Sweep => {
            eprintln!("xtask: sweeps; what else runs here is in them");
            (machine(), inside.here(&sweep)?.rows)
        }
        Part::Guest => {
            let rounds = usize::from(options.guest_rounds);
            let tables = guest::measure(&inside, rounds, options.warm_up, document);
            (GUEST.to_owned(), joined(&tables))
        }
        Part::GuestSweep => (GUEST.to_owned(), inside.guest(1, &sweep).rows),
        Part::Softirq => {
            let floor = softirq::Floor::new(root)?;
            let tables = softirq::measure(lab(cell)?, netto, &attach()?, &floor, rounds)?;
            (repeated(rounds), joined(&tables))
        }
        Part::Daemon => (machine(), joined(&own::measure(lab(cell)?, netto)?)),
        Part::Analysis => {
            let program = built.benchmark("analysis")?;
            (machine(), joined(&analysis::measure(&program)?))
        }
        Part::Cpus => {
            let (cpus, metrics) = (built.benchmark("cpus")?, built.benchmark("metrics")?);
            let (by_size, more) = cpus::measure(root, &cpus, &metrics, options.update_docs)?;
            let by_size = by_size.complete()?;
            (machine(), format!("{by_size}\n{}", joined(&more)))
        }
        Part::Sockets => {
            let attach = attach()?;
            let sockets = sockets::Built::new(root, netto, &attach)?;
            let rounds = rounds.div_ceil(2);
            let tables = sockets::measure(lab(cell)?, &sockets, rounds)?;
            (repeated(rounds), joined(&tables))
        }
        Part::Dashboard => {
            let program = built.benchmark("dashboard")?;
            (
                machine(),
                joined(&dashboard::measure(&program, options.minutes)?),
            )
        }
    };
    if tables.trim().is_empty() {
        bail!("it gave no figure");
    }
    let more = match options.netto_args.trim() {
        "" => String::new(),
        words => format!(" netto with `{words}`."),
    };
    Ok(format!("{what}.{more}\n\n{}\n", tables.trim()))
}

/// Where the guest's figures are from.
const GUEST: &str = "Linux 6.12 in QEMU, a nanosecond of whose time is one instruction";

fn repeated(rounds: usize) -> String {
    format!("{}; {rounds} rounds", machine())
}

fn joined(tables: &[impl Display]) -> String {
    let texts: Vec<String> = tables.iter().map(ToString::to_string).collect();
    texts.join("\n")
}

/// Builds a benchmark of netto and names its program.
fn benchmark(root: &Path, name: &str) -> Result<PathBuf> {
    let mut command = build::cargo_with_dashboard(root)?;
    command.args(["bench", "--package", "netto", "--bench", name, "--no-run"]);
    command.arg("--message-format=json-render-diagnostics");
    let messages = process::output(&mut command)?;
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
        .context("cargo does not say where it put the benchmark")
}

/// A line `name median low high` of the benchmark.
fn read(text: &str, name: &str) -> Option<Spread> {
    let mut words = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?
        .split(' ')
        .map(|word| word.parse::<f64>().ok());
    Some(Spread {
        median: words.next()??,
        low: words.next()??,
        high: words.next()??,
    })
}

/// The machine that the figures are true of.
fn machine() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let models = || {
        info.lines()
            .filter_map(|line| line.strip_prefix("model name")?.split_once(": "))
            .map(|(_, model)| model.trim())
    };
    let guest = if info.contains(" hypervisor") {
        ", a virtual machine"
    } else {
        ""
    };
    format!(
        "Linux {}, {} × {}{guest}",
        read("/proc/sys/kernel/osrelease").trim(),
        models().count(),
        models().next().unwrap_or("a CPU"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_found_by_its_whole_name() {
        let text = "classify_us 0.2 0.1 0.3\nclassify_us_cold 9 9 9\n";
        assert_eq!(read(text, "classify_us").unwrap().high, 0.3);
        assert_eq!(read(text, "classify"), None);
    }
}
