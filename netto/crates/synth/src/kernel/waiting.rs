//! Sleeping as exactly as the kernel can.

use std::time::Duration;

/// Lets this thread's sleeps end on time, instead of with others' up to 50 µs later.
pub fn wake_exactly() {
    // SAFETY: the call takes a number and touches no memory.
    // A kernel that refuses wakes a little later.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
}

/// Sleeps; a signal ends it early.
pub fn sleep_exactly(length: Duration) {
    let request = libc::timespec {
        tv_sec: length.as_secs() as libc::time_t,
        tv_nsec: length.subsec_nanos().into(),
    };
    // SAFETY: the request is valid for the call, and no remainder is asked for.
    unsafe { libc::nanosleep(&request, std::ptr::null_mut()) };
}
