//! What the kernel tells of programs.

use std::collections::BTreeSet;

use netto_sys::programs::{self, LoadedProgram};

pub(crate) mod runs;
pub(crate) mod search;

/// The programs that this process held when they were last read, which takes a file for each of its descriptors.
#[derive(Debug, Default)]
pub(crate) struct NettoPrograms(BTreeSet<u32>);

impl NettoPrograms {
    /// Whether a program is one of this process; they are read again for one that may have been loaded since.
    pub(crate) fn has(&mut self, program: &LoadedProgram) -> bool {
        if program.name.starts_with("netto_") && !self.0.contains(&program.id) {
            self.0 = programs::own();
        }
        self.0.contains(&program.id)
    }
}

/// Why no place is known of a program of this type.
pub(crate) fn why_unattached(kind: &str) -> &'static str {
    match kind {
        "socket_filter" | "sk_reuseport" => "at a socket; the kernel does not tell which",
        "xdp" | "sched_cls" | "sched_act" => {
            "at no interface of the host's network namespace that the kernel names"
        }
        kind if kind.starts_with("cgroup") || kind == "sock_ops" => {
            "at none of the control groups that were asked; or not attached now"
        }
        _ => "without a link, of which the kernel does not tell where; or not attached now",
    }
}
