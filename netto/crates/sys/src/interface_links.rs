//! Attaches BPF programs to the packets of a network interface: XDP in the driver, and tcx.
//!
//! By links only: the kernel detaches them when the process ends, however it ends. Never generic XDP,
//! which copies packets and which a link without flags would choose silently.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use anyhow::{Context, bail};
use libbpf_rs::libbpf_sys::{
    BPF_TCX_EGRESS, BPF_TCX_INGRESS, BPF_XDP, bpf_attach_type, bpf_link_create,
    bpf_link_create_opts,
};
use nix::net::if_::if_nametoindex;

use crate::held_link::HeldLink;

/// XDP by the driver, not by the generic hook (include/uapi/linux/if_link.h).
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
/// Hardware types whose frames have an Ethernet header (include/uapi/linux/if_arp.h): Ethernet,
/// loopback.
const WITH_ETHERNET_HEADER: [u32; 2] = [1, 772];

/// Where in the way of packets a program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// XDP in the interface's driver.
    Xdp,
    /// The tcx hook of reception, since Linux 6.6.
    TcxIngress,
    /// The tcx hook of transmission, since Linux 6.6.
    TcxEgress,
}

impl Hook {
    fn attach_type(self) -> bpf_attach_type {
        match self {
            Hook::Xdp => BPF_XDP,
            Hook::TcxIngress => BPF_TCX_INGRESS,
            Hook::TcxEgress => BPF_TCX_EGRESS,
        }
    }
}

/// The index of an interface with Ethernet frames, in this process's network namespace.
///
/// # Errors
/// There is no such interface, or its frames have no Ethernet header.
pub fn ethernet_index(name: &str, sys_root: &Path) -> anyhow::Result<u32> {
    let index = if_nametoindex(name)
        .with_context(|| format!("there is no interface {name} here; `ip link` lists them"))?;
    // Sysfs may be of another network namespace; then the kernel's data decide.
    let path = sys_root.join("class/net").join(name).join("type");
    let kind = fs::read_to_string(path).ok();
    match kind.and_then(|text| text.trim().parse::<u32>().ok()) {
        Some(kind) if !WITH_ETHERNET_HEADER.contains(&kind) => bail!(
            "frames of {name} have no Ethernet header (hardware type {kind}), which the parser needs; \
             measure at the interface below it"
        ),
        _ => Ok(index),
    }
}

/// Attaches a loaded program to an interface.
///
/// # Errors
/// The kernel's refusal: `EBUSY` if another XDP program is there.
pub fn attach(program: impl AsFd, interface: u32, hook: Hook) -> io::Result<HeldLink> {
    let options = bpf_link_create_opts {
        sz: size_of::<bpf_link_create_opts>() as _,
        flags: match hook {
            Hook::Xdp => XDP_FLAGS_DRV_MODE,
            Hook::TcxIngress | Hook::TcxEgress => 0,
        },
        ..bpf_link_create_opts::default()
    };
    let program = program.as_fd().as_raw_fd();
    let interface = i32::try_from(interface).map_err(io::Error::other)?;
    // SAFETY: the options live until the call returns, and say their own size.
    let link =
        unsafe { bpf_link_create(program, interface, hook.attach_type(), &raw const options) };
    HeldLink::new(link)
}
