//! What an interval costs netto itself by the number of CPUs: netto's own benchmarks
//! `netto/benches/cpus` and `metrics.rs`, on made-up hosts, as a table and a picture.

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::analysis::counted;
use super::figures::{Figure, Section, Spread, show};
use super::read;
use crate::process;

/// Where the picture stands, below the workspace.
const PLOT: &str = "docs/cost-by-cpus.svg";
/// Idle ticks that are counted; what a run does besides falls out of the difference.
const TICKS: [u64; 2] = [50, 250];
/// Of a scrape.
const SCRAPED_CPUS: &str = "256";

/// Each step with its name in the table.
const STEPS: [(&str, &str); 6] = [
    ("idle_tick", "an interval in which nothing happens"),
    ("busy_tick", "one in which every CPU has networking"),
    ("history", "keeping it for pages to come"),
    ("encode", "writing it for pages and log"),
    ("totals", "adding it to the totals"),
    ("metrics", "writing `/metrics`"),
];

/// Steps by hosts.
pub struct BySize {
    cpus: Vec<u32>,
    text: String,
}

/// Measures; the picture is drawn anew if the document is.
pub fn measure(
    root: &Path,
    cpus: &Path,
    metrics: &Path,
    draws: bool,
) -> Result<(BySize, Vec<Section>)> {
    eprintln!("xtask: made-up hosts of up to a thousand CPUs");
    let mut command = Command::new(cpus);
    if draws {
        command.arg("--plot").arg(root.join(PLOT));
    }
    let text = process::output(&mut command)?;
    let sizes = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(STEPS[0].0)?;
        rest.split_whitespace().next()?.parse().ok()
    });
    let by_size = BySize {
        cpus: sizes.collect(),
        text,
    };
    let mut figures = Vec::new();
    if process::find_program("valgrind").is_some() {
        let one = of_tick(cpus, 1)?;
        let many = of_tick(cpus, 64)?;
        let further = (many - one) / 63.0;
        figures.push(Figure::single(
            "instructions of an idle interval's analysis, 1 CPU",
            one,
            "",
        ));
        figures.push(Figure::single("the same for each further CPU", further, ""));
    }
    eprintln!("xtask: /metrics of {SCRAPED_CPUS} CPUs");
    let text = process::output(Command::new(metrics).args(["--cpus", SCRAPED_CPUS]))?;
    let of = |what: &str, name: &str, unit| Figure::new(what, read(&text, name), unit);
    figures.push(of("`/metrics` of 256 CPUs, written", "page_ms", "ms").at_most(8.0));
    figures.push(of("compressed, where asked for", "gzip_ms", "ms"));
    let size = |what: &str, name: &str| {
        let bytes = read(&text, name);
        Figure::new(what, bytes.map(|bytes| bytes.scaled(1e-3)), "kB")
    };
    figures.push(size("its size", "page_bytes"));
    figures.push(size("its size compressed", "gzip_bytes"));
    let section = Section {
        title: "Of that".to_owned(),
        figures,
    };
    Ok((by_size, vec![section]))
}

fn of_tick(program: &Path, cpus: u32) -> Result<f64> {
    let run = |ticks: u64| {
        let (ticks, cpus) = (ticks.to_string(), cpus.to_string());
        counted(program, &["--ticks", &ticks, "--cpus", &cpus])
    };
    let (few, many) = (run(TICKS[0])?, run(TICKS[1])?);
    Ok((many - few) / (TICKS[1] - TICKS[0]) as f64)
}

impl BySize {
    fn figure(&self, step: &str, cpus: u32) -> Option<Spread> {
        read(&self.text, &format!("{step} {cpus}"))
    }

    fn slope(&self, step: &str) -> Option<f64> {
        let rest = |line: &str| line.strip_prefix(&format!("slope_{step} "))?.parse().ok();
        self.text.lines().find_map(rest)
    }

    /// Checks that every figure is there.
    ///
    /// # Errors
    /// Which is not.
    pub fn complete(self) -> Result<Self> {
        for (step, _) in STEPS {
            self.slope(step).with_context(|| format!("no {step}"))?;
        }
        Ok(self)
    }
}

impl fmt::Display for BySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| CPU time of each interval, µs, by CPUs |")?;
        for cpus in &self.cpus {
            write!(f, " {cpus} |")?;
        }
        writeln!(f, " each further CPU |")?;
        writeln!(f, "|---|{}", "---:|".repeat(self.cpus.len() + 1))?;
        for (step, what) in STEPS {
            write!(f, "| {what} |")?;
            for &cpus in &self.cpus {
                let median = self.figure(step, cpus).map(|spread| show(spread.median));
                write!(f, " {} |", median.unwrap_or_default())?;
            }
            let slope = self.slope(step).map(show).unwrap_or_default();
            writeln!(f, " {slope} |")?;
        }
        Ok(())
    }
}
