//! What the root tests' program measures (`root bench …`), here or in a guest: run, and its lines read.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::figures::Spread;
use super::read;
use crate::process;
use crate::vm::{Bench, Kernel};

/// Begins each line that holds a figure.
const FIGURE: &str = "bench figure: ";
/// Begins each line that is for the table as it is.
const ROW: &str = "bench row:";

/// What measures, and what is measured.
#[derive(Debug, Clone, Copy)]
pub struct Inside<'a> {
    /// The workspace.
    pub root: &'a Path,
    /// netto.
    pub netto: &'a Path,
    /// The root tests.
    pub tests: &'a Path,
    /// More options for netto.
    pub netto_args: &'a str,
}

/// What was said.
#[derive(Debug, Default)]
pub struct Said {
    figures: String,
    /// Lines that are for the table as they are.
    pub rows: String,
}

impl Said {
    fn line(&mut self, line: &str) {
        if let Some(figure) = line.strip_prefix(FIGURE) {
            eprintln!("xtask: {figure}");
            self.figures += figure;
            self.figures.push('\n');
        } else if let Some(row) = line.strip_prefix(ROW) {
            self.rows += row.trim();
            self.rows.push('\n');
        } else if !line.trim().is_empty() {
            eprintln!("{line}");
        }
    }

    /// A figure by its name; `None` if it was not measured.
    pub fn figure(&self, name: &str) -> Option<Spread> {
        read(&self.figures, name)
    }
}

impl Inside<'_> {
    fn words(&self, words: &str) -> Vec<String> {
        let mut all: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        if !self.netto_args.is_empty() {
            all.extend(["--netto-args".to_owned(), self.netto_args.to_owned()]);
        }
        all
    }

    /// Measures on this machine.
    pub fn here(&self, words: &str) -> Result<Said> {
        let mut command = Command::new(self.tests);
        command.arg("bench").args(self.words(words));
        command.env("NETTO_BINARY", self.netto);
        let mut said = Said::default();
        for line in process::output(&mut command)?.lines() {
            said.line(line);
        }
        Ok(said)
    }

    /// Measures in a guest with so many CPUs. What could be measured before something could not
    /// is there all the same.
    pub fn guest(&self, cpus: u32, words: &str) -> Said {
        let guest = Bench {
            kernel: Kernel::V6_12,
            netto: self.netto,
            tests: self.tests,
            words: self.words(words),
            cpus,
        };
        let mut said = Said::default();
        if let Err(error) = guest.run(self.root, |line| said.line(line)) {
            eprintln!("xtask: guest with {cpus} CPUs: {error:#}");
        }
        said
    }
}
