//! What this process does with memory that it has freed.

/// Number of the allocator's heaps; by default there is one for each thread.
#[cfg(target_env = "gnu")]
const HEAPS: libc::c_int = 2;
/// What is as large is mapped on its own, and given back when it is freed. Unless it is told, the
/// allocator of the GNU C library raises this to what was once freed: symbols and type information
/// have megabytes.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES: libc::c_int = 128 << 10;

/// Has the allocator keep little of what is freed. To be called before any thread is started.
pub fn keep_little() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes numbers and has no preconditions while there is one thread.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, HEAPS);
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
    }
}

/// Gives freed memory back to the host, which the allocator of the GNU C library
/// does by itself only at the end of its heap.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim has no preconditions and touches freed memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}
