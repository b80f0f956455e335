//! `cargo xtask bench`: what netto costs, as one table of headline figures.
//!
//! The root tests' program does the measuring (`root bench …`), on this machine or in a guest.
//! Nothing here decides whether a figure is good enough: the table shows the aim, people look.

mod benchmark;
mod divan;
mod measured;
mod rows;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use self::benchmark::Benchmark;
use self::measured::Measured;
use crate::{build, process, setup, vm};

/// Options of `cargo xtask bench`.
#[derive(Debug, Args)]
pub struct Options {
    /// Measure only these benchmarks
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Benchmark>,
    /// Pairs with and without, for each line of `felt`, `felt-two-cpus`, `starts` and `doses`
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(6..=1000))]
    pairs: u16,
    /// Measure only these lines of `felt`, `felt-two-cpus`, `starts` and `doses`, e.g. nothing,netto,latency
    #[arg(long, value_delimiter = ',')]
    lines: Vec<String>,
    /// How often throughput in the guest is compared: some minutes each
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Pairs of sweeps
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    sweeps: u16,
    /// More options for netto but --frequency, in one word
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    netto_args: String,
    /// Write what was measured into docs/PERFORMANCE.md and docs/BENCHMARKS.md
    #[arg(long)]
    update_docs: bool,
}

/// Measures and prints the table.
///
/// # Errors
/// What could not be measured, and why.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let benchmarks = if options.only.is_empty() {
        Benchmark::value_variants()
    } else {
        &options.only
    };
    if !process::is_root() && benchmarks.iter().any(|benchmark| benchmark.needs_root()) {
        bail!("measuring loads BPF programs and makes network namespaces: run it as root");
    }
    setup::ensure(root, setup::Purpose::Bench)?;
    let bench = Bench {
        root,
        netto: build::netto(root, build::Profile::Release)?,
        tests: vm::root_tests(root)?,
        options,
    };
    for &benchmark in benchmarks {
        eprintln!("xtask: measuring {}", benchmark.name());
        let mut measured = Measured::default();
        let verdict = bench.measure(benchmark, &mut measured);
        let place = if benchmark.is_in_guest() {
            "Linux 6.12 in QEMU".to_owned()
        } else {
            format!("Linux {}", kernel()?)
        };
        let date = process::output(Command::new("date").arg("+%F"))?;
        // A benchmark that fails half way still leaves what it has measured.
        table::put(
            root,
            benchmark,
            &measured,
            &format!("{date}, {place}"),
            options.update_docs,
        )?;
        verdict.with_context(|| format!("cannot measure {}", benchmark.name()))?;
    }
    Ok(())
}

fn kernel() -> Result<String> {
    let path = "/proc/sys/kernel/osrelease";
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let release = text.trim();
    Ok(release.split('-').next().unwrap_or(release).to_owned())
}

/// What measures, and what is measured.
struct Bench<'a> {
    root: &'a Path,
    netto: PathBuf,
    tests: PathBuf,
    options: &'a Options,
}

impl Bench<'_> {
    fn measure(&self, benchmark: Benchmark, measured: &mut Measured) -> Result<()> {
        let Options { rounds, sweeps, .. } = self.options;
        let sweep = format!("sweep --step 6 --rounds {sweeps}");
        match benchmark {
            Benchmark::Felt | Benchmark::FeltTwoCpus | Benchmark::Starts | Benchmark::Doses => {
                self.here(&self.pairs_of(benchmark), measured)?;
            }
            Benchmark::Idle => {
                self.here("start idle --rounds 3", measured)?;
                let bytes = std::fs::metadata(&self.netto)?.len();
                measured.add("binary_mb", [bytes as f64 / 1e6]);
            }
            Benchmark::Flows => self.here("flows", measured)?,
            Benchmark::Sweep => self.here(&sweep, measured)?,
            Benchmark::Guest => {
                self.guest(1, "start idle timer programs owners latency", measured);
                // Measured in a guest of its own, so that nothing before it changes how the machine bears load.
                let loaded = format!("loaded throughput --rounds {rounds} --warm-up 10");
                self.guest(1, &loaded, measured);
            }
            Benchmark::GuestIdle => {
                for cpus in [2, 64] {
                    self.guest(cpus, "idle", measured);
                }
            }
            Benchmark::GuestSweep => self.guest(1, &sweep, measured),
            Benchmark::Page => self.here("page", measured)?,
            Benchmark::Pure => {
                let mut command = build::cargo_with_dashboard(self.root)?;
                command.args(["bench", "--package", "netto", "--bench", "pure"]);
                let text = process::output(&mut command)?;
                println!("{text}");
                for (name, us) in divan::medians_us(&text) {
                    measured.add(&name, [us]);
                }
            }
        }
        Ok(())
    }

    fn pairs_of(&self, benchmark: Benchmark) -> String {
        let Options { pairs, lines, .. } = self.options;
        // A stream that begins meets a netto that is still young.
        let warm_up = if benchmark == Benchmark::Starts {
            5
        } else {
            10
        };
        let name = benchmark.name();
        let mut words = format!("{name} --rounds {pairs} --warm-up {warm_up}");
        if !lines.is_empty() {
            words += &format!(" --lines {}", lines.join(","));
        }
        words
    }

    fn words(&self, words: &str) -> Vec<String> {
        let mut all: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let more = &self.options.netto_args;
        if !more.is_empty() {
            all.extend(["--netto-args".to_owned(), more.clone()]);
        }
        all
    }

    /// Measures on this machine.
    fn here(&self, words: &str, measured: &mut Measured) -> Result<()> {
        let mut command = Command::new(&self.tests);
        command.arg("bench").args(self.words(words));
        command.env("NETTO_BINARY", &self.netto);
        let shown = process::display(&command);
        let has_succeeded = process::each_line(&mut command, |line| {
            measured.line("", String::from_utf8_lossy(line).trim_end());
            Ok(())
        })
        .with_context(|| format!("cannot run `{shown}`"))?;
        if !has_succeeded {
            bail!("`{shown}` failed");
        }
        Ok(())
    }

    /// Measures in a guest with so many CPUs, whose number and a `/` then begin the figures'
    /// names. What could be measured before something could not is there all the same.
    fn guest(&self, cpus: u32, words: &str, measured: &mut Measured) {
        let guest = vm::Bench {
            kernel: vm::Kernel::V6_12,
            netto: &self.netto,
            tests: &self.tests,
            words: self.words(words),
            cpus,
        };
        let prefix = format!("{cpus}/");
        if let Err(error) = guest.run(self.root, |line| measured.line(&prefix, line)) {
            eprintln!("xtask: guest with {cpus} CPUs: {error:#}");
        }
    }
}
