//! `cargo xtask test`: every check and every test, one line of verdict at the end.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};

use crate::tally::Tally;
use crate::{build, house, process, setup, tidy, tree, vm};

/// Runs everything; with `args` only the test programs, given those arguments.
///
/// # Errors
/// Only where the tests cannot even begin; failed tests are an exit code.
pub fn run(root: &Path, args: &[String]) -> Result<ExitCode> {
    setup::ensure(root, setup::Purpose::Test)?;
    let mut tally = Tally::default();
    if args.is_empty() {
        tally.check("format", tree::check_format(root));
        tally.check("tidy", check_tidy(root));
        tally.check("clippy", check_clippy(root));
    }
    let finished = test_programs(root, args, &mut tally)?;
    // A program that crashed, or did not compile, has no result line to count.
    if !finished && tally.failed == 0 {
        let error = "a test program crashed, or does not compile: see its output";
        tally.check("test programs", Err(error));
    }
    if args.is_empty() {
        tally.check("house", house::check(root));
        if let Err(error) = vm::matrix(root, &mut tally) {
            tally.check("guests", Err(error));
        }
    }
    if tally.failed > 0 {
        println!("\nWhat failed:\n{}\n", tally.failures());
    }
    println!("{tally}");
    Ok(if tally.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn check_clippy(root: &Path) -> Result<()> {
    process::run(build::cargo_with_dashboard(root)?.args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))
}

fn check_tidy(root: &Path) -> Result<()> {
    let findings = tidy::check_tree(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    anyhow::ensure!(findings.is_empty(), "{} problems", findings.len());
    Ok(())
}

/// Runs all test programs, passing their output on; `false` if cargo says that one failed.
fn test_programs(root: &Path, args: &[String], tally: &mut Tally) -> Result<bool> {
    let mut command = build::cargo_with_dashboard(root)?;
    command
        .args(["test", "--workspace", "--no-fail-fast", "--"])
        .args(args)
        .env("PATH", setup::path_with_tools(root)?)
        .stdout(Stdio::piped());
    let shown = process::display(&command);
    eprintln!("xtask: {shown}");
    let status = stream(&mut command, |line| tally.line(line))
        .with_context(|| format!("cannot run `{shown}`"))?;
    Ok(status)
}

/// Runs a command, prints each line of its output as it comes and shows it to `see`.
fn stream(command: &mut Command, mut see: impl FnMut(&str)) -> Result<bool> {
    let mut child = command.spawn()?;
    let mut reader = BufReader::new(child.stdout.take().context("no output to read")?);
    let mut line = Vec::new();
    let mut out = std::io::stdout();
    while reader.read_until(b'\n', &mut line)? > 0 {
        out.write_all(&line)?;
        out.flush()?;
        see(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(child.wait()?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_seen_line_by_line_and_the_verdict_is_the_programs() {
        let mut seen = Vec::new();
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo one; printf '\\377two\\n'; exit 1"])
            .stdout(Stdio::piped());
        let passed = stream(&mut command, |line| seen.push(line.trim_end().to_owned())).unwrap();
        assert!(!passed);
        assert_eq!(seen, ["one", "\u{fffd}two"]);
    }
}
