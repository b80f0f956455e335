//! Access to the kernel: libbpf, `/proc`, `/sys` and unsafe code are here, and in module `kernel`
//! of features for data that only they read. Knows no metrics.

pub mod alarm;
pub mod ata;
mod bpf_stats;
pub mod btf;
pub mod cgroups;
pub mod control;
pub mod cpu_records;
pub mod cpu_time;
pub mod descriptors;
pub mod ending;
pub mod files;
pub mod function_names;
pub mod held_link;
pub mod interface_links;
pub mod interrupts;
pub mod listener;
pub mod locks;
pub mod long_softirqs;
pub mod mapped;
pub mod memory;
pub mod missed;
pub mod netlink;
pub mod nvme;
pub mod offloads;
pub mod packet;
pub mod peer;
pub mod perf;
mod preemption;
pub mod preflight;
pub mod privileges;
pub mod programs;
pub mod reopenable;
pub mod room;
pub mod session;
pub mod skeleton;
pub mod sock_diag;
mod sockets;
pub mod stacks;
pub mod system;
pub mod tick;
pub mod timer_cost;

/// Layouts and constants shared with the BPF programs; see `build/abi.rs`. Some are used only by
/// the BPF side.
#[allow(dead_code)]
pub(crate) mod abi {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

/// Includes a skeleton made by the build script, in a module of its own.
#[macro_export]
macro_rules! skeleton {
    ($module:ident, $file:literal) => {
        #[allow(
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
        }
    };
}

skeleton!(names_skel, "/names.skel.rs");
skeleton!(netto_skel, "/netto.skel.rs");
skeleton!(preemption_skel, "/preemption.skel.rs");
skeleton!(socket_skel, "/socket.skel.rs");
skeleton!(tick_skel, "/tick.skel.rs");
