//! CPU time and memory of a browser's processes, by `/proc`: all that descend
//! from the driver that started it. Reads only.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use nix::unistd::{SysconfVar, sysconf};

/// Resources used so far by a browser's renderer processes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Used {
    /// CPU time, user and system, seconds.
    pub page_seconds: f64,
    /// Resident memory, bytes.
    pub page_bytes: f64,
}

/// Values of one process from `/proc/PID/stat` and `cmdline`.
struct Process {
    parent: u32,
    ticks: u64,
    pages: u64,
    is_renderer: bool,
}

/// Sums over all descendants of a process.
///
/// # Errors
/// If `/proc` cannot be listed, or no page's process descends from that one.
pub fn used_below(ancestor: u32) -> Result<Used> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").context("cannot list /proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // Processes that have ended are not counted.
        if let Some(process) = read(pid) {
            all.insert(pid, process);
        }
    }
    let constant = |name| sysconf(name)?.context("unknown");
    let ticks_hz = constant(SysconfVar::CLK_TCK)? as f64;
    let page_bytes = constant(SysconfVar::PAGE_SIZE)? as f64;
    let meant = all
        .iter()
        .filter(|(pid, process)| process.is_renderer && descends(&all, **pid, ancestor));
    let mut sum = None;
    for (_, process) in meant {
        let sum = sum.get_or_insert_with(Used::default);
        sum.page_seconds += process.ticks as f64 / ticks_hz;
        sum.page_bytes += process.pages as f64 * page_bytes;
    }
    sum.with_context(|| format!("process {ancestor} has started no page"))
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
