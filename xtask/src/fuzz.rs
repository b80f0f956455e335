//! `cargo xtask fuzz`: libFuzzer on the readers of `netto/crates/fuzz`.
//!
//! Needs a nightly compiler, whose address sanitizer and coverage it uses. What it finds is a file
//! below `target/fuzz/findings`; a copy of it in the reader's corpus is its regression test.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use crate::process;

/// The compiler and the machine for which it compiles: build scripts get no sanitizer that way.
const TOOLCHAIN: &str = "+nightly";
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// As cargo-fuzz has them.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address --cfg fuzzing";
/// A reader that takes longer for one input, or more memory, is a finding.
const MOST_SECONDS: u32 = 10;
const MOST_MEGABYTES: u32 = 1024;
/// Longer inputs take time and reach no other code.
const LONGEST_INPUT: u32 = 64 << 10;

/// Which readers, and for how long.
#[derive(clap::Args)]
pub struct Options {
    /// Minutes for each reader
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: u64,
    /// Readers, by the names of their corpora; all unless given
    readers: Vec<String>,
}

/// Runs the readers, as many at a time as there are CPUs; fails if any has a finding.
///
/// # Errors
/// If there is no such compiler, the program cannot be built, or a reader is unknown.
pub fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    let corpora = root.join("netto/crates/fuzz/corpus");
    let readers = chosen(&corpora, &options.readers)?;
    let folder = root.join("target/fuzz");
    // Not by `process::cargo`, which is the cargo of this compiler and takes no `+nightly`.
    process::run(
        Command::new("cargo")
            .current_dir(root)
            .arg(TOOLCHAIN)
            .args([
                "build",
                "--package",
                "netto-fuzz",
                "--features",
                "libfuzzer",
            ])
            .args(["--profile", "fuzz", "--target", TARGET, "--target-dir"])
            .arg(&folder)
            .env_remove("RUSTUP_TOOLCHAIN")
            .env_remove("CARGO")
            .env("RUSTFLAGS", FLAGS),
    )
    .context("fuzzing needs a nightly compiler: `rustup toolchain install nightly`")?;
    let program = folder.join(TARGET).join("fuzz/netto-fuzz");
    let waiting = Mutex::new(readers.iter());
    let next = || waiting.lock().ok().and_then(|mut readers| readers.next());
    let outcomes = Mutex::new(Vec::new());
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(reader) = next() {
                    let outcome = fuzz(&program, &corpora, &folder, reader, options.minutes);
                    if let Ok(mut outcomes) = outcomes.lock() {
                        outcomes.push((reader, outcome));
                    }
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_default();
    outcomes.sort_by_key(|(reader, _)| *reader);
    let mut code = ExitCode::SUCCESS;
    println!("{:<14} {:>12} {:>9}  result", "reader", "inputs", "edges");
    for (reader, outcome) in outcomes {
        match outcome? {
            Outcome {
                inputs,
                edges,
                found: false,
            } => {
                println!("{reader:<14} {inputs:>12} {edges:>9}  nothing found");
            }
            Outcome {
                inputs,
                edges,
                found: true,
            } => {
                println!(
                    "{reader:<14} {inputs:>12} {edges:>9}  FOUND: target/fuzz/findings/{reader}-*"
                );
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

/// The named readers, or all that have a corpus.
fn chosen(corpora: &Path, named: &[String]) -> Result<Vec<String>> {
    let mut readers = Vec::new();
    for entry in fs::read_dir(corpora).context("cannot read the folder of corpora")? {
        readers.push(entry?.file_name().to_string_lossy().into_owned());
    }
    readers.sort();
    if let Some(unknown) = named.iter().find(|name| !readers.contains(name)) {
        bail!(
            "there is no reader {unknown}; there are {}",
            readers.join(", ")
        );
    }
    Ok(if named.is_empty() {
        readers
    } else {
        named.to_vec()
    })
}

/// What came of a reader.
struct Outcome {
    inputs: String,
    edges: String,
    found: bool,
}

fn fuzz(
    program: &Path,
    corpora: &Path,
    folder: &Path,
    reader: &str,
    minutes: u64,
) -> Result<Outcome> {
    let grown = folder.join("corpus").join(reader);
    let findings = folder.join("findings");
    let log = folder.join(format!("{reader}.log"));
    for needed in [&grown, &findings] {
        fs::create_dir_all(needed)
            .with_context(|| format!("cannot make the folder {}", needed.display()))?;
    }
    let log_file = fs::File::create(&log).context("cannot make the log of a reader")?;
    eprintln!("xtask: {reader}: {minutes} minutes");
    let status = Command::new(program)
        .env("NETTO_FUZZ_READER", reader)
        .arg(&grown)
        .arg(corpora.join(reader))
        .arg(format!("-max_total_time={}", minutes * 60))
        .arg(format!("-timeout={MOST_SECONDS}"))
        .arg(format!("-rss_limit_mb={MOST_MEGABYTES}"))
        .arg(format!("-max_len={LONGEST_INPUT}"))
        .arg(format!("-artifact_prefix={}/{reader}-", findings.display()))
        .arg("-print_final_stats=1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log_file)
        .status()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let text = fs::read(&log).context("cannot read the log of a reader")?;
    let text = String::from_utf8_lossy(&text);
    let stated = |after: &str| {
        let found = text.rfind(after).map(|at| &text[at + after.len()..]);
        let word = found.and_then(|text| text.split_whitespace().next());
        word.unwrap_or("?").to_owned()
    };
    let inputs = stated("stat::number_of_executed_units:");
    ensure!(
        status.success() || inputs != "?" || text.contains("SUMMARY:"),
        "{reader} did not run; see {}",
        log.display()
    );
    Ok(Outcome {
        inputs,
        edges: stated("cov: "),
        found: !status.success(),
    })
}
