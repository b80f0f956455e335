//! A copy of a commit's tree, in which mutants are built.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::program::Program;
use crate::tiers::TABLE;
use crate::{build, process};

/// Test programs that need root or a browser; and one that takes minutes for each mutant, because
/// it starts daemons, of which nothing tells which test has.
const LEFT_OUT: [&str; 3] = ["root", "dashboard", "sinks"];

/// The copy.
pub struct Copy {
    /// Its sources.
    pub tree: PathBuf,
    /// What is kept between runs, and what is built.
    pub own: PathBuf,
}

/// An error of the compiler.
#[derive(Debug)]
pub struct BuildError {
    /// The file, below the tree, and the byte where it is; `None` if it is in no file.
    pub at: Option<(String, usize)>,
    /// All of it.
    pub text: String,
}

impl Copy {
    /// Copies the tree of a commit.
    ///
    /// # Errors
    /// There is no such commit, or no room.
    pub fn new(root: &Path, revision: &str) -> Result<Copy> {
        let mut git = Command::new("git");
        git.current_dir(root)
            .args(["rev-parse", "--short=12", revision]);
        let commit = process::output(&mut git)?;
        let own = build::target_folder(root).join("mutants").join(&commit);
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
        Ok(Copy { tree, own })
    }

    /// The text of a file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, file: &str) -> Result<String> {
        let path = self.tree.join(file);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Replaces a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.tree.join(file);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Builds the test programs, or tells what the compiler says.
    ///
    /// # Errors
    /// Cargo cannot be started, or failed without an error of the compiler.
    pub fn build(&self) -> Result<Result<Vec<Program>, Vec<BuildError>>> {
        let mut command = process::cargo();
        command
            .args(["test", "--no-run", "--message-format=json"])
            .args(["--workspace", "--exclude", "xtask", "--lib", "--bins"]);
        let mut names: Vec<&str> = TABLE.iter().map(|row| row.program).collect();
        names.retain(|name| !LEFT_OUT.contains(name));
        names.dedup();
        for name in names {
            command.args(["--test", name]);
        }
        command
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", self.own.join("target"));
        let output = command.output().context("cannot start cargo")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let lines: Vec<Value> = lines.collect();
        if output.status.success() {
            return Ok(Ok(lines.iter().filter_map(Program::of).collect()));
        }
        let errors: Vec<BuildError> = lines.iter().filter_map(BuildError::of).collect();
        if errors.is_empty() {
            bail!("cargo: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(Err(errors))
    }
}

impl BuildError {
    fn of(message: &Value) -> Option<BuildError> {
        let message = &message["message"];
        if message["level"] != "error" {
            return None;
        }
        let spans = message["spans"].as_array();
        let mut primary = spans
            .into_iter()
            .flatten()
            .filter(|span| span["is_primary"] == true);
        Some(BuildError {
            at: primary.next().and_then(|span| {
                let byte = span["byte_start"].as_u64()?;
                Some((span["file_name"].as_str()?.to_owned(), byte as usize))
            }),
            text: message["rendered"].as_str().unwrap_or_default().to_owned(),
        })
    }
}
