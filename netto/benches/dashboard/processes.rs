//! CPU time and memory of a browser's processes, by `/proc`: all that descend
//! from the driver that started it. Reads only.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

/// What a browser's processes have used so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Used {
    /// CPU time of the processes that run pages, user and system, seconds.
    pub renderer_seconds: f64,
    /// CPU time of all others: the browser itself, the compositor, the network.
    pub other_seconds: f64,
    /// Resident memory of the processes that run pages, bytes.
    pub renderer_bytes: f64,
}

/// What `/proc/PID/stat` and `cmdline` say of one process.
struct Process {
    parent: u32,
    ticks: u64,
    pages: u64,
    is_renderer: bool,
}

/// Sums over all descendants of a process.
///
/// # Errors
/// If `/proc` cannot be listed, or nothing descends from that process.
pub fn used_below(ancestor: u32) -> Result<Used> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").context("cannot list /proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // Whoever has ended meanwhile is not counted.
        if let Some(process) = read(pid) {
            all.insert(pid, process);
        }
    }
    let (ticks_per_second, page_bytes) = constants();
    let mut sum = Used::default();
    let mut found = 0;
    for (pid, process) in &all {
        if *pid == ancestor || !descends(&all, *pid, ancestor) {
            continue;
        }
        found += 1;
        let seconds = process.ticks as f64 / ticks_per_second;
        if process.is_renderer {
            sum.renderer_seconds += seconds;
            sum.renderer_bytes += process.pages as f64 * page_bytes;
        } else {
            sum.other_seconds += seconds;
        }
    }
    anyhow::ensure!(found > 0, "process {ancestor} has started none");
    Ok(sum)
}

fn read(pid: u32) -> Option<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    // The name is in parentheses and may contain anything; fields count from behind it.
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Process {
        parent: number(1)? as u32,
        ticks: number(11)? + number(12)?,
        pages: number(21)?,
        is_renderer: command
            .split(|&byte| byte == 0 || byte == b' ')
            .any(|word| word == b"--type=renderer"),
    })
}

fn descends(all: &BTreeMap<u32, Process>, pid: u32, ancestor: u32) -> bool {
    let mut at = pid;
    // No tree of processes is deeper than there are processes.
    for _ in 0..all.len() {
        match all.get(&at) {
            Some(process) if process.parent == ancestor => return true,
            Some(process) => at = process.parent,
            None => return false,
        }
    }
    false
}

/// Ticks of a second and bytes of a page. Linux has told programs 100 of the
/// former since the beginning, whatever its own clock.
fn constants() -> (f64, f64) {
    let ask = |name: &str, default: f64| {
        let output = std::process::Command::new("getconf").arg(name).output();
        output
            .ok()
            .and_then(|output| String::from_utf8(output.stdout).ok()?.trim().parse().ok())
            .unwrap_or(default)
    };
    (ask("CLK_TCK", 100.0), ask("PAGESIZE", 4096.0))
}
