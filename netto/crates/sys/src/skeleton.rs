//! Opening the embedded BPF objects by the skeletons that build scripts make of them. Knows none
//! of the objects.

use std::mem::MaybeUninit;

use anyhow::Context;
use libbpf_rs::skel::SkelBuilder;

/// Opens an object. Its skeleton borrows its storage, some bytes, which are leaked: a process opens
/// each object once, and a few times more if its administrator changes options.
///
/// # Errors
/// libbpf cannot read the object.
pub fn open<B: SkelBuilder<'static> + Default>() -> anyhow::Result<B::Output> {
    let storage = Box::leak(Box::new(MaybeUninit::uninit()));
    B::default()
        .open(storage)
        .context("cannot open the embedded BPF object")
}

/// The constants of an open object (`maps.rodata_data`).
///
/// # Errors
/// It has none.
pub fn constants<'a, T>(rodata: &'a mut Option<&'static mut T>) -> anyhow::Result<&'a mut T> {
    rodata
        .as_deref_mut()
        .context("the embedded BPF object has no configuration")
}
