//! What may have changed the kernel's symbols: modules and BPF programs that came or went.

use std::hash::{Hash, Hasher};

use super::Roots;
use crate::kernel::files::read;

/// Code that was loaded into the running kernel: what may have changed its symbols.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadedCode {
    newest_program: u32,
    modules: u64,
}

impl LoadedCode {
    /// Of this moment.
    pub fn now(roots: &Roots) -> Self {
        Self::since(&LoadedCode::default(), roots)
    }

    /// Of this moment, looking only at BPF programs newer than those of `earlier`.
    pub fn since(earlier: &LoadedCode, roots: &Roots) -> Self {
        let mut newest = earlier.newest_program;
        loop {
            let mut next = 0;
            // SAFETY: `next` is a valid word to write to. Without the privilege
            // to list programs the call fails, and none are seen to come.
            if unsafe { libbpf_rs::libbpf_sys::bpf_prog_get_next_id(newest, &raw mut next) } != 0
                || next <= newest
            {
                break;
            }
            newest = next;
        }
        let mut hasher = rustc_hash::FxHasher::default();
        read(&roots.proc_root.join("modules"))
            .unwrap_or_default()
            .hash(&mut hasher);
        LoadedCode {
            newest_program: newest,
            modules: hasher.finish(),
        }
    }
}
