//! One process of `/proc`: its sockets, its network namespace, and who it is.

use std::fs::{self, File, ReadDir};
use std::io::{Error, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::slice::Slice;
use crate::analysis::process::{cgroup, inode, stat};
use netto_sys::files::read_bytes;
use netto_sys::system::tick_ns;

use super::processes::Process;

/// So many sockets of one process are kept.
const MOST_SOCKETS: usize = 65_536;
/// No file that says who a process is, is longer.
const MOST_BYTES: u64 = 64 << 10;

/// A process that is being looked at. Its folder is open meanwhile, so that another one that gets
/// its number is never taken for it.
#[derive(Debug)]
pub(super) struct Visit {
    pid: u32,
    _folder: File,
    path: PathBuf,
    descriptors: Option<ReadDir>,
    seen: Seen,
}

/// What was seen of a process.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Who it is; `None` if nothing else was seen, or it has ended.
    pub(super) process: Option<Process>,
    /// Inodes of its sockets.
    pub(super) sockets: Vec<u64>,
    /// Inode of its network namespace.
    pub(super) namespace: Option<u64>,
    /// Its number, if the kernel would not show its sockets or its namespace.
    pub(super) refused_by: Option<u32>,
}

impl Visit {
    /// Begins with a process; `None` if there is none of this number.
    pub(super) fn begin(
        proc_root: &Path,
        pid: u32,
        sockets: bool,
        namespace: bool,
    ) -> Option<Self> {
        let folder = File::options()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_PATH)
            .open(proc_root.join(pid.to_string()))
            .ok()?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        let mut visit = Visit {
            pid,
            _folder: folder,
            path,
            descriptors: None,
            seen: Seen::default(),
        };
        if namespace {
            match fs::read_link(visit.path.join("ns/net")) {
                Ok(link) => visit.seen.namespace = inode(link.as_os_str().as_bytes(), "net"),
                Err(error) => visit.failed(&error),
            }
        }
        if sockets {
            match fs::read_dir(visit.path.join("fd")) {
                Ok(descriptors) => visit.descriptors = Some(descriptors),
                Err(error) => visit.failed(&error),
            }
        }
        Some(visit)
    }

    /// Looks at its descriptors while there is time; whether all were looked at.
    pub(super) fn go_on(&mut self, slice: &mut Slice) -> bool {
        while let Some(entry) = self.descriptors.as_mut().and_then(Iterator::next) {
            let link = entry.and_then(|entry| fs::read_link(entry.path()));
            match link {
                Ok(link) => self
                    .seen
                    .sockets
                    .extend(inode(link.as_os_str().as_bytes(), "socket")),
                Err(error) => self.failed(&error),
            }
            if self.seen.sockets.len() >= MOST_SOCKETS {
                break;
            }
            if !slice.goes_on() {
                return false;
            }
        }
        self.descriptors = None;
        true
    }

    /// What was seen; who it is, is read only if anything was.
    pub(super) fn end(mut self) -> Seen {
        if !self.seen.sockets.is_empty() || self.seen.namespace.is_some() {
            self.seen.process = self.process();
        }
        self.seen
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
        if error.kind() == ErrorKind::PermissionDenied {
            self.seen.refused_by = Some(self.pid);
        }
    }
}
