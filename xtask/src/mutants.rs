//! `cargo xtask mutants`: whether tests catch the mutants of `xtask/mutants/sample.tsv`, each
//! followed to where its code is now. Needs cargo-mutants, which lists the mutants of a file.
//!
//! Works in a copy of a commit's tree. What was found of that commit is kept, so that a run that
//! was interrupted goes on.

mod place;
mod sample;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use self::place::Place;
use self::sample::{Drawn, Sample};
use crate::tiers::TABLE;
use crate::{build, process};

/// Seconds after which a build, or tests, are given up.
const LIMIT_SECONDS: &str = "900";
/// By which `timeout` tells that.
const TIMED_OUT: i32 = 124;
/// What tests cost unoptimised is less than what it costs to optimise each mutant.
const UNOPTIMISED: [&str; 4] = [
    "--config",
    "profile.dev.package.netto.opt-level=0",
    "--config",
    "profile.dev.package.metrics-common.opt-level=0",
];

/// What can be asked for.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The commit whose tests are tried
    #[arg(long, default_value = "HEAD")]
    tree: String,
    /// Only mutants of this group
    #[arg(long)]
    group: Option<String>,
    /// Only tell where each mutant is now
    #[arg(long)]
    find: bool,
}

/// What became of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// A test failed.
    Caught,
    /// No test did.
    Missed,
    /// Tests did not end: it has escaped.
    TimedOut,
    /// It does not compile.
    Unviable,
    /// Its code is not there any more, as `moved.tsv` says.
    Gone,
    /// Its code is not found: `moved.tsv` must say where it is.
    NotFound,
}

impl Outcome {
    const ALL: [(Outcome, &str); 6] = [
        (Outcome::Caught, "caught"),
        (Outcome::Missed, "missed"),
        (Outcome::TimedOut, "timed out"),
        (Outcome::Unviable, "unviable"),
        (Outcome::Gone, "gone"),
        (Outcome::NotFound, "not found"),
    ];

    fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    fn from_name(name: &str) -> Option<Outcome> {
        let found = Self::ALL.iter().find(|(_, own)| *own == name);
        found.map(|(outcome, _)| *outcome)
    }
}

/// Tries the mutants and prints, by group, what became of them.
///
/// # Errors
/// The tests fail without any mutant, or a tool is missing.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    ensure!(
        process::find_program("cargo-mutants").is_some(),
        "this needs cargo-mutants: cargo install cargo-mutants --locked"
    );
    let sample = Sample::read(root)?;
    let chosen = sample.drawn.iter().filter(|drawn| {
        let group = options.group.as_ref();
        group.is_none_or(|group| *group == drawn.group)
    });
    let bench = Bench::new(root, &options.tree)?;
    if options.find {
        for drawn in chosen {
            match bench.find(&sample, drawn)? {
                Found::There(place) => {
                    println!("{}:{}: {}", place.file, place.line(), drawn.mutation)
                }
                Found::Not(outcome) => {
                    println!("{}: {} {}", outcome.name(), drawn.file, drawn.mutation)
                }
            }
        }
        return Ok(());
    }
    let mut known = bench.known();
    for drawn in chosen {
        if known.contains_key(&drawn.id) {
            continue;
        }
        if known.is_empty() {
            bench.passes_without_any()?;
        }
        let outcome = match bench.find(&sample, drawn)? {
            Found::Not(outcome) => outcome,
            Found::There(place) => bench.try_one(&place)?,
        };
        eprintln!("xtask: {}: {}", outcome.name(), drawn.id.replace('\t', " "));
        bench.note(drawn, outcome)?;
        known.insert(drawn.id.clone(), outcome);
    }
    print!("{}", table(&sample, &known));
    Ok(())
}

/// By group, how many there are of each outcome, and the share that is caught of those that compile.
fn table(sample: &Sample, known: &BTreeMap<String, Outcome>) -> String {
    let mut groups: BTreeMap<&str, [usize; Outcome::ALL.len()]> = BTreeMap::new();
    for drawn in &sample.drawn {
        if let Some(outcome) = known.get(&drawn.id) {
            groups.entry(&drawn.group).or_default()[*outcome as usize] += 1;
            groups.entry("all").or_default()[*outcome as usize] += 1;
        }
    }
    let names = Outcome::ALL.map(|(_, name)| name).join(" | ");
    let mut text = format!("| group | {names} | caught, of those that compile |\n");
    text += &format!("|---|{}\n", "---:|".repeat(Outcome::ALL.len() + 1));
    for (group, counts) in groups {
        let compiled = counts[0] + counts[1] + counts[2];
        let percent = 100.0 * counts[0] as f64 / compiled.max(1) as f64;
        let counts = counts.map(|count| count.to_string()).join(" | ");
        text += &format!("| {group} | {counts} | {percent:.0} % |\n");
    }
    text
}

/// Where a drawn mutant is.
enum Found {
    There(Place),
    Not(Outcome),
}

/// A copy of a tree, in which mutants are tried.
struct Bench {
    tree: PathBuf,
    target: PathBuf,
    results: PathBuf,
}

