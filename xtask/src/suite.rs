//! `cargo xtask test`: every check and every test, one line of verdict at the end. What runs in
//! which of the three tiers is told by `netto/tests/common/tiers.rs`.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::slowest::Slowest;
use crate::tally::Tally;
use crate::tiers::{HOST, Row, TABLE};
use crate::{build, process, setup, tidy, tree, vm};

/// Property tests try the same cases in each run: a case that fails only now and then is searched with
/// `cargo test`, which tries others each time, and becomes a test of its own.
const PROPERTY_SEED: &str = "PROPTEST_RNG_SEED";

/// Tests of a program that run at the same time.
const THREADS: &str = "RUST_TEST_THREADS";

/// What can be asked for.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Run only what takes minutes at most: format, lints, pure tests and one daemon
    #[arg(long, conflicts_with_all = ["long", "args"])]
    quick: bool,
    /// Run what all other runs leave out: statistics and endurance
    #[arg(long, conflicts_with = "args")]
    long: bool,
    /// Arguments for the test programs, e.g. part of a test's name
    #[arg(last = true)]
    args: Vec<String>,
}

/// Runs the tier that was asked for; with arguments only the test programs, given those.
///
/// # Errors
/// Only where the tests cannot even begin; failed tests are an exit code.
pub fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    let purpose = if options.long {
        setup::Purpose::LongTest
    } else {
        setup::Purpose::Test
    };
    setup::ensure_packages(purpose)?;
    let is_default = !options.quick && !options.long && options.args.is_empty();
    let mut tally = Tally::default();
    let mut slowest = Slowest::default();
    // Downloads, and the build of the dashboard, go on beside checks.
    std::thread::scope(|scope| {
        let beside = [
            scope.spawn(|| build::dashboard_for_tests(root)),
            scope.spawn(|| {
                setup::fetch_test_tools(root)?;
                if is_default { vm::fetch(root) } else { Ok(()) }
            }),
        ];
        if is_default || options.quick {
            tally.check("format", tree::check_format(root));
            tally.check("tidy", check_tidy(root));
        }
        let panicked = |_| Err(anyhow::anyhow!("a thread of xtask panicked"));
        let mut all = beside.into_iter();
        all.try_for_each(|thread| thread.join().unwrap_or_else(panicked))
    })?;
    if is_default || options.quick {
        // All are built first, so that one that does not compile is found before minutes of others.
        let built = process::run(test_command(root)?.args(["--all-targets", "--no-run"]));
        tally.check("everything compiles without a warning", built);
    }
    let mut command = test_command(root)?;
    if options.quick {
        command.args(["--lib", "--bins"]);
        command.args(chosen(|row| row.is_quick));
        command.env("NETTO_TESTS", "quick");
    } else if options.long {
        command.args(chosen(|row| !row.long.is_empty()));
        // This one has a guest of its own.
        command.args(["--", "--ignored", "--skip", vm::BESIDE_BPFTRACE]);
    } else if is_default {
        command.args(chosen(|row| HOST.contains(&row.program)));
    } else {
        // Without the examples in the documentation, which none of the crates has: to find that
        // out, cargo would compile each of them once more.
        command.args(["--tests", "--"]).args(&options.args);
    }
    test_programs(&mut command, &mut tally, &mut slowest)?;
    if is_default {
        beside_guests(root, &mut tally, &mut slowest)?;
    }
    if options.long
        && let Err(error) = vm::beside_bpftrace(root, &mut tally)
    {
        tally.check("guest with bpftrace", Err(error));
    }
    println!("\n{slowest}");
    if tally.failed > 0 {
        println!("What failed:\n{}\n", tally.failures());
    }
    println!("{tally}");
    Ok(if tally.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The tests of each guest, and beside them those that ask nothing of the host: a guest leaves a third of
/// its CPU.
fn beside_guests(root: &Path, tally: &mut Tally, slowest: &mut Slowest) -> Result<()> {
    let mut others = test_command(root)?;
    others.args(["--lib", "--bins"]);
    others.args(chosen(|row| !HOST.contains(&row.program)));
    let mut others = process::yielding(&others);
    let mut of_others = Tally::default();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| test_programs(&mut others, &mut of_others, slowest));
        if let Err(error) = vm::matrix(root, tally) {
            tally.check("guests", Err(error));
        }
        let panicked = |_| Err(anyhow::anyhow!("the thread of the other tests panicked"));
        thread.join().unwrap_or_else(panicked)
    })?;
    tally.add(of_others);
    Ok(())
}

