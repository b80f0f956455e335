//! Translates names of interfaces, network namespaces and control groups to numbers, and back; and says of
//! what is not there.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use netto_sys::cgroups::{self, Handles};
use netto_sys::files;
use netto_sys::system::Roots;

/// Most control groups searched for a path.
const MOST_CGROUPS: usize = 20_000;
/// Folders of `ip netns`.
const NETNS: [&str; 2] = ["/run/netns", "/var/run/netns"];

/// The number of an interface of the host.
///
/// # Errors
/// If there is no such interface.
pub fn interface(roots: &Roots, name: &str) -> anyhow::Result<u64> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    if name.contains('/') {
        bail!("{name} is not an interface name");
    }
    let file = roots.sys_root.join("class/net").join(name).join("ifindex");
    files::read_number(&file).with_context(|| format!("there is no interface {name}"))
}

/// The name of the host's interface with this number; `None` if there is none.
pub fn name_of_interface(roots: &Roots, number: u32) -> Option<String> {
    let folder = fs::read_dir(roots.sys_root.join("class/net")).ok()?;
    let mut names = folder.filter_map(|entry| Some(entry.ok()?.path()));
    let found = names.find(|path| {
        files::read_number(&path.join("ifindex")).is_ok_and(|found| found == u64::from(number))
    })?;
    Some(found.file_name()?.to_string_lossy().into_owned())
}

/// The inode number of a network namespace.
///
/// # Errors
/// If there is no such namespace.
pub fn netns(name: &str) -> anyhow::Result<u64> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let paths: Vec<PathBuf> = if name.contains('/') {
        vec![PathBuf::from(name)]
    } else {
        NETNS
            .iter()
            .map(|folder| Path::new(folder).join(name))
            .collect()
    };
    let mut found = paths.iter().filter_map(|path| fs::metadata(path).ok());
    let found = found.next();
    Ok(found
        .with_context(|| format!("there is no network namespace {name}"))?
        .ino())
}

/// The inode number of the host's network namespace.
pub fn host_netns(roots: &Roots) -> Option<u64> {
    let path = roots.proc_root.join("1/ns/net");
    let of_this_process = || fs::metadata("/proc/self/ns/net");
    Some(
        fs::metadata(path)
            .or_else(|_| of_this_process())
            .ok()?
            .ino(),
    )
}

/// The mount point of control groups of version 2.
///
/// # Errors
/// If they are not mounted.
pub fn cgroup_mount(roots: &Roots) -> anyhow::Result<PathBuf> {
    cgroups::mount(roots)?.context("version 2 of control groups is not mounted")
}

/// The number of a control group, by its path below the mount.
///
/// # Errors
/// If there is no such group.
pub fn cgroup(roots: &Roots, path: &str) -> anyhow::Result<u64> {
    if let Ok(number) = path.parse() {
        return Ok(number);
    }
    let whole = cgroup_mount(roots)?.join(path.trim_start_matches('/'));
    let found =
        fs::metadata(&whole).with_context(|| format!("there is no control group {path}"))?;
    Ok(found.ino())
}

/// The number of a process.
///
/// # Errors
/// If there is no such process.
pub fn process(roots: &Roots, pid: u32) -> anyhow::Result<u64> {
    let folder = roots.proc_root.join(pid.to_string());
    fs::metadata(folder).with_context(|| format!("there is no process {pid}"))?;
    Ok(pid.into())
}

/// Paths of control groups by their numbers.
#[derive(Debug)]
pub struct CgroupPaths {
    mount: PathBuf,
    /// `None` if the kernel refuses handles: then all groups are searched.
    handles: Option<Handles>,
}

impl CgroupPaths {
    /// `None` if control groups are not mounted.
    pub fn new(roots: &Roots) -> Option<Self> {
        let mount = cgroup_mount(roots).ok()?;
        Some(CgroupPaths {
            handles: Handles::new(&mount),
            mount,
        })
    }

    /// The path of the group with this number, from the root of the hierarchy; `None` if it is gone.
    pub fn path(&self, number: u64) -> Option<String> {
        let Some(handles) = &self.handles else {
            return self.looked_for(number);
        };
        let path = handles.path(number, &self.mount)?;
        Some(String::from_utf8_lossy(&path).into_owned())
    }

    fn looked_for(&self, number: u64) -> Option<String> {
        let mut waiting = vec![self.mount.clone()];
        let mut seen = 0;
        while let Some(path) = waiting.pop() {
            seen += 1;
            if seen > MOST_CGROUPS {
                return None;
            }
            if fs::metadata(&path).is_ok_and(|group| group.ino() == number) {
                let below = path.strip_prefix(&self.mount).ok()?;
                return Some(format!("/{}", below.display()));
            }
            let folders = fs::read_dir(&path).into_iter().flatten().flatten();
            let folders = folders.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            waiting.extend(folders.map(|entry| entry.path()));
        }
        None
    }
}
