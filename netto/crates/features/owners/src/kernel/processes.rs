//! Maps sockets and TAP interfaces to processes, and network namespaces to the processes in them, by
//! searching `/proc`, and only for requests.
//!
//! A socket is owned by the lowest PID of those that hold it: a server's, not its workers'. A
//! result is valid for some seconds; then the process is checked again, since numbers of sockets,
//! namespaces and processes are reused.

use std::fs::{self, File};
use std::io::{Error, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::pace::Pace;
use crate::analysis::process::{InterfaceName, cgroup, inode, stat, tap};
use crate::analysis::recent::{Recent, is_old};
use netto_sys::files::read_bytes;
use netto_sys::system::{Roots, tick_ns};

/// Most sockets kept.
const MOST_SOCKETS: usize = 65_536;
/// Most network namespaces kept.
const MOST_NAMESPACES: usize = 16_384;
/// Most TUN and TAP interfaces kept.
const MOST_TAPS: usize = 16_384;
/// Most processes read in one search.
const MOST_PROCESSES: usize = 1 << 20;
/// Most sockets, TUN and TAP interfaces read of one process.
const MOST_OF_ONE: usize = 65_536;
/// Upper bound of the size of a process's files.
const MOST_BYTES: u64 = 64 << 10;

/// A process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Start time, nanoseconds since boot, in whole ticks of `_SC_CLK_TCK`: 10 ms.
    pub started_ns: u64,
    /// Its name, at most 15 bytes.
    pub comm: Vec<u8>,
    /// Path of its control group of version 2; empty where there is none.
    pub cgroup: Vec<u8>,
}

/// A result, and its time.
#[derive(Debug, Clone)]
pub struct FoundProcess {
    /// The process.
    pub process: Arc<Process>,
    /// On CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The search that found it last.
    search: u64,
}

/// The subject of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sought {
    /// The holders of sockets.
    pub sockets: bool,
    /// The processes in network namespaces.
    pub namespaces: bool,
    /// The processes behind TUN and TAP interfaces of this process's network namespace.
    pub taps: bool,
}

impl Sought {
    /// Nothing.
    const NONE: Sought = Sought {
        sockets: false,
        namespaces: false,
        taps: false,
    };
    /// Holders of sockets.
    pub const SOCKETS: Sought = Sought {
        sockets: true,
        ..Sought::NONE
    };
    /// Holders of TUN and TAP interfaces.
    pub const TAPS: Sought = Sought {
        taps: true,
        ..Sought::NONE
    };
}

/// Owners of sockets and processes in network namespaces.
#[derive(Debug)]
pub struct Processes {
    proc_root: PathBuf,
    /// The network namespace of this process; it has no owner.
    own_namespace: Option<u64>,
    sockets: Recent<u64, FoundProcess>,
    namespaces: Recent<u64, FoundProcess>,
    taps: Recent<InterfaceName, FoundProcess>,
    searches: u64,
    refused: Option<String>,
}

impl Processes {
    /// Nothing is read until the first request.
    pub fn new(roots: &Roots) -> Self {
        let link = fs::read_link(roots.proc_root.join("self/ns/net")).ok();
        Processes {
            proc_root: roots.proc_root.clone(),
            own_namespace: link.and_then(|link| inode(link.as_os_str().as_bytes(), "net")),
            sockets: Recent::new(MOST_SOCKETS, |_| 1),
            namespaces: Recent::new(MOST_NAMESPACES, |_| 1),
            taps: Recent::new(MOST_TAPS, |_| 1),
            searches: 0,
            refused: None,
        }
    }

    /// The process that holds the socket of this inode, if found recently.
    pub fn holder(&mut self, socket: u64, now_ns: u64) -> Option<FoundProcess> {
        let found = self.sockets.get(socket)?;
        (!is_old(found.at_ns, now_ns)).then(|| found.clone())
    }

    /// The holder found by the last search.
    pub fn last_holder(&self, socket: u64) -> Option<u32> {
        self.sockets.peek(socket).map(|found| found.process.pid)
    }

