//! A link by which a BPF program is attached, and whether the program is still where it was put: others
//! may detach or replace it (`bpftool link detach`, `BPF_LINK_UPDATE`). Dropping it detaches the program.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys::{bpf_link_get_info_by_fd, bpf_link_info};

/// See the head of this file.
#[derive(Debug)]
pub struct HeldLink {
    link: OwnedFd,
    place: Option<AttachPoint>,
}

/// Where the kernel says that a link's program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AttachPoint {
    program: u32,
    /// Of the control group its number, of an interface its index, with what else the kernel says in
    /// these eight bytes; 0 once the program is detached.
    at: u64,
}

impl HeldLink {
    /// The link whose descriptor, or error, a function of libbpf has just returned.
    ///
    /// # Errors
    /// That error.
    pub(crate) fn new(returned: i32) -> io::Result<HeldLink> {
        let link = owned(returned)?;
        let place = place(&link);
        Ok(HeldLink { link, place })
    }

    /// Whether the program is where it was attached, as far as the kernel says.
    pub fn is_in_place(&self) -> bool {
        let now = place(&self.link);
        now.is_none() || self.place.is_none() || now == self.place
    }
}

/// The descriptor that a function of libbpf has just returned, or the error that it encodes.
pub(crate) fn owned(returned: i32) -> io::Result<OwnedFd> {
    if returned < 0 {
        return Err(io::Error::from_raw_os_error(-returned));
    }
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(returned) })
}

fn place(link: &OwnedFd) -> Option<AttachPoint> {
    let mut info = bpf_link_info::default();
    let mut bytes = size_of::<bpf_link_info>() as u32;
    // SAFETY: the kernel writes at most `bytes` into `info`, and both live until it returns.
    let outcome =
        unsafe { bpf_link_get_info_by_fd(link.as_raw_fd(), &raw mut info, &raw mut bytes) };
    // SAFETY: all bytes were 0 before the kernel wrote some, and each pattern is a number.
    let at = unsafe { info.__bindgen_anon_1.cgroup.cgroup_id };
    let program = info.prog_id;
    (outcome == 0).then_some(AttachPoint { program, at })
}
