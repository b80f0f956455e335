//! `cargo xtask bench`: what netto costs, measured on this machine, as a table.
//!
//! Owns the choice of parts and where the table goes; each part measures on
//! its own. Nothing here decides whether a figure is good enough: the table
//! shows the aim next to it, and people look.

mod analysis;
mod daemon;
mod dashboard;
mod figures;
mod lab;
mod load;
mod own;
mod present;
mod programs;
mod sockets;
mod softirq;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

pub use self::load::Load;

use self::figures::{Section, Spread};
use self::lab::Lab;
use crate::{build, process, setup};

/// Where the table is kept.
const DOCUMENT: &str = "docs/PERFORMANCE.md";
const BEGIN: &str = "<!-- cargo xtask bench --update-docs: begin -->";
const END: &str = "<!-- cargo xtask bench --update-docs: end -->";

/// What to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// What the probes cost packets
    Softirq,
    /// CPU time and memory of the daemon
    Daemon,
    /// User-space work per stack
    Analysis,
    /// Other ways of timing socket calls
    Sockets,
    /// What the dashboard costs a browser
    Dashboard,
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
    /// How long the dashboard is watched, minutes
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1440))]
    minutes: u16,
    /// Write the table into docs/PERFORMANCE.md
    #[arg(long, conflicts_with = "only")]
    update_docs: bool,
}

/// Measures and prints the table.
///
/// # Errors
/// What could not be measured, and why.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    if options.only == [Part::Dashboard] {
        // The one part that needs no root: a made-up host, and a browser.
        setup::ensure(root, setup::Purpose::Bench)?;
        let program = benchmark(root, "dashboard")?;
        let mut report = Report::begin(1);
        report.add(&dashboard::measure(&program, options.minutes)?);
        return Ok(());
    }
    if !process::is_root() {
        bail!("measuring loads BPF programs and makes network namespaces: run it as root");
    }
    setup::ensure(root, setup::Purpose::Bench)?;
    let netto = build::netto(root, build::Profile::Release)?;
    let (analysis, attach) = (benchmark(root, "analysis")?, benchmark(root, "attach")?);
    let dashboard = benchmark(root, "dashboard")?;
    let floor = softirq::Floor::new(root)?;
    let sockets = sockets::Built::new(root, &netto, &attach)?;
    let others = programs::of_any_netto()?;
    if !others.is_empty() {
        eprintln!("xtask: another netto is at work here; what it costs is in every figure");
    }

    let wanted = |part| options.only.is_empty() || options.only.contains(&part);
    let rounds = usize::from(options.rounds);
    let mut report = Report::begin(rounds);
    if wanted(Part::Analysis) {
        report.add(&analysis::measure(&analysis)?);
    }
    let lab = Lab::new()?;
    if wanted(Part::Softirq) {
        report.add(&softirq::measure(&lab, &netto, &attach, &floor, rounds)?);
    }
    if wanted(Part::Daemon) {
        report.add(&own::measure(&lab, &netto)?);
    }
    if wanted(Part::Sockets) {
        report.add(&sockets::measure(&lab, &sockets, rounds.div_ceil(2))?);
    }
    drop(lab);
    if wanted(Part::Dashboard) {
        report.add(&dashboard::measure(&dashboard, options.minutes)?);
    }
    if options.update_docs {
        update_document(&root.join(DOCUMENT), &report.text)?;
    }
    Ok(())
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

/// The tables so far. They are printed as they come: a part that fails takes no other away.
struct Report {
    text: String,
}

impl Report {
    fn begin(rounds: usize) -> Report {
        let text = format!("{}; {rounds} rounds.\n", machine());
        print!("{text}");
        Report { text }
    }

    fn add(&mut self, sections: &[Section]) {
        for section in sections {
            let table = format!("\n{section}");
            print!("{table}");
            self.text += &table;
        }
    }
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

fn update_document(path: &Path, table: &str) -> Result<()> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let new = figures::replace_between(&text, BEGIN, END, &format!("\n{table}\n"))
        .with_context(|| format!("{} has no place for the table: {BEGIN}", path.display()))?;
    std::fs::write(path, new).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("xtask: wrote {}", path.display());
    Ok(())
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
