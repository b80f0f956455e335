//! BPF arrays mapped into this process, as words that the kernel writes concurrently.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use anyhow::{Context, ensure};
use memmap2::{MmapOptions, MmapRaw};
use nix::unistd::{SysconfVar, sysconf};

/// A mapped BPF array map. Elements are records of 64-bit words.
#[derive(Debug)]
pub struct MappedArray {
    memory: MmapRaw,
    element_words: usize,
    elements: usize,
}

impl MappedArray {
    /// Maps an array map of `elements` values of `value_bytes` each, which must
    /// be a multiple of eight.
    pub fn new(map: impl AsFd, value_bytes: usize, elements: usize) -> anyhow::Result<Self> {
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

    /// The words of one element; empty for an unknown element.
    pub fn element(&self, index: usize) -> &[AtomicU64] {
        let from = index.min(self.elements) * self.element_words;
        let to = (index + 1).min(self.elements) * self.element_words;
        &self.words()[from..to]
    }

    fn words(&self) -> &[AtomicU64] {
        words(&self.memory)
    }
}

/// The words of a mapping.
fn words(memory: &MmapRaw) -> &[AtomicU64] {
    let words = memory.len() / 8;
    // SAFETY: the mapping has at least `words` words, is page-aligned, and lives as
    // long as it is borrowed. The kernel writes to it concurrently, which is why the
    // words are atomics: any bit pattern is a valid one, and aligned 64-bit accesses
    // do not tear.
    unsafe { std::slice::from_raw_parts(memory.as_mut_ptr().cast::<AtomicU64>(), words) }
}

/// Size of a page, bytes; if unknown, that of the largest pages of any kernel.
pub(super) fn page_bytes() -> usize {
    let bytes = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    bytes.map_or(1 << 16, |bytes| bytes as usize)
}

/// A BPF array map of large elements, each mapped only as far as it was ever used. The kernel makes
/// every page of a mapping resident at once, so pages that are not needed stay unmapped.
#[derive(Debug)]
pub(super) struct MappedParts {
    map: OwnedFd,
    element_bytes: usize,
    parts: Vec<MmapRaw>,
}

impl MappedParts {
    /// Maps the first page of each of `elements` values of `value_bytes`, which must be a multiple
    /// of the page size.
    pub(super) fn new(
        map: OwnedFd,
        value_bytes: usize,
        elements: usize,
    ) -> anyhow::Result<MappedParts> {
        let page = page_bytes();
        ensure!(
            value_bytes > 0 && value_bytes.is_multiple_of(page),
            "an element that is mapped alone holds whole pages, not {value_bytes} bytes"
        );
        let mut mapped = MappedParts {
            map,
            element_bytes: value_bytes,
            parts: Vec::with_capacity(elements),
        };
        for index in 0..elements {
            mapped.parts.push(mapped.map(index, page)?);
        }
        Ok(mapped)
    }

    fn map(&self, index: usize, bytes: usize) -> anyhow::Result<MmapRaw> {
        MmapOptions::new()
            .offset((index * self.element_bytes) as u64)
            .len(bytes)
            .map_raw(self.map.as_raw_fd())
            .context("cannot map a part of a BPF array into memory")
    }

    /// The mapped words of one element: its first page, or more.
    pub(super) fn part(&self, index: usize) -> &[AtomicU64] {
        words(&self.parts[index])
    }

    /// Extends the mapping of one element to its word `end`, or to the whole element.
    ///
    /// # Errors
    /// The operating system's; the existing mapping stays.
    pub(super) fn reach(&mut self, index: usize, end: usize) -> anyhow::Result<()> {
        let bytes = (end * 8)
            .next_multiple_of(page_bytes())
            .min(self.element_bytes);
        if bytes > self.parts[index].len() {
            self.parts[index] = self.map(index, bytes)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn an_element_is_mapped_as_far_as_it_was_reached_and_no_further_than_its_end() {
        let page = page_bytes();
        // Two elements of two pages; a word on the second page of the second element.
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 * page as u64).unwrap();
        file.write_all_at(&7_u64.to_ne_bytes(), 3 * page as u64)
            .unwrap();
        let mut mapped = MappedParts::new(file.into(), 2 * page, 2).unwrap();
        let words = page / 8;
        mapped.reach(1, words).unwrap();
        assert_eq!(mapped.part(1).len(), words);
        mapped.reach(1, words + 1).unwrap();
        assert_eq!(mapped.part(1).len(), 2 * words);
        assert_eq!(mapped.part(1)[words].load(Relaxed), 7);
        assert_eq!(mapped.part(0).len(), words, "nobody reached further");
        mapped.reach(1, 9 * words).unwrap();
        assert_eq!(mapped.part(1).len(), 2 * words);
    }
}
