//! The mount point of control groups, and the folder of one by its number: the kernel accepts the
//! number as a file handle (`kernfs_fh_to_dentry`, since 5.5); systemd's `cg_path_from_cgroupid`
//! does the same.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::files::read_bytes;
use super::system::Roots;
use netto_analysis::mounts::{self, cgroup2_mount};

const MOST_MOUNTS_BYTES: u64 = 16 << 20;
/// `FILEID_KERNFS` of the kernel's `exportfs.h`.
const FILEID_KERNFS: i32 = 0xfe;
/// Appended by the kernel to the path of a removed folder.
const REMOVED: &[u8] = b" (deleted)";

/// The mount point of control groups of version 2; `None` if they are not mounted.
///
/// # Errors
/// If the list of mounts cannot be read.
pub fn mount(roots: &Roots) -> anyhow::Result<Option<PathBuf>> {
    found(roots, cgroup2_mount)
}

/// The mount point of the cpusets of version 1; `None` if they are not mounted.
///
/// # Errors
/// If the list of mounts cannot be read.
pub fn cpuset_mount(roots: &Roots) -> anyhow::Result<Option<PathBuf>> {
    found(roots, mounts::cpuset_mount)
}

fn found(
    roots: &Roots,
    find: fn(&[u8], &[u8]) -> Option<Vec<u8>>,
) -> anyhow::Result<Option<PathBuf>> {
    let text = read_bytes(&roots.proc_root.join("self/mountinfo"), MOST_MOUNTS_BYTES)?;
    let mount = find(&text, roots.sys_root.as_os_str().as_bytes());
    Ok(mount.map(|path| PathBuf::from(OsString::from_vec(path))))
}

/// `struct file_handle` with its data.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    id: u64,
}

/// Finds folders of groups below a mount.
#[derive(Debug)]
pub struct Handles {
    mount: File,
}

impl Handles {
    /// `None` if the kernel refuses: it needs CAP_DAC_READ_SEARCH, and a hierarchy of groups.
    pub fn new(mount: &Path) -> Option<Self> {
        let handles = Handles {
            mount: File::open(mount).ok()?,
        };
        let root = fs::metadata(mount).ok()?.ino();
        let found = handles.path(root, mount)?;
        (found == b"/").then_some(handles)
    }

    /// Path of a group from the root of the mounted hierarchy; `None` if it is gone.
    pub fn path(&self, id: u64, mount: &Path) -> Option<Vec<u8>> {
        let folder = self.open(id)?;
        // The link of our own descriptor; another process's `/proc` does not have it.
        let link = fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd())).ok()?;
        let path = link.as_os_str().as_bytes();
        let path = path.strip_prefix(mount.as_os_str().as_bytes())?;
        match path {
            b"" => Some(b"/".to_vec()),
            path if !path.starts_with(b"/") => None,
            path => Some(path.strip_suffix(REMOVED).unwrap_or(path).to_vec()),
        }
    }

    fn open(&self, id: u64) -> Option<OwnedFd> {
        let mut handle = Handle {
            bytes: size_of::<u64>() as u32,
            kind: FILEID_KERNFS,
            id,
        };
        // SAFETY: the kernel reads `bytes` bytes behind the structure's head, which are those of
        // `id`, and writes nothing; the mount's descriptor is open.
        let descriptor = unsafe {
            libc::open_by_handle_at(
                self.mount.as_raw_fd(),
                (&raw mut handle).cast::<libc::file_handle>(),
                libc::O_PATH | libc::O_CLOEXEC,
            )
        };
        // SAFETY: the call has just opened it, and nothing else owns it.
        (descriptor >= 0).then(|| unsafe { OwnedFd::from_raw_fd(descriptor) })
    }
}
