//! What netto costs, measured from inside: `root bench PART…`, for `cargo xtask bench`, which
//! runs it on the host and in a guest where a nanosecond is an instruction, and makes tables.
//!
//! A line of output for each figure: its name and its values. A part that fails takes no other away.

mod clock;
mod daemon;
mod felt;
mod flows;
mod latency;
mod owners;
mod page;
mod processes;
mod programs;
mod starts;
mod sweep;
mod throughput;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::daemon::{Daemon, run_to_end};
use crate::{lab, turn};

/// Begins each line that holds a figure.
const FIGURE: &str = "bench figure:";
/// Time until a started or ended daemon has settled.
const SETTLE: Duration = Duration::from_millis(300);

/// netto's default budget, per cent.
const DEFAULT_BUDGET_PERCENT: &str = "1";

/// The requested options.
pub struct Options {
    /// Added to netto's own at each start.
    netto: Vec<String>,
    /// How often comparisons are repeated.
    rounds: usize,
    /// Names of the lines of `felt`, `felt-two-cpus`, `starts` and `doses` that are compared; all if empty.
    lines: Vec<String>,
    /// Length of a step of the sweep.
    step: Duration,
    /// How long netto gets used to a load before it counts.
    warm_up: Duration,
}

impl Options {
    /// netto at this frequency of perf's clock, or with the sampler that it chooses, with the user's
    /// options.
    fn start(&self, frequency_hz: Option<u64>, more: &[&str]) -> Result<Daemon> {
        let frequency_text = frequency_hz.map(|hz| hz.to_string());
        let mut words = more.to_vec();
        if let Some(text) = &frequency_text {
            words.extend(["--frequency", text]);
        }
        let daemon = Daemon::start(&self.with_defaults(words))?;
        std::thread::sleep(SETTLE);
        Ok(daemon)
    }

    /// These words with what the user added, at the budget and with the sampler that users have: the
    /// tests' netto has no budget and perf's clock unless it is told otherwise.
    fn with_defaults<'a>(&'a self, mut words: Vec<&'a str>) -> Vec<&'a str> {
        // netto takes no option twice; all of these have a value.
        for option in self.netto.chunks(2) {
            if !words.contains(&option[0].as_str()) {
                words.extend(option.iter().map(String::as_str));
            }
        }
        if !words.contains(&"--frequency") && !words.contains(&"--sampler") {
            words.extend(["--sampler", "auto"]);
        }
        if !words.contains(&"--max-overhead") {
            words.extend(["--max-overhead", DEFAULT_BUDGET_PERCENT]);
        }
        words
    }
}

/// Ends a daemon, and waits until the kernel has taken its probes away.
fn end(daemon: Daemon) -> Result<()> {
    let (status, stderr) = daemon.terminate()?;
    std::thread::sleep(SETTLE);
    if !status.success() {
        bail!("netto ended with {status}: {stderr}");
    }
    Ok(())
}

/// What makes a netto that has a budget keep its probes whatever they cost; nothing where it
/// has none.
fn forced() -> Result<&'static [&'static str]> {
    let (_, help, _) = run_to_end(&["run", "--help"])?;
    Ok(if help.contains("--max-overhead") {
        &["--max-overhead", "100"]
    } else {
        &[]
    })
}

/// Says a figure by its values.
fn figure(name: &str, values: &[f64]) {
    let values: String = values.iter().map(|value| format!(" {value}")).collect();
    println!("\n{FIGURE} {name}{values}");
}

/// Runs the parts that the words name.
pub fn main(words: &[String]) -> ExitCode {
    match run(words) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<ExitCode> {
    let mut options = Options {
        netto: Vec::new(),
        rounds: 1,
        lines: Vec::new(),
        step: Duration::from_secs(3),
        warm_up: Duration::ZERO,
    };
    let mut parts = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word} needs a value"))
        };
        match word.as_str() {
            "--netto-args" => {
                options.netto = value()?.split_whitespace().map(str::to_owned).collect();
            }
            "--lines" => options.lines = value()?.split(',').map(str::to_owned).collect(),
            "--rounds" => options.rounds = value()?.parse()?,
            "--step" => options.step = Duration::from_secs_f64(value()?.parse()?),
            "--warm-up" => options.warm_up = Duration::from_secs_f64(value()?.parse()?),
            part => parts.push(part),
        }
    }
    let _turn = turn::wait()?;
    lab::remove_leftovers();
    let mut code = ExitCode::SUCCESS;
    for part in parts {
        let result = match part {
            "start" => daemon::start(&options),
            "felt" => felt::on_one_cpu(&options),
            "felt-two-cpus" => felt::on_two_cpus(&options),
            "starts" => starts::measure(&options),
            "doses" => felt::doses(&options),
            "idle" => daemon::idle(&options),
            "page" => page::measure(&options),
            "timer" => clock::timer(&options),
            "programs" => programs::measure(&options),
            "owners" => owners::measure(&options),
            "flows" => flows::measure(),
            "latency" => latency::measure(&options),
            "throughput" => throughput::measure(&options),
            "loaded" => daemon::loaded(&options),
            "sweep" => sweep::measure(&options),
            _ => bail!("there is no part {part}"),
        };
        if let Err(error) = result {
            eprintln!("bench: {part}: {error:#}");
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}
