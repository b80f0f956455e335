//! What this process does with memory that it has freed.

/// Gives freed memory back to the host, which the allocator of the GNU C library
/// does by itself only at the end of its heap.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim has no preconditions and touches freed memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}
