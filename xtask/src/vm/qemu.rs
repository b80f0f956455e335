//! Runs one guest in QEMU, without hardware support: shows its output as it
//! comes, ends it when it takes too long, and returns its verdict.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::architecture::Architecture;
use crate::process;

/// What the guest writes last, before its exit code.
const VERDICT: &str = "guest verdict: ";
/// Lines of the kernel's messages that are shown when a guest ends without a verdict.
const LAST_WORDS: usize = 25;
/// From the verdict until the machine must be off.
const POWER_OFF_LIMIT: Duration = Duration::from_secs(20);

/// How a guest is to be run.
#[derive(Debug)]
pub struct Boot<'a> {
    /// What it runs on.
    pub architecture: Architecture,
    /// The kernel.
    pub kernel: &'a Path,
    /// Its first file system.
    pub file_system: &'a Path,
    /// Where the kernel's messages go.
    pub console: &'a Path,
    /// Whether time is to be counted in instructions.
    pub icount: bool,
    /// More words for the kernel's command line.
    pub append: &'a str,
    /// CPUs, where the usual number is not meant: two, or one if instructions are counted.
    pub cpus: Option<u32>,
    /// When the guest is killed.
    pub limit: Duration,
}

/// Runs the guest and shows each line of its output to `see`; gives its exit code.
///
/// # Errors
/// QEMU cannot be started, or the guest ended without a verdict or took too long.
pub fn run(boot: &Boot<'_>, mut see: impl FnMut(&str)) -> Result<i32> {
    let mut command = command(boot)?;
    eprintln!("xtask: {}", process::display(&command));
    let mut guest = Guest(command.spawn().context("cannot start QEMU")?);
    let output = guest.0.stdout.take().context("no output to read")?;
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(output);
        let mut line = Vec::new();
        while let Ok(1..) = reader.read_until(b'\n', &mut line) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            line.clear();
            if sender.send(text).is_err() {
                break;
            }
        }
    });
    let mut deadline = Instant::now() + boot.limit;
    let mut verdict = None;
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => match line.strip_prefix(VERDICT) {
                Some(code) => {
                    verdict = code.parse::<i32>().ok();
                    deadline = Instant::now() + POWER_OFF_LIMIT;
                }
                None => see(&line),
            },
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if verdict.is_some() => break,
            Err(RecvTimeoutError::Timeout) => bail!(
                "the guest did not end within {} s and was killed; its kernel said last:\n{}",
                boot.limit.as_secs(),
                last_words(boot.console)
            ),
        }
    }
    verdict.with_context(|| {
        format!(
            "the guest ended without a verdict; its kernel said last:\n{}",
            last_words(boot.console)
        )
    })
}

fn command(boot: &Boot<'_>) -> Result<Command> {
    let machine = boot.architecture.machine();
    let mut console = std::ffi::OsString::from("file:");
    console.push(boot.console);
    // Whoever ends the tests ends their guests.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(
        process::find_program(machine.program)
            .with_context(|| format!("the program {} is missing", machine.program))?,
    );
    // One thread for all CPUs: with one each, QEMU before 8.1 may translate code while
    // another CPU patches it, as attaching a probe does, and then the guest crashes.
    command.args(["-accel", "tcg,thread=single"]);
    if boot.icount {
        command.args(["-icount", "shift=0,sleep=off"]);
    }
    let cpus = match (boot.cpus, boot.icount) {
        (Some(cpus), _) => cpus.to_string(),
        (None, true) => "1".to_owned(),
        (None, false) => machine.cpus.to_owned(),
    };
    // The kernel has all files in memory, for a moment twice; it and netto keep something for each
    // CPU.
    let files = std::fs::metadata(boot.file_system)
        .with_context(|| format!("cannot read {}", boot.file_system.display()))?;
    let megabytes = (files.len() >> 19) + 384 + 8 * u64::from(boot.cpus.unwrap_or(1));
    command
        .args(machine.kind)
        .args(["-smp", &cpus, "-m", &megabytes.to_string()])
        .args(["-nodefaults", "-display", "none", "-no-reboot"])
        .arg("-kernel")
        .arg(boot.kernel)
        .arg("-initrd")
        .arg(boot.file_system)
        // A panic ends the guest at once instead of waiting for somebody to read it.
        .args([
            "-append",
            &format!("{} panic=-1 {}", machine.words, boot.append),
        ])
        .arg("-serial")
        .arg(console)
        .args(machine.output)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    Ok(command)
}

/// Ends QEMU with its owner.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        // Nothing to be done here about a process that cannot be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn last_words(console: &Path) -> String {
    let bytes = std::fs::read(console).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n")
}
