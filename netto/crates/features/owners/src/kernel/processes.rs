//! Which process a socket belongs to, and which processes are in a network namespace: `/proc`
//! is searched for it, a little at a time, and only for what somebody asks.
//!
//! A socket is owned by the lowest process number of those that hold it: a server's, not its
//! workers'. What was found is believed for some seconds; then the process that was found is
//! looked at again, since numbers of sockets, namespaces and processes come back.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::cgroups::Cgroups;
use super::slice::Slice;
use super::visit::{Seen, Visit};
use crate::analysis::process::inode;
use crate::analysis::recent::Recent;
use netto_sys::system::Roots;

/// So many sockets are known.
const MOST_SOCKETS: usize = 65_536;
/// So many network namespaces are known.
const MOST_NAMESPACES: usize = 16_384;
/// So many of each are looked for at once.
const MOST_WANTED: usize = 4096;
/// So many processes are looked at in one search.
const MOST_PROCESSES: usize = 1 << 20;
/// Between two searches of all processes, nanoseconds.
const PAUSE_NS: u64 = 10_000_000_000;
/// What was found is believed for so long, nanoseconds.
const BELIEVED_NS: u64 = 10_000_000_000;

/// A process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it began, nanoseconds since boot, in whole ticks of `_SC_CLK_TCK`: 10 ms.
    pub started_ns: u64,
    /// Its name, at most 15 bytes.
    pub comm: Vec<u8>,
    /// Path of its control group of version 2; empty where there is none.
    pub cgroup: Vec<u8>,
}

/// What was found, and when.
#[derive(Debug)]
struct Found {
    process: Arc<Process>,
    /// On the clock that never goes back.
    at_ns: u64,
    /// The search that found it last.
    search: u64,
}

/// A search that goes on.
#[derive(Debug)]
struct Search {
    number: u64,
    pids: VecDeque<u32>,
    sockets: bool,
    namespaces: bool,
    visit: Option<Visit>,
}

/// Owners of sockets and inhabitants of network namespaces.
#[derive(Debug)]
pub struct Processes {
    proc_root: PathBuf,
    /// The network namespace of this process; nobody's in particular.
    own_namespace: Option<u64>,
    sockets: Recent<u64, Found>,
    namespaces: Recent<u64, Found>,
    /// Sockets that are looked for.
    wanted: FxHashSet<u64>,
    wants_namespaces: bool,
    /// Processes and groups in which they are looked for first.
    near_pids: FxHashSet<u32>,
    near_groups: FxHashSet<Box<[u8]>>,
    /// Where it is likely.
    near: Option<Search>,
    /// Everywhere, which is what makes sure that there is no owner.
    all: Option<Search>,
    /// Sockets that the search of all was begun for.
    sought: FxHashSet<u64>,
    searches: u64,
    searches_of_all: u64,
    /// When all may be searched again, on the clock that never goes back.
    from_ns: u64,
    refused: Option<String>,
}

impl Processes {
    /// Nothing is read until somebody asks.
    pub fn new(roots: &Roots) -> Self {
        let own = fs::read_link(roots.proc_root.join("self/ns/net")).ok();
        Processes {
            proc_root: roots.proc_root.clone(),
            own_namespace: own.and_then(|link| inode(link.as_os_str().as_bytes(), "net")),
            sockets: Recent::new(MOST_SOCKETS, |_| 1),
            namespaces: Recent::new(MOST_NAMESPACES, |_| 1),
            wanted: FxHashSet::default(),
            wants_namespaces: false,
            near_pids: FxHashSet::default(),
            near_groups: FxHashSet::default(),
            near: None,
            all: None,
            sought: FxHashSet::default(),
            searches: 0,
            searches_of_all: 0,
            from_ns: 0,
            refused: None,
        }
    }

