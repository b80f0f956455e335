//! Whether the BPF objects of netto fit a kernel, by its type information (BTF) alone: no root, no
//! kernel of that version. For tests; see `docs/KERNELS.md`.
//!
//! What the kernel's verifier says of a program cannot be known so: only a guest shows that.

pub mod btf;
pub mod fit;
pub mod minimal;
pub mod program;
mod spec;

/// The objects of all crates that have some: name and bytes.
pub const OBJECTS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/objects.rs"));

/// The functions that the programs at socket calls are attached to: these programs name none.
pub fn socket_functions() -> impl Iterator<Item = &'static str> {
    let functions = netto_analysis::plan::SOCKET_FUNCTIONS.iter();
    functions.map(|function| function.name)
}

/// Every object, read.
///
/// # Errors
/// One of them is damaged.
pub fn objects() -> anyhow::Result<Vec<program::Object>> {
    let objects = OBJECTS.iter();
    objects
        .map(|(name, bytes)| program::Object::read(name, bytes))
        .collect()
}