fn check_tidy(root: &Path) -> Result<()> {
    let findings = tidy::check_tree(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    anyhow::ensure!(findings.is_empty(), "{} problems", findings.len());
    Ok(())
}

/// Test programs with a row of the table that is meant, as arguments for cargo.
fn chosen(is_meant: impl Fn(&Row) -> bool) -> impl Iterator<Item = &'static str> {
    let meant = TABLE.iter().filter(|row| is_meant(row));
    let programs: BTreeSet<&str> = meant.map(|row| row.program).collect();
    programs.into_iter().flat_map(|program| ["--test", program])
}

/// `cargo test` of all test programs, but for what is added.
fn test_command(root: &Path) -> Result<Command> {
    let mut command = build::cargo_for_tests(root)?;
    command
        .args(["test", "--workspace", "--no-fail-fast"])
        .env("PATH", setup::path_with_tools(root)?);
    if std::env::var_os(PROPERTY_SEED).is_none() {
        command.env(PROPERTY_SEED, "1");
    }
    if std::env::var_os(THREADS).is_none() {
        // One thread more than CPUs, because the longest tests wait for a daemon most of the time.
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        command.env(THREADS, (cpus + 1).to_string());
    }
    Ok(command)
}

/// Runs test programs, passing their output on.
fn test_programs(command: &mut Command, tally: &mut Tally, slowest: &mut Slowest) -> Result<()> {
    let shown = process::display(command);
    eprintln!("xtask: {shown}");
    let begun = Instant::now();
    let failed_before = tally.failed;
    let finished = process::each_line(command, |line| {
        std::io::stdout().write_all(line)?;
        let line = String::from_utf8_lossy(line);
        tally.line(&line);
        slowest.line(&line, begun.elapsed().as_secs_f64());
        Ok(())
    })
    .with_context(|| format!("cannot run `{shown}`"))?;
    // A program that crashed, or did not compile, has no result line to count.
    if !finished && tally.failed == failed_before {
        let error = "a test program crashed, or does not compile: see its output";
        tally.check("test programs", Err(error));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_program_and_every_ignored_test_has_its_row() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let (mut programs, mut ignored) = (BTreeSet::new(), 0);
        for file in tree::files(root).unwrap() {
            let parts: Vec<_> = file.iter().filter_map(|part| part.to_str()).collect();
            let Some(folder) = parts
                .iter()
                .position(|part| ["src", "tests"].contains(part))
            else {
                continue;
            };
            if parts[folder] == "src" {
                continue;
            }
            match parts[folder + 1..] {
                [file] => programs.extend(file.strip_suffix(".rs").map(str::to_owned)),
                [program, "main.rs"] => {
                    programs.insert(program.to_owned());
                }
                _ => {}
            }
            let text = std::fs::read_to_string(root.join(&file)).unwrap_or_default();
            ignored += text.matches("#[ignore").count();
        }
        let in_table: BTreeSet<String> = TABLE.iter().map(|row| row.program.to_owned()).collect();
        assert_eq!(programs, in_table);
        assert!(HOST.iter().all(|program| programs.contains(*program)));
        let long = TABLE.iter().filter(|row| !row.long.is_empty());
        assert_eq!(
            ignored,
            long.filter(|row| !["root", "dashboard"].contains(&row.program))
                .count()
        );
    }
}