    /// The process that holds the socket of this inode. One that is not known is looked for from
    /// the next [`refresh`](Self::refresh) on, first in the group of this path if it is known.
    pub fn socket(
        &mut self,
        socket: u64,
        group: Option<&[u8]>,
        now_ns: u64,
    ) -> Option<Arc<Process>> {
        let found = self.sockets.get(socket);
        let found = found.map(|found| (found.process.clone(), found.at_ns));
        if found
            .as_ref()
            .is_none_or(|(_, at_ns)| is_old(*at_ns, now_ns))
            && (self.wanted.len() < MOST_WANTED && self.wanted.insert(socket))
        {
            match (&found, group) {
                (Some((process, _)), _) => self.near_pids.extend([process.pid]),
                (None, Some(group)) => self.near_groups.extend([group.into()]),
                (None, None) => {}
            }
        }
        found.map(|(process, _)| process)
    }

    /// A process in the network namespace of this inode: the lowest number of those that are in a
    /// control group other than the root. `None` if it is this process' own, or not known, or not
    /// yet: then it is looked for from the next [`refresh`](Self::refresh) on.
    pub fn namespace(&mut self, namespace: u64, now_ns: u64) -> Option<Arc<Process>> {
        if Some(namespace) == self.own_namespace {
            return None;
        }
        let Some(found) = self.namespaces.get(namespace) else {
            self.wants_namespaces = true;
            return None;
        };
        let process = found.process.clone();
        if is_old(found.at_ns, now_ns) {
            let at = &self.proc_root;
            if namespace_of(at, process.pid) == Some(namespace) {
                found.at_ns = now_ns;
            } else {
                self.namespaces.remove(namespace);
                self.wants_namespaces = true;
                return None;
            }
        }
        Some(process)
    }

    /// Whether this process is in the network namespace of this inode.
    pub fn is_own(&self, namespace: u64) -> bool {
        self.own_namespace == Some(namespace)
    }

    /// All network namespaces that are known but this process' own, each with a process in it.
    pub fn namespaces(&self) -> impl Iterator<Item = (u64, u32)> {
        self.namespaces
            .iter()
            .map(|(namespace, found)| (namespace, found.process.pid))
    }

    /// Whether a process is in the network namespace of this inode.
    pub fn is_in(&self, pid: u32, namespace: u64) -> bool {
        namespace_of(&self.proc_root, pid) == Some(namespace)
    }

    /// Has all network namespaces looked for.
    pub fn want_namespaces(&mut self) {
        self.wants_namespaces = true;
    }

    /// Of how many searches of all processes [`namespaces`](Self::namespaces) is the outcome.
    pub fn searches_of_all(&self) -> u64 {
        self.searches_of_all
    }

    /// Why sockets and namespaces of some processes are not seen, in words for the user.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Searches while there is time and somebody asked: first where it is likely, then everywhere,
    /// but not too often.
    pub fn refresh(&mut self, now_ns: u64, groups: Option<&Cgroups>, slice: &mut Slice) {
        while slice.goes_on() {
            if let Some(mut near) = self.near.take().or_else(|| self.search_near(groups)) {
                if !self.go_on(&mut near, now_ns, slice) {
                    self.near = Some(near);
                }
            } else if let Some(mut all) = self.all.take().or_else(|| self.search_all(now_ns)) {
                if self.go_on(&mut all, now_ns, slice) {
                    self.end(&all, now_ns);
                } else {
                    self.all = Some(all);
                }
            } else {
                return;
            }
        }
    }

    fn search_near(&mut self, groups: Option<&Cgroups>) -> Option<Search> {
        let mut pids: Vec<u32> = self.near_pids.drain().collect();
        for group in self.near_groups.drain() {
            pids.extend(
                groups
                    .map(|groups| groups.processes(&group))
                    .unwrap_or_default(),
            );
        }
        (!pids.is_empty()).then(|| self.search(pids, true, false))
    }

