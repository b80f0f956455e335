//! A test program: which of its tests reach which mutant, and what they say of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::schema::{MUTANT, REACHED};
use crate::process;

/// The longest that all tests of a program may take without any mutant.
const PATIENCE: Duration = Duration::from_secs(900);
/// With a mutant, tests may take that long, and as much again as they all take without any.
const LEAST: Duration = Duration::from_secs(60);
/// By which `timeout` tells that it was too long.
const TIMED_OUT: i32 = 124;

/// A test program.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// The folder of its package, where it runs.
    folder: PathBuf,
    /// `lib`, `bin`, or its own name.
    name: String,
    path: PathBuf,
    tests: BTreeSet<String>,
    /// Tests that fail without any mutant.
    broken: BTreeSet<String>,
    took: Duration,
    /// Threads by the mutants that they reach; of tests, those have their names.
    reached: BTreeMap<usize, BTreeSet<String>>,
}

/// What tests say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// All passed.
    Passed,
    /// These failed, or the first of them; none is named if the program crashed.
    Failed(Vec<String>),
    /// They did not end.
    TimedOut,
}

impl Program {
    /// A program by what cargo tells of what it has built.
    pub fn of(artifact: &Value) -> Option<Program> {
        let path = artifact["executable"].as_str()?;
        if artifact["profile"]["test"] != true {
            return None;
        }
        let manifest = Path::new(artifact["manifest_path"].as_str()?);
        let name = match artifact["target"]["kind"][0].as_str()? {
            "test" => artifact["target"]["name"].as_str()?,
            other => other,
        };
        Some(Program {
            folder: manifest.parent()?.to_owned(),
            name: name.to_owned(),
            path: path.into(),
            ..Program::default()
        })
    }

    /// Its package and its name.
    pub fn label(&self) -> String {
        let package = self.folder.file_name().unwrap_or_default();
        format!("{}-{}", package.to_string_lossy(), self.name)
    }

    /// What its tests take without any mutant.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// Tests that fail without any mutant: nobody asks them.
    pub fn broken(&self) -> &BTreeSet<String> {
        &self.broken
    }

    /// Runs all tests without a mutant and learns what they reach, by way of an empty folder.
    ///
    /// # Errors
    /// It cannot be started, or the folder not be made.
    pub fn learn(&mut self, folder: &Path) -> Result<()> {
        let list = process::output(Command::new(&self.path).args(["--list", "--format=terse"]))?;
        let tests = list.lines().filter_map(|line| line.strip_suffix(": test"));
        self.tests = tests.map(str::to_owned).collect();
        std::fs::remove_dir_all(folder).ok();
        std::fs::create_dir_all(folder)?;
        let begun = Instant::now();
        let reached = (REACHED, folder.to_string_lossy().into_owned());
        let verdict = self.run(Some(reached), &[], PATIENCE, false)?;
        self.took = begun.elapsed();
        // To note what is reached takes time and memory, which some tests count.
        if let Verdict::Failed(tests) = verdict {
            let alone = self.run(None, &exactly(&tests), PATIENCE, false)?;
            if let Verdict::Failed(tests) = alone {
                self.broken.extend(tests);
            }
        }
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let text = std::fs::read_to_string(entry.path())?;
            if let Some(Ok(number)) = entry.file_name().to_str().map(str::parse) {
                let threads = text.lines().map(str::to_owned).collect();
                self.reached.insert(number, threads);
            }
        }
        Ok(())
    }

    /// Whether a mutant is reached.
    pub fn reaches(&self, number: usize) -> bool {
        self.reached.contains_key(&number)
    }

    /// What the tests that reach a mutant say of it; all tests, where that is not known, as in
    /// threads that tests have begun.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn try_switched(&self, number: usize) -> Result<Verdict> {
        let Some(threads) = self.reached.get(&number) else {
            return Ok(Verdict::Passed);
        };
        let tests = threads.intersection(&self.tests);
        let tests: Vec<String> = tests
            .filter(|test| !self.broken.contains(*test))
            .cloned()
            .collect();
        let on = Some((MUTANT, number.to_string()));
        if !tests.is_empty() {
            let verdict = self.confirmed(&on, &exactly(&tests))?;
            if verdict != Verdict::Passed {
                return Ok(verdict);
            }
        }
        match threads.is_subset(&self.tests) {
            true => Ok(Verdict::Passed),
            false => self.confirmed(&on, &[]),
        }
    }

    /// What all tests say of a mutant that has no switch, by what the program without it learned.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn try_alone(&self, learned: &[Program]) -> Result<Verdict> {
        let same = learned.iter().find(|other| other.label() == self.label());
        let learned = same.context("a program that was not there before")?;
        let own = Program {
            path: self.path.clone(),
            ..learned.clone()
        };
        own.confirmed(&None, &[])
    }

    /// A test that fails must do so alone, too, or the second time.
    fn confirmed(&self, on: &Option<(&str, String)>, args: &[String]) -> Result<Verdict> {
        let limit = LEAST + 2 * self.took;
        match self.run(on.clone(), args, limit, true)? {
            Verdict::Failed(tests) => match self.run(on.clone(), &exactly(&tests), limit, true)? {
                Verdict::Passed => self.run(on.clone(), args, limit, true),
                verdict => Ok(verdict),
            },
            verdict => Ok(verdict),
        }
    }

    fn run(
        &self,
        variable: Option<(&str, String)>,
        args: &[String],
        limit: Duration,
        until_one_fails: bool,
    ) -> Result<Verdict> {
        let mut child = Command::new("timeout")
            .arg("--kill-after=5")
            .arg(limit.as_secs().to_string())
            .arg(&self.path)
            .args(args)
            .args(self.broken.iter().flat_map(|test| ["--skip", test]))
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .envs(variable)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start timeout")?;
        let out = child.stdout.take().context("no output to read")?;
        let mut failed = Vec::new();
        for line in BufReader::new(out).split(b'\n').map_while(Result::ok) {
            failed.extend(failed_test(&String::from_utf8_lossy(&line)));
            if until_one_fails && !failed.is_empty() {
                let mut end = Command::new("kill");
                end.arg(child.id().to_string()).status()?;
                child.wait()?;
                return Ok(Verdict::Failed(failed));
            }
        }
        Ok(match child.wait()?.code() {
            Some(0) => Verdict::Passed,
            Some(TIMED_OUT) => Verdict::TimedOut,
            _ => Verdict::Failed(failed),
        })
    }
}

/// Arguments that choose tests; all if there are none.
fn exactly(tests: &[String]) -> Vec<String> {
    match tests {
        [] => Vec::new(),
        tests => [&["--exact".to_owned()], tests].concat(),
    }
}

/// The name of the test that has failed by this line of a test program.
fn failed_test(line: &str) -> Option<String> {
    let line = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    Some(line.trim_end_matches(" - should panic").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_that_failed_is_named() {
        let name = |line| failed_test(line);
        assert_eq!(name("test a::b ... FAILED").as_deref(), Some("a::b"));
        assert_eq!(name("test a::b ... ok"), None);
        assert_eq!(name("test result: FAILED. 1 passed"), None);
    }
}