    /// A process in the network namespace of this inode: the lowest number of those that are in a
    /// control group other than the root. `None` if it is this process' own, or not known.
    pub fn inhabitant(&mut self, namespace: u64, now_ns: u64) -> Option<FoundProcess> {
        if self.is_own(namespace) {
            return None;
        }
        let found = self.namespaces.get(namespace)?;
        if is_old(found.at_ns, now_ns) {
            if namespace_of(&self.proc_root, found.process.pid) != Some(namespace) {
                self.namespaces.remove(namespace);
                return None;
            }
            found.at_ns = now_ns;
        }
        Some(found.clone())
    }

    /// The process that holds a TUN or TAP interface; that of an old result is looked at again.
    pub(super) fn behind_tap(
        &mut self,
        tap: InterfaceName,
        now_ns: u64,
        pace: &mut Pace,
    ) -> Option<FoundProcess> {
        let last = self.taps.get(tap)?;
        if is_old(last.at_ns, now_ns) {
            let pid = last.process.pid;
            self.look_at(&[pid], Sought::TAPS, now_ns, pace);
        }
        let found = self.taps.get(tap)?;
        (!is_old(found.at_ns, now_ns)).then(|| found.clone())
    }

    /// Whether this process is in the network namespace of this inode.
    pub fn is_own(&self, namespace: u64) -> bool {
        self.own_namespace == Some(namespace)
    }

    /// All known network namespaces except this process's own, each with a process in it.
    pub fn namespaces(&self) -> impl Iterator<Item = (u64, u32)> {
        self.namespaces
            .iter()
            .map(|(namespace, found)| (namespace, found.process.pid))
    }

    /// Whether a process is in the network namespace of this inode.
    pub fn is_in(&self, pid: u32, namespace: u64) -> bool {
        namespace_of(&self.proc_root, pid) == Some(namespace)
    }

    /// Number of the last search.
    pub fn searches(&self) -> u64 {
        self.searches
    }

    /// Why sockets and namespaces of some processes are hidden, in words for the user.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Searches likely processes.
    pub(super) fn look_at(&mut self, pids: &[u32], sought: Sought, now_ns: u64, pace: &mut Pace) {
        self.begin(now_ns);
        for pid in pids {
            self.visit(*pid, sought, now_ns, pace);
        }
    }

    /// Searches all processes. The names of `/proc` are read incrementally.
    pub(super) fn search(&mut self, sought: Sought, now_ns: u64, pace: &mut Pace) {
        self.begin(now_ns);
        let entries = fs::read_dir(&self.proc_root)
            .into_iter()
            .flatten()
            .flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        for pid in pids.take(MOST_PROCESSES) {
            self.visit(pid, sought, now_ns, pace);
            pace.step();
        }
        if sought.namespaces {
            let is_gone = |found: &FoundProcess| found.search != self.searches;
            let all = self.namespaces.iter();
            let namespaces: Vec<u64> = all
                .filter(|(_, found)| is_gone(found))
                .map(|namespace| namespace.0)
                .collect();
            namespaces
                .into_iter()
                .for_each(|namespace| self.namespaces.remove(namespace));
        }
    }

    fn begin(&mut self, now_ns: u64) {
        self.searches += 1;
        self.sockets.forget_old(now_ns, |found| found.at_ns);
        self.taps.forget_old(now_ns, |found| found.at_ns);
    }

    fn visit(&mut self, pid: u32, sought: Sought, now_ns: u64, pace: &mut Pace) {
        let Some(mut visit) = Visit::begin(&self.proc_root, pid) else {
            return;
        };
        let is_located = sought.namespaces || sought.taps;
        let namespace = is_located.then(|| visit.namespace()).flatten();
        let is_here = namespace.is_some() && namespace == self.own_namespace;
        let namespace = namespace.filter(|_| sought.namespaces && !is_here);
        let Descriptors { sockets, taps } = if sought.sockets || (sought.taps && is_here) {
            visit.descriptors(sought.taps && is_here, pace)
        } else {
            Descriptors::default()
        };
        if visit.is_refused && self.refused.is_none() {
            self.refused = Some(format!(
                "sockets and network namespaces of some processes cannot be seen, such as those \
                 of process {pid}: this requires CAP_SYS_PTRACE"
            ));
        }
        if sockets.is_empty() && taps.is_empty() && namespace.is_none() {
            return;
        }
        // It may have ended meanwhile.
        let Some(process) = visit.process().map(Arc::new) else {
            return;
        };
        let search = self.searches;
        let found = || FoundProcess {
            process: process.clone(),
            at_ns: now_ns,
            search,
        };
        for socket in sockets {
            let known = self.sockets.peek(socket);
            if known.is_none_or(|known| known.search != search || known.process.pid > pid) {
                self.sockets.insert(socket, found());
            }
        }
        for tap in taps {
            let known = self.taps.peek(tap);
            if known.is_none_or(|known| known.search != search || known.process.pid > pid) {
                self.taps.insert(tap, found());
            }
        }
        if let Some(namespace) = namespace {
            let known = self.namespaces.peek(namespace);
            let order = |process: &Process| (is_in_root(process), process.pid);
            if known.is_none_or(|known| {
                known.search != search || order(&known.process) > order(&process)
            }) {
                self.namespaces.insert(namespace, found());
            }
        }
    }
}

