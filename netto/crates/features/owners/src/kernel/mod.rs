//! The probes that meet sockets; where names of owners are read: the file systems of the kernel and
//! of the kubelet, and netlink.

pub mod cgroups;
pub mod events;
pub mod links;
pub mod pods;
pub mod processes;
pub mod slice;
mod visit;
mod walk;
