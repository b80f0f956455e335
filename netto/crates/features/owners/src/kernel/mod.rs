//! The probes that meet sockets; where names of owners are read: the file systems of the kernel and
//! of the kubelet, and netlink. What reads names may wait: it is done by the thread of `search.rs`.

pub mod cgroups;
pub mod events;
pub mod links;
mod pace;
pub mod pods;
pub mod processes;
pub mod search;
