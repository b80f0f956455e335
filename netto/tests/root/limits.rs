//! Too few open files or threads: a sentence with the number needed and its purpose, for any
//! remaining number, and never a panic.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::child::{self, Owned};
use crate::daemon;
use crate::http;
use crate::trial::{NotOnThisKernel, tests};

tests! {
    limits::every_limit_of_open_files_is_named_until_it_is_enough ["prlimit"] = || open_files(8);
    limits::all_numbers_of_open_files_are_named_until_they_are_enough ["prlimit"]
        = || open_files(1);
    limits::every_limit_of_a_users_threads_is_named_until_it_is_enough ["prlimit", "setpriv"];
    limits::every_limit_of_a_groups_threads_is_named_until_it_is_enough;
}

/// netto under a limit, to its end: that it failed, and said so with this word.
fn must_be_refused(mut command: Command, word: &str) -> Result<String> {
    let mut process = Owned::start(&mut command)?;
    let status = process.wait()?;
    let stderr = process.stderr();
    ensure!(
        status.code() == Some(1),
        "{command:?} gave {status}: {stderr}"
    );
    for bad in ["panicked", "bug in netto", "damaged", "RUST_BACKTRACE"] {
        ensure!(!stderr.contains(bad), "{command:?} says {bad:?}: {stderr}");
    }
    let last = stderr.lines().last().unwrap_or_default();
    ensure!(
        last.starts_with("error: ") && last.contains(word),
        "{command:?} does not say {word:?}: {stderr}"
    );
    Ok(last.to_owned())
}

/// netto under a limit serves its first interval.
fn must_serve(mut command: Command, port: u16) -> Result<()> {
    let mut process = Owned::start(&mut command)?;
    let at = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let is_over = child::eventually(|| match process.try_wait()? {
        Some(status) => Ok(Some(status)),
        None => http::get_ok(at, "/readyz").map(|_| None),
    })?;
    ensure!(is_over.is_none(), "{command:?}: {}", process.stderr());
    process.signal("TERM")?;
    let status = process.wait()?;
    ensure!(status.success(), "{status}: {}", process.stderr());
    Ok(())
}

fn limited(limit: &str, arguments: &[&str]) -> Command {
    let mut command = child::mortal("prlimit");
    command.arg(limit).arg(daemon::binary()).args(arguments);
    command
}

/// Every so many numbers of files.
fn open_files(step: usize) -> Result<()> {
    let mut remedy = String::new();
    for files in (8..=64).step_by(step) {
        let limit = format!("--nofile={files}:{files}");
        remedy = must_be_refused(limited(&limit, &["run", "--port", "0"]), "open files")?;
        if files % 8 == 0 {
            must_be_refused(limited(&limit, &["check"]), "open files")?;
        }
    }
    // The limit named in the sentence is enough.
    let (_, enough) = remedy.split_once("`ulimit -n ").context("no remedy")?;
    let (enough, _) = enough.split_once('`').context("no remedy")?;
    println!("\nat 64: {remedy}");
    let port = child::free_port()?;
    let limit = format!("--nofile={enough}:{enough}");
    must_serve(limited(&limit, &["run", "--port", &port.to_string()]), port)
}

/// No user of this machine.
const NOBODY: &str = "61357";

/// As a user to whom the limit applies, and who may not measure: a demonstration has the same
/// threads.
fn every_limit_of_a_users_threads_is_named_until_it_is_enough() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let copy = reachable_binary(folder.path())?;
    let command = |threads: u32, port: u16| {
        let mut command = child::mortal("prlimit");
        command
            .arg(format!("--nproc={threads}:{threads}"))
            .args([
                "setpriv",
                "--reuid",
                NOBODY,
                "--regid",
                NOBODY,
                "--clear-groups",
            ])
            .arg(&copy)
            .args(["demo", "--cpus=2", &format!("--port={port}")])
            .current_dir("/");
        command
    };
    for threads in 1..=10 {
        must_be_refused(command(threads, 0), "threads")?;
    }
    let port = child::free_port()?;
    must_serve(command(16, port), port)
}

/// A copy that anybody may run.
fn reachable_binary(folder: &Path) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755))?;
    let copy = folder.join("netto");
    std::fs::copy(daemon::binary(), &copy)?;
    Ok(copy)
}

/// A control group with a limit of threads, removed when dropped.
struct Group(PathBuf);

impl Group {
    fn new() -> Result<Self> {
        let name = format!("nettotest-{}", std::process::id());
        for root in ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"] {
            let path = Path::new(root).join(&name);
            if std::fs::create_dir(&path).is_ok() {
                let group = Group(path);
                if group.0.join("pids.max").exists() {
                    return Ok(group);
                }
            }
        }
        Err(NotOnThisKernel("there is no control group that limits threads here".to_owned()).into())
    }

    fn command(&self, threads: u32, port: u16) -> Result<Command> {
        std::fs::write(self.0.join("pids.max"), threads.to_string())?;
        let mut command = child::mortal("sh");
        // The shell joins and becomes netto.
        let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$1\" run --port \"$2\"";
        command
            .args(["-c", script])
            .arg(&self.0)
            .arg(daemon::binary());
        command.arg(port.to_string());
        Ok(command)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes have ended; a group with a remaining one is kept.
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn every_limit_of_a_groups_threads_is_named_until_it_is_enough() -> Result<()> {
    let group = Group::new()?;
    for threads in 1..=10 {
        must_be_refused(group.command(threads, 0)?, "threads")?;
    }
    let port = child::free_port()?;
    must_serve(group.command(16, port)?, port)
}
