//! Settings of the allocator, and the return of freed memory to the system.

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

/// Returns freed memory to the system. The allocator of the GNU C library does so by itself only at
/// the end of its heap.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim has no preconditions and touches freed memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}
