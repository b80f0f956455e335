//! The BPF programs for hooks that several features want: one for each combination of them. The list
//! is in `build.rs`; features and lower layers do not know it.

use netto_sys::session::{CombinedObject, CombinedProgram};

/// The programs, for `ProbeController::share_hooks`.
pub static SHARED_HOOKS: CombinedObject = CombinedObject {
    bytes: include_bytes!(concat!(env!("OUT_DIR"), "/hooks.bpf.o")),
    programs: include!(concat!(env!("OUT_DIR"), "/hooks.rs")),
};
