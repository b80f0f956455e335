//! Settings of the allocator, and the return of memory to the system: what was freed, and the code
//! that only the start needs.

use super::mapped::page_bytes;

/// Number of the allocator's heaps; the default is one for each thread.
#[cfg(target_env = "gnu")]
const HEAPS: libc::c_int = 2;
/// Allocations of this size are mapped separately, and returned when freed. By default, the
/// allocator of the GNU C library raises this threshold to the size of freed allocations; symbols
/// and type information take megabytes.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES: libc::c_int = 128 << 10;

/// Makes the allocator keep little freed memory. To be called before any thread is started.
pub fn keep_little() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes numbers and has no preconditions while there is one thread.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, HEAPS);
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
    }
}

/// Returns freed memory to the system, which the allocator of the GNU C library does by itself only
/// at the end of its heap, and the pages of program and libraries, of which a start has used most: what
/// is used again is mapped again from the page cache.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim has no preconditions and touches freed memory only.
    unsafe {
        libc::malloc_trim(0);
    }
    // SAFETY: `unmap` keeps to the contract of such a callback, and no data go with it.
    unsafe {
        libc::dl_iterate_phdr(Some(unmap), std::ptr::null_mut());
    }
}

/// Unmaps the pages of those segments of an object that are never written.
unsafe extern "C" fn unmap(
    object: *mut libc::dl_phdr_info,
    _: libc::size_t,
    _: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the loader passes an object that stays loaded during the call, with that many headers.
    let (base, headers) = unsafe {
        let object = &*object;
        let headers = std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into());
        (object.dlpi_addr, headers)
    };
    let page = page_bytes() as u64;
    for header in headers.iter().filter(|header| is_from_file(header)) {
        // The first page may belong to the segment before, the last to the one after.
        let begin = (base + header.p_vaddr).next_multiple_of(page);
        let end = (base + header.p_vaddr + header.p_filesz) / page * page;
        if begin < end {
            // SAFETY: these pages are mapped privately and were never written: linkers refuse
            // relocations in a segment that is not writable. So they equal the file, which the
            // kernel reads again at the next access.
            unsafe {
                libc::madvise(
                    begin as *mut libc::c_void,
                    (end - begin) as libc::size_t,
                    libc::MADV_DONTNEED,
                );
            }
        }
    }
    0
}

/// Whether a segment's memory always equals its file. What is relocated is in a segment that the
/// loader writes to, also where it is made read-only afterwards.
fn is_from_file(header: &libc::Elf64_Phdr) -> bool {
    header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    static CHANGED: AtomicU64 = AtomicU64::new(1);
    /// Has addresses, which the loader relocates.
    static TEXTS: [&str; 2] = ["one", "two"];

    #[test]
    fn memory_is_the_same_after_pages_were_given_back() {
        let constants = include_bytes!("memory.rs");
        let sum = || constants.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        let before = sum();
        CHANGED.store(7, Relaxed);
        give_back();
        assert_eq!(sum(), before);
        assert_eq!(CHANGED.load(Relaxed), 7);
        assert_eq!(TEXTS.map(str::len), [3, 3]);
    }

    #[test]
    fn only_segments_that_are_never_written_are_from_a_file() {
        let is_of_file = |p_type, p_flags| {
            is_from_file(&libc::Elf64_Phdr {
                p_type,
                p_flags,
                ..empty()
            })
        };
        assert!(
            is_of_file(libc::PT_LOAD, libc::PF_R)
                && is_of_file(libc::PT_LOAD, libc::PF_R | libc::PF_X)
        );
        assert!(!is_of_file(libc::PT_LOAD, libc::PF_R | libc::PF_W));
        assert!(!is_of_file(libc::PT_GNU_RELRO, libc::PF_R));
    }

    fn empty() -> libc::Elf64_Phdr {
        libc::Elf64_Phdr {
            p_type: libc::PT_NULL,
            p_flags: 0,
            p_offset: 0,
            p_vaddr: 0,
            p_paddr: 0,
            p_filesz: 0,
            p_memsz: 0,
            p_align: 0,
        }
    }
}
