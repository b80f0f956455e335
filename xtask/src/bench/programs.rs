//! BPF programs: those of the benchmark, compiled and attached by a process of
//! their own, and what the kernel's statistics say of anybody's.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::lab::{self, Owned};
use crate::{build, process};

/// Folder of the benchmark's own programs.
const SOURCES: &str = "xtask/src/bench";

/// Compiles a program below `xtask/src/bench`, perhaps with a macro defined.
pub fn compile(root: &Path, source: &str, define: Option<&str>) -> Result<PathBuf> {
    let folder = build::target_folder(root).join("bench");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let object = folder.join(format!("{source}.{}.o", define.unwrap_or("plain")));
    let mut command = Command::new("clang");
    command.args([
        "-target", "bpf", "-O2", "-g", "-mcpu=v3", "-Wall", "-Werror",
    ]);
    command.args(define.map(|name| format!("-D{name}")));
    command.arg("-c").arg(root.join(SOURCES).join(source));
    process::run(command.arg("-o").arg(&object))?;
    Ok(object)
}

/// A process that keeps the programs of an object attached; they go with it.
pub struct AttachedObject(Owned);

impl AttachedObject {
    /// Attaches every program of the object, by the benchmark `attach` of netto.
    pub fn start(attach: &Path, object: &Path) -> Result<AttachedObject> {
        Self::held_by(attach, [object])
    }

    /// Whatever a program holds until its standard input ends, once it has said that it does.
    pub fn held_by(
        program: &Path,
        words: impl IntoIterator<Item: AsRef<OsStr>>,
    ) -> Result<AttachedObject> {
        let mut command = lab::mortal(program);
        command
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = Owned::start(&mut command)?;
        let stdout = process.0.stdout.take().context("no standard output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        if line.trim() != "ready" {
            bail!("`{}` is not ready", process::display(&command));
        }
        Ok(AttachedObject(process))
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.0.0.id()
    }
}

/// A BPF program and its cost, by the kernel's statistics.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its whole name.
    pub name: String,
    /// Nanoseconds in it.
    pub run_time_ns: f64,
    /// How often it ran.
    pub runs: f64,
}

/// The programs that a process holds. All zero unless the kernel keeps statistics.
pub fn of_process(pid: u32) -> Result<Vec<Program>> {
    let own = ids_of(pid)?;
    Ok(all()?
        .into_iter()
        .filter(|(id, _)| own.contains(id))
        .map(|(_, program)| program)
        .collect())
}

/// Names of the programs in the kernel that are netto's, by whomever they were loaded.
pub fn of_any_netto() -> Result<Vec<String>> {
    let names = all()?.into_iter().map(|(_, program)| program.name);
    Ok(names.filter(|name| name.starts_with("netto_")).collect())
}

fn all() -> Result<Vec<(u64, Program)>> {
    let text = process::output(Command::new("bpftool").args(["-j", "prog", "show"]))?;
    let all: serde_json::Value = serde_json::from_str(&text).context("bpftool wrote no JSON")?;
    let all = all.as_array().context("bpftool wrote no list")?;
    Ok(all
        .iter()
        .map(|program| {
            let found = Program {
                name: program["name"].as_str().unwrap_or_default().to_owned(),
                run_time_ns: program["run_time_ns"].as_f64().unwrap_or(0.0),
                runs: program["run_cnt"].as_f64().unwrap_or(0.0),
            };
            (program["id"].as_u64().unwrap_or(0), found)
        })
        .collect())
}

/// Numbers of the programs that a process holds, by what the kernel says of its descriptors.
fn ids_of(pid: u32) -> Result<Vec<u64>> {
    let folder = format!("/proc/{pid}/fdinfo");
    let mut ids = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))? {
        // A descriptor may be closed meanwhile.
        let text = std::fs::read_to_string(entry?.path()).unwrap_or_default();
        ids.extend(
            text.lines()
                .filter_map(|line| line.strip_prefix("prog_id:")?.trim().parse::<u64>().ok()),
        );
    }
    Ok(ids)
}