impl Bench {
    fn new(root: &Path, revision: &str) -> Result<Bench> {
        let mut git = Command::new("git");
        git.current_dir(root)
            .args(["rev-parse", "--short=12", revision]);
        let commit = process::output(&mut git)?;
        let own = build::target_folder(root).join("mutants");
        let tree = own.join("tree");
        if tree.exists() {
            std::fs::remove_dir_all(&tree)
                .with_context(|| format!("cannot remove {}", tree.display()))?;
        }
        std::fs::create_dir_all(&tree)
            .with_context(|| format!("cannot create {}", tree.display()))?;
        // With the time of now (-m): a file that a run before has changed must look new.
        let script = "git archive \"$0\" | tar -x -m -C \"$1\"";
        let mut copy = Command::new("sh");
        copy.current_dir(root)
            .args(["-c", script, &commit])
            .arg(&tree);
        process::run(&mut copy)?;
        Ok(Bench {
            tree,
            target: own.join("target"),
            results: own.join(format!("results-{commit}.tsv")),
        })
    }

    /// What was found before.
    fn known(&self) -> BTreeMap<String, Outcome> {
        let text = std::fs::read_to_string(&self.results).unwrap_or_default();
        let known = text.lines().filter_map(|line| {
            let (id, outcome) = line.rsplit_once('\t')?;
            Some((id.to_owned(), Outcome::from_name(outcome)?))
        });
        known.collect()
    }

    fn note(&self, drawn: &Drawn, outcome: Outcome) -> Result<()> {
        let path = &self.results;
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)?;
        writeln!(file, "{}\t{}", drawn.id, outcome.name())
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn find(&self, sample: &Sample, drawn: &Drawn) -> Result<Found> {
        let Some(moved) = sample.moved(drawn) else {
            return Ok(Found::Not(Outcome::Gone));
        };
        let place = place::find(&self.tree, &moved)?;
        Ok(place.map_or(Found::Not(Outcome::NotFound), Found::There))
    }

    /// A mutant that is caught by a test that fails anyway is not caught.
    fn passes_without_any(&self) -> Result<()> {
        for package in ["netto", "metrics-common"] {
            let outcome = self.tests_of(package)?;
            ensure!(
                outcome == Outcome::Missed,
                "{package} without any mutant: {}",
                outcome.name()
            );
        }
        Ok(())
    }

    /// What the tests say of one mutant; the file is as before then.
    fn try_one(&self, place: &Place) -> Result<Outcome> {
        let path = self.tree.join(&place.file);
        let write = |text: &str| {
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        let original = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        write(
            &place
                .mutated(&original)
                .context("a place outside its file")?,
        )?;
        let outcome = place::package(&self.tree, &place.file).and_then(|own| self.tests_of(&own));
        write(&original)?;
        outcome
    }

    /// The tests of its package, which are built soonest; those who miss it have not the last word.
    fn tests_of(&self, package: &str) -> Result<Outcome> {
        let own = self.cargo_test(&["--package", package, "--lib"])?;
        if own != Outcome::Missed {
            return Ok(own);
        }
        let mut all = vec!["--workspace", "--exclude", "xtask", "--lib", "--bins"];
        for row in TABLE
            .iter()
            .filter(|row| row.is_quick && row.program != "root")
        {
            all.extend(["--test", row.program]);
        }
        self.cargo_test(&all)
    }

    fn cargo_test(&self, words: &[&str]) -> Result<Outcome> {
        let build = [words, &["--no-run"]].concat();
        Ok(match self.cargo(&build)? {
            0 => match self.cargo(words)? {
                0 => Outcome::Missed,
                TIMED_OUT => Outcome::TimedOut,
                _ => Outcome::Caught,
            },
            _ => Outcome::Unviable,
        })
    }

    /// The exit code of `cargo test`.
    fn cargo(&self, words: &[&str]) -> Result<i32> {
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=5", LIMIT_SECONDS, "cargo", "test", "--quiet"])
            .args(UNOPTIMISED)
            .args(words)
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_PROFILE_DEV_INCREMENTAL", "true")
            .env("RUSTFLAGS", "--cap-lints=allow")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let status = command.status().context("cannot start timeout")?;
        status.code().context("timeout was killed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_counted_by_group_and_a_mutant_that_times_out_is_not_caught() {
        let drawn = |group: &str, mutation: &str| {
            let line = format!("{group}\ta.rs\tf\t1\t1 of 1\t{mutation}\tsource");
            Drawn::parse(&line).unwrap()
        };
        let sample = Sample {
            drawn: vec![drawn("log", "a"), drawn("log", "b"), drawn("http", "c")],
            moved: BTreeMap::new(),
        };
        let outcomes = [Outcome::Caught, Outcome::TimedOut, Outcome::Unviable];
        let ids = sample.drawn.iter().map(|drawn| drawn.id.clone());
        let text = table(&sample, &ids.zip(outcomes).collect());
        assert!(
            text.contains("| log | 1 | 0 | 1 | 0 | 0 | 0 | 50 % |"),
            "{text}"
        );
        assert!(
            text.contains("| http | 0 | 0 | 0 | 1 | 0 | 0 | 0 % |"),
            "{text}"
        );
        for (outcome, name) in Outcome::ALL {
            assert_eq!(Outcome::from_name(outcome.name()), Some(outcome), "{name}");
        }
    }
}
