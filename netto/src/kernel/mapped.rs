//! BPF arrays mapped into this process, as words that the kernel writes meanwhile.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::AtomicU64;

use anyhow::{Context, ensure};
use memmap2::{MmapOptions, MmapRaw};

/// A mapped BPF array map. Elements are records of 64-bit words.
#[derive(Debug)]
pub(super) struct MappedArray {
    memory: MmapRaw,
    element_words: usize,
    elements: usize,
}

impl MappedArray {
    /// Maps an array map of `elements` values of `value_bytes` each, which must
    /// be a multiple of eight.
    pub(super) fn new(map: impl AsFd, value_bytes: usize, elements: usize) -> anyhow::Result<Self> {
        ensure!(
            value_bytes.is_multiple_of(8),
            "a mapped BPF array holds whole words, not {value_bytes} bytes"
        );
        let memory = MmapOptions::new()
            .len(value_bytes * elements)
            .map_raw(map.as_fd().as_raw_fd())
            .context("cannot map a BPF array into memory")?;
        Ok(MappedArray {
            memory,
            element_words: value_bytes / 8,
            elements,
        })
    }

    /// The words of one element; empty if there is no such element.
    pub(super) fn element(&self, index: usize) -> &[AtomicU64] {
        let from = index.min(self.elements) * self.element_words;
        let to = (index + 1).min(self.elements) * self.element_words;
        &self.words()[from..to]
    }

    fn words(&self) -> &[AtomicU64] {
        let words = self.element_words * self.elements;
        // SAFETY: the mapping is as long as `words` words (`new` asked for that
        // many bytes), page-aligned, and lives as long as `self`. The kernel
        // writes to it concurrently, which is why the words are atomics: any
        // bit pattern is a valid one, and aligned 64-bit accesses do not tear.
        unsafe { std::slice::from_raw_parts(self.memory.as_mut_ptr().cast::<AtomicU64>(), words) }
    }
}
