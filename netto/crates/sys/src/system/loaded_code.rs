//! Detects changes of the kernel's symbols: loaded and unloaded modules and BPF programs.

use std::hash::{Hash, Hasher};

use super::Roots;
use crate::files::read;

/// The modules and BPF programs of the running kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadedCode {
    newest_program: u32,
    modules: u64,
}

impl LoadedCode {
    /// The current state.
    pub fn now(roots: &Roots) -> Self {
        LoadedCode::default()
            .with_new_programs()
            .with_modules(roots)
    }

    /// The same with BPF programs loaded since: usually a single system call.
    #[must_use]
    pub fn with_new_programs(&self) -> Self {
        let mut newest = self.newest_program;
        loop {
            let mut next = 0;
            // SAFETY: `next` is a valid word to write to. Without the privilege to list programs
            // the call fails, and no programs are seen.
            if unsafe { libbpf_rs::libbpf_sys::bpf_prog_get_next_id(newest, &raw mut next) } != 0
                || next <= newest
            {
                break;
            }
            newest = next;
        }
        LoadedCode {
            newest_program: newest,
            ..*self
        }
    }

    /// The same with the current modules. The kernel formats a line for each.
    #[must_use]
    pub fn with_modules(&self, roots: &Roots) -> Self {
        let mut hasher = rustc_hash::FxHasher::default();
        read(&roots.proc_root.join("modules"))
            .unwrap_or_default()
            .hash(&mut hasher);
        LoadedCode {
            modules: hasher.finish(),
            ..*self
        }
    }
}