fn is_in_root(process: &Process) -> bool {
    matches!(process.cgroup.as_slice(), b"" | b"/")
}

/// Inode of the network namespace that a process is in.
fn namespace_of(proc_root: &Path, pid: u32) -> Option<u64> {
    let link = fs::read_link(proc_root.join(format!("{pid}/ns/net"))).ok()?;
    inode(link.as_os_str().as_bytes(), "net")
}

/// The device that makes TUN and TAP interfaces.
const TUN_DEVICE: &[u8] = b"/dev/net/tun";

/// What a process holds.
#[derive(Debug, Default)]
struct Descriptors {
    /// Inodes.
    sockets: Vec<u64>,
    taps: Vec<InterfaceName>,
}

/// A process being read. Its folder stays open meanwhile, so that a new process with its number is
/// never mistaken for it.
struct Visit {
    pid: u32,
    _folder: File,
    path: PathBuf,
    /// Whether the kernel denied access to its sockets or its namespace.
    is_refused: bool,
}

impl Visit {
    /// `None` if there is no process of this number.
    fn begin(proc_root: &Path, pid: u32) -> Option<Self> {
        let folder = File::options()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_PATH)
            .open(proc_root.join(pid.to_string()))
            .ok()?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        Some(Visit {
            pid,
            _folder: folder,
            path,
            is_refused: false,
        })
    }

    fn namespace(&mut self) -> Option<u64> {
        let link = fs::read_link(self.path.join("ns/net"));
        let link = link.map_err(|error| self.failed(&error)).ok()?;
        inode(link.as_os_str().as_bytes(), "net")
    }

    /// Its sockets, and, if they are asked for, its TUN and TAP interfaces.
    fn descriptors(&mut self, are_taps_asked: bool, pace: &mut Pace) -> Descriptors {
        let mut found = Descriptors::default();
        let descriptors = fs::read_dir(self.path.join("fd"));
        let descriptors = descriptors.map_err(|error| self.failed(&error));
        for entry in descriptors.into_iter().flatten() {
            let target = entry.and_then(|entry| Ok((fs::read_link(entry.path())?, entry)));
            match target {
                Ok((link, entry)) => {
                    let link = link.as_os_str().as_bytes();
                    found.sockets.extend(inode(link, "socket"));
                    if are_taps_asked && link == TUN_DEVICE {
                        let about = self.path.join("fdinfo").join(entry.file_name());
                        let text = read_bytes(&about, MOST_BYTES).unwrap_or_default();
                        found.taps.extend(tap(&text));
                    }
                }
                Err(error) => self.failed(&error),
            }
            if found.sockets.len() + found.taps.len() >= MOST_OF_ONE {
                break;
            }
            pace.step();
        }
        found
    }

    fn process(&self) -> Option<Process> {
        let text = read_bytes(&self.path.join("stat"), MOST_BYTES).ok()?;
        let (comm, ticks) = stat(&text)?;
        let groups = read_bytes(&self.path.join("cgroup"), MOST_BYTES).unwrap_or_default();
        Some(Process {
            pid: self.pid,
            started_ns: ticks.saturating_mul(tick_ns()),
            comm: comm.to_vec(),
            cgroup: cgroup(&groups).to_vec(),
        })
    }

    /// A process that has ended, or closed a descriptor, is no failure.
    fn failed(&mut self, error: &Error) {
        self.is_refused |= error.kind() == ErrorKind::PermissionDenied;
    }
}

#[cfg(test)]
pub(super) mod tests;
