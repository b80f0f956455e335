//! The wall around the kernel: libbpf, `/proc`, `/sys` and unsafe code are here, and in `kernel`
//! of an instrument for what it alone reads. Nothing here knows what a metric is called.

mod bpf_stats;
pub(crate) mod btf;
pub(crate) mod cgroups;
pub mod control;
pub mod cpu_time;
pub mod descriptors;
pub(crate) mod files;
pub mod interrupts;
pub mod kept;
pub mod locks;
pub(crate) mod mapped;
pub mod memory;
pub mod missed;
pub mod owners;
pub mod perf;
pub mod preflight;
pub mod room;
pub mod session;
mod sockets;
pub mod stacks;
pub mod system;
pub mod tick;
pub mod timer_cost;

/// What the BPF programs and this module agree on; see `build/abi.rs`. Some words
/// are the BPF side's own.
#[allow(dead_code)]
pub(crate) mod abi {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

/// Generated code: the skeletons of the BPF objects, each in a module of its own.
macro_rules! skeletons {
    ($($module:ident: $file:literal),* $(,)?) => {
        $(#[allow(
            missing_docs,
            clippy::all,
            clippy::pedantic,
            clippy::undocumented_unsafe_blocks,
            clippy::unwrap_used,
            clippy::expect_used,
            unused_qualifications
        )]
        pub(crate) mod $module {
            include!(concat!(env!("OUT_DIR"), $file));
        })*
    };
}

skeletons!(
    drops_skel: "/drops.skel.rs",
    latency_skel: "/latency.skel.rs",
    netto_skel: "/netto.skel.rs",
    socket_skel: "/socket.skel.rs",
    tick_skel: "/tick.skel.rs",
    owners_skel: "/owners.skel.rs",
    work_skel: "/work.skel.rs",
);
