//! A walk through all folders of a hierarchy of control groups, in as many pieces as it takes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use super::slice::Slice;

/// So many folders are looked into, and so many bytes of paths wait for it.
const MOST_FOLDERS: usize = 65_536;
const MOST_WAITING_BYTES: usize = 8 << 20;

/// Where a walk is.
#[derive(Debug)]
pub(super) struct Walk {
    /// Paths from the root of the hierarchy whose folders are still to be read.
    waiting: Vec<Vec<u8>>,
    waiting_bytes: usize,
    folders: usize,
}

impl Walk {
    /// At the root.
    pub(super) fn new() -> Self {
        Walk {
            waiting: vec![b"/".to_vec()],
            waiting_bytes: 1,
            folders: 0,
        }
    }

    /// Goes on while there is time, and hands over each group's number and path; whether it is
    /// at its end. A folder's inode is its group's number (`kernfs_ino`).
    pub(super) fn go_on(
        &mut self,
        mount: &Path,
        slice: &mut Slice,
        mut found: impl FnMut(u64, &[u8]),
    ) -> bool {
        while slice.goes_on() {
            let Some(path) = self.waiting.pop() else {
                return true;
            };
            self.waiting_bytes -= path.len();
            self.folders += 1;
            if self.folders > MOST_FOLDERS {
                return true;
            }
            // It may be gone by now.
            for entry in fs::read_dir(below(mount, &path))
                .into_iter()
                .flatten()
                .flatten()
            {
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                let mut inner = path.strip_suffix(b"/").unwrap_or(&path).to_vec();
                inner.push(b'/');
                inner.extend(entry.file_name().as_bytes());
                found(entry.ino(), &inner);
                if self.waiting_bytes + inner.len() <= MOST_WAITING_BYTES {
                    self.waiting_bytes += inner.len();
                    self.waiting.push(inner);
                }
            }
        }
        self.waiting.is_empty()
    }
}

/// The folder of a path from the root of a hierarchy.
pub(super) fn below(mount: &Path, path: &[u8]) -> PathBuf {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    mount.join(OsStr::from_bytes(path))
}