    fn search_all(&mut self, now_ns: u64) -> Option<Search> {
        let (sockets, namespaces) = (!self.wanted.is_empty(), self.wants_namespaces);
        if now_ns < self.from_ns || !(sockets || namespaces) {
            return None;
        }
        self.sought.clone_from(&self.wanted);
        self.wants_namespaces = false;
        Some(self.search(self.processes(), sockets, namespaces))
    }

    fn search(&mut self, mut pids: Vec<u32>, sockets: bool, namespaces: bool) -> Search {
        pids.sort_unstable();
        pids.dedup();
        self.searches += 1;
        Search {
            number: self.searches,
            pids: pids.into(),
            sockets,
            namespaces,
            visit: None,
        }
    }

    fn processes(&self) -> Vec<u32> {
        let entries = fs::read_dir(&self.proc_root)
            .into_iter()
            .flatten()
            .flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.take(MOST_PROCESSES).collect()
    }

    /// Whether it is at its end.
    fn go_on(&mut self, search: &mut Search, now_ns: u64, slice: &mut Slice) -> bool {
        loop {
            if search.visit.is_none() {
                let Some(pid) = search.pids.pop_front() else {
                    return true;
                };
                search.visit =
                    Visit::begin(&self.proc_root, pid, search.sockets, search.namespaces);
            }
            if let Some(visit) = &mut search.visit {
                if !visit.go_on(slice) {
                    return false;
                }
                if let Some(visit) = search.visit.take() {
                    self.keep(visit.end(), search.number, now_ns);
                }
            }
            if !slice.goes_on() {
                return false;
            }
        }
    }

    fn keep(&mut self, seen: Seen, search: u64, now_ns: u64) {
        if let Some(pid) = seen.refused_by
            && self.refused.is_none()
        {
            self.refused = Some(format!(
                "sockets and network namespaces of some processes cannot be seen, such as those \
                 of process {pid}: it takes CAP_SYS_PTRACE"
            ));
        }
        let Some(process) = seen.process.map(Arc::new) else {
            return;
        };
        let found = || Found {
            process: process.clone(),
            at_ns: now_ns,
            search,
        };
        for socket in seen.sockets {
            self.wanted.remove(&socket);
            if self
                .sockets
                .peek(socket)
                .is_none_or(|known| known.search != search)
            {
                self.sockets.insert(socket, found());
            }
        }
        let namespace = seen.namespace.filter(|it| Some(*it) != self.own_namespace);
        if let Some(namespace) = namespace {
            let known = self.namespaces.peek(namespace);
            let is_better = known.is_none_or(|known| {
                known.search != search || (is_in_root(&known.process) && !is_in_root(&process))
            });
            if is_better {
                self.namespaces.insert(namespace, found());
            }
        }
    }

    /// What was not found of what was sought is not there: whoever asks again waits for the next
    /// search of all.
    fn end(&mut self, search: &Search, now_ns: u64) {
        self.from_ns = now_ns.saturating_add(PAUSE_NS);
        self.searches_of_all += 1;
        for socket in self.sought.drain() {
            if self.wanted.remove(&socket) {
                self.sockets.remove(socket);
            }
        }
        if search.namespaces {
            let is_gone = |found: &Found| found.search != search.number;
            let gone: Vec<u64> = (self.namespaces.iter())
                .filter(|(_, found)| is_gone(found))
                .map(|(namespace, _)| namespace)
                .collect();
            gone.into_iter()
                .for_each(|namespace| self.namespaces.remove(namespace));
        }
    }
}

fn is_old(at_ns: u64, now_ns: u64) -> bool {
    now_ns.saturating_sub(at_ns) >= BELIEVED_NS
}

fn is_in_root(process: &Process) -> bool {
    matches!(process.cgroup.as_slice(), b"" | b"/")
}

/// Inode of the network namespace that a process is in.
fn namespace_of(proc_root: &Path, pid: u32) -> Option<u64> {
    let link = fs::read_link(proc_root.join(format!("{pid}/ns/net"))).ok()?;
    inode(link.as_os_str().as_bytes(), "net")
}

#[cfg(test)]
mod tests;
