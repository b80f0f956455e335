//! What the kernel tells of programs.

use netto_sys::programs::{self, LoadedProgram};

pub(crate) mod runs;
pub(crate) mod search;

/// Whether a program is one of this process.
pub(crate) fn is_own(program: &LoadedProgram) -> bool {
    program.name.starts_with("netto_") && programs::own().contains(&program.id)
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
