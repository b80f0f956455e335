//! Parses the path of a control group: container, pod, unit.
//!
//! There is no standard for the names of control groups: each runtime has its convention, which all
//! tools of this kind know. The innermost container counts, since containers may be nested.

use super::pods;
use netto_analysis::escapes::{self, shown};

/// Hexadecimal digits of a container's identity.
const ID_DIGITS: usize = 64;

/// Prefixes of a container's scope or folder, before its identity, with the runtime. Podman counts
/// the container's monitor as the container's; cri-o's is the pod's.
const PREFIXES: &[(&str, &str)] = &[
    ("docker-", "docker"),
    ("cri-containerd-", "containerd"),
    ("nerdctl-", "containerd"),
    ("crio-", "cri-o"),
    ("libpod-conmon-", "podman"),
    ("libpod-", "podman"),
];

/// Suffixes of systemd's units.
const UNITS: &[&str] = &[".service", ".scope", ".socket", ".mount", ".swap"];

/// The result for a path; unknown parts are empty. All parts are escaped by [`shown`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Identity or name of the innermost container.
    pub container: String,
    /// The runtime; empty where only the identity is known.
    pub runtime: &'static str,
    /// Identity of the innermost Kubernetes pod, as the API server has it (`-`, not `_`).
    pub pod_uid: String,
    /// The innermost unit of systemd's that is not a slice, else the innermost slice.
    pub unit: String,
}

/// Parses the path of a control group, from the root of its hierarchy.
pub fn names(path: &[u8]) -> Names {
    let mut names = Names::default();
    let (mut is_kubernetes, mut has_unit) = (false, false);
    let mut above: &[u8] = b"";
    let mut parts = path
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty())
        .peekable();
    while let Some(part) = parts.next() {
        // systemd puts this before a name that might be a file of the kernel's.
        let part = part.strip_prefix(b"_").unwrap_or(part);
        is_kubernetes |= contains(part, b"kubepods");
        if is_kubernetes && let Some(uid) = pod_uid(part) {
            names.pod_uid = uid;
        }
        let is_last = parts.peek().is_none();
        if let Some((container, runtime)) = container(part, above, is_last, is_kubernetes) {
            names.container = shown(&container);
            names.runtime = runtime;
        }
        if UNITS.iter().any(|ending| is_named(part, ending)) {
            names.unit = shown(part);
            has_unit = true;
        } else if !has_unit && is_named(part, ".slice") {
            names.unit = shown(part);
        }
        above = part;
    }
    names
}

/// A container that this part of a path names, below another part.
fn container(
    part: &[u8],
    above: &[u8],
    is_last: bool,
    is_kubernetes: bool,
) -> Option<(Vec<u8>, &'static str)> {
    let bare = part.strip_suffix(b".scope").unwrap_or(part);
    for (prefix, runtime) in PREFIXES {
        if let Some(id) = bare.strip_prefix(prefix.as_bytes()).filter(|id| is_id(id)) {
            return Some((id.to_vec(), runtime));
        }
    }
    if is_id(part) {
        return match above {
            b"docker" => Some((part.to_vec(), "docker")),
            _ if is_kubernetes => Some((part.to_vec(), "containerd")),
            _ => is_last.then(|| (part.to_vec(), "")),
        };
    }
    if let Some(name) = part
        .strip_prefix(b"lxc.payload.")
        .filter(|name| !name.is_empty())
    {
        return Some((name.to_vec(), "lxc"));
    }
    if matches!(above, b"lxc" | b"lxc.payload") {
        return Some((part.to_vec(), "lxc"));
    }
    let nspawn = part
        .strip_prefix(b"systemd-nspawn@")
        .and_then(|name| name.strip_suffix(b".service"));
    if let Some(name) = nspawn.filter(|name| !name.is_empty()) {
        return Some((unescaped(name), "systemd-nspawn"));
    }
    let machine = part
        .strip_prefix(b"machine-")
        .and_then(|name| name.strip_suffix(b".scope"));
    let name = unescaped(machine.filter(|name| !name.is_empty())?);
    // libvirt registers its virtual machines with systemd, too.
    let is_guest = [&b"qemu-"[..], b"lxc-"]
        .iter()
        .any(|driver| name.starts_with(driver));
    Some((
        name,
        if is_guest {
            "libvirt"
        } else {
            "systemd-nspawn"
        },
    ))
}

/// The pod that `kubepods-burstable-pod….slice` or `pod…` names. A slice has `_` for each `-` of
/// the identity, since `-` separates slices there.
fn pod_uid(part: &[u8]) -> Option<String> {
    let part = std::str::from_utf8(part).ok()?;
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let uid = match part.strip_prefix("pod") {
        Some(uid) => uid,
        None => part.rsplit_once("-pod")?.1,
    };
    let uid = uid.replace('_', "-");
    pods::is_uid(&uid).then_some(uid)
}

fn is_id(part: &[u8]) -> bool {
    part.len() == ID_DIGITS && part.iter().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether it is a name with this ending, and not the ending alone.
fn is_named(part: &[u8], ending: &str) -> bool {
    part.len() > ending.len() && part.ends_with(ending.as_bytes())
}

fn contains(part: &[u8], word: &[u8]) -> bool {
    part.windows(word.len()).any(|window| window == word)
}

/// Decodes systemd's escapes (`\x2d`).
fn unescaped(name: &[u8]) -> Vec<u8> {
    escapes::unescaped(name, b"\\x", 2, 16)
}

#[cfg(test)]
mod tests;
