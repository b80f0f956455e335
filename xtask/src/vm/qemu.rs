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
/// What a test writes once a second that stresses the guest, and what it writes at its end: a CPU that
/// is stuck with interrupts off tells nobody itself.
const HEARTBEAT: &str = "guest heartbeat ";
const LAST_HEARTBEAT: &str = "guest heartbeat ends";
/// Most time between two of them. An emulated CPU takes its time, and the machine has other work.
const HEARTBEAT_LIMIT: Duration = Duration::from_secs(60);
/// What the kernel says of a CPU that is stuck, and of a task that sleeps where it must not.
const COMPLAINTS: &[&str] = &["BUG: ", "detected stall", "blocked for more than"];
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
    let mut heart = Heart::default();
    let mut verdict = None;
    loop {
        let until = heart.deadline().map_or(deadline, |beat| beat.min(deadline));
        match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) if heart.beats(&line) => {}
            Ok(line) => match line.strip_prefix(VERDICT) {
                Some(code) => {
                    verdict = code.parse::<i32>().ok();
                    deadline = Instant::now() + POWER_OFF_LIMIT;
                }
                None => see(&line),
            },
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if verdict.is_some() => break,
            Err(RecvTimeoutError::Timeout) if until < deadline => bail!(
                "the guest gave no sign of life for {} s and was killed, after {} s of them; its \
                 kernel said last:\n{}",
                HEARTBEAT_LIMIT.as_secs(),
                heart.number,
                last_words(boot.console)
            ),
            Err(RecvTimeoutError::Timeout) => bail!(
                "the guest did not end within {} s and was killed; its kernel said last:\n{}",
                boot.limit.as_secs(),
                last_words(boot.console)
            ),
        }
    }
    if heart.number > 0 {
        let console = std::fs::read(boot.console).unwrap_or_default();
        heart.check(&String::from_utf8_lossy(&console))?;
    }
    verdict.with_context(|| {
        format!(
            "the guest ended without a verdict; its kernel said last:\n{}",
            last_words(boot.console)
        )
    })
}

/// The signs of life of a guest whose test gives some.
#[derive(Debug, Default)]
struct Heart {
    number: u64,
    last: Option<Instant>,
}

impl Heart {
    /// Whether the line is a sign of life.
    fn beats(&mut self, line: &str) -> bool {
        let is_beat = line.starts_with(HEARTBEAT);
        if is_beat {
            self.number += 1;
            self.last = (line != LAST_HEARTBEAT).then(Instant::now);
        }
        is_beat
    }

    /// When the next one must have come.
    fn deadline(&self) -> Option<Instant> {
        self.last.map(|last| last + HEARTBEAT_LIMIT)
    }

    /// Checks what the kernel said meanwhile.
    fn check(&self, console: &str) -> Result<()> {
        let complaint = console
            .lines()
            .find(|line| COMPLAINTS.iter().any(|words| line.contains(words)));
        match complaint {
            Some(complaint) => bail!("the guest's kernel said: {complaint}"),
            None => Ok(()),
        }
    }
}

fn command(boot: &Boot<'_>) -> Result<Command> {
    let machine = boot.architecture.machine();
    let mut console = std::ffi::OsString::from("file:");
    console.push(boot.console);
    // The guest ends with this process.
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
    // The kernel holds all files in memory, twice while it unpacks them, and kernel and netto need
    // some for each CPU.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_gives_signs_of_life_must_go_on_until_it_says_that_they_end() {
        let mut heart = Heart::default();
        assert!(!heart.beats("test allocations::memory_ ... ok"));
        assert_eq!(heart.deadline(), None);
        assert!(heart.beats("guest heartbeat 0"));
        assert!(heart.deadline() > Some(Instant::now()));
        assert!(heart.beats(LAST_HEARTBEAT));
        assert_eq!(heart.deadline(), None);
    }

    #[test]
    fn complaints_of_the_kernel_are_failures() {
        let heart = Heart::default();
        for console in [
            "[   57.1] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "[   57.1] BUG: scheduling while atomic: recv/811/0x00000002",
            "[   57.1] watchdog: BUG: soft lockup - CPU#0 stuck for 26s!",
        ] {
            assert!(heart.check(console).is_err(), "{console}");
        }
        assert!(
            heart
                .check("[    0.4] rcu: Hierarchical RCU implementation.")
                .is_ok()
        );
    }
}
