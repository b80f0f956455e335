//! What user space does per stack, without the kernel: netto's own benchmark
//! `netto/benches/analysis.rs`, timed and, where valgrind is, counted.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::figures::{Figure, Section};
use super::read;
use crate::process;

/// Measures; `program` is the benchmark `analysis`.
pub fn measure(program: &Path) -> Result<Vec<Section>> {
    eprintln!("xtask: analysis of stacks");
    let text = process::output(&mut Command::new(program))?;
    let mut figures = vec![
        Figure::new("classifying a stack", read(&text, "classify_us"), "µs").at_most(0.3),
        Figure::new("frames per stack", read(&text, "frames"), ""),
        Figure::new(
            "reading the kernel's symbols (at the start and when modules or BPF programs come)",
            read(&text, "symbols_ms"),
            "ms",
        ),
    ];
    if process::find_program("valgrind").is_some() {
        eprintln!("xtask: analysis of stacks, counted by valgrind");
        // What is not the classification itself is the same in both, and falls out.
        let (once, thrice) = (
            counted(program, &["--times", "1"])?,
            counted(program, &["--times", "3"])?,
        );
        let stacks = read(&text, "stacks").context("the benchmark does not say how many stacks")?;
        let per_stack = (thrice - once) / 2.0 / stacks.median;
        figures.insert(1, Figure::single("instructions of that", per_stack, ""));
    }
    Ok(vec![Section {
        title: "Analysis, of recorded stacks in a loop".to_owned(),
        figures,
    }])
}

/// Instructions of a whole run, by valgrind.
///
/// # Errors
/// It cannot be started, or counted nothing.
pub fn counted(program: &Path, args: &[&str]) -> Result<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .context("cannot start valgrind")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let Some(count) = text
        .lines()
        .find_map(|line| line.split("Collected :").nth(1))
    else {
        bail!("valgrind counted nothing: {}", text.trim());
    };
    let count = count.trim();
    count
        .parse()
        .with_context(|| format!("valgrind counted {count:?} instructions"))
}
