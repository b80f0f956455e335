//! The probes that meet sockets, and the sources of owners' names: the file systems of the kernel
//! and of the kubelet, and netlink. Reading names may block, and is done by the thread of
//! `search.rs`.

pub mod cgroups;
pub mod events;
pub mod links;
mod pace;
pub mod pods;
pub mod processes;
pub mod search;
