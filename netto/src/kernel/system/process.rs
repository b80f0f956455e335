//! What this process itself has taken of the host.

use std::path::Path;
use std::sync::OnceLock;

use crate::kernel::kept::KeptFile;

/// CPU time of this process so far (user, system), nanoseconds.
pub fn own_cpu_ns() -> (u64, u64) {
    // SAFETY: rusage is plain old data, for which all zeroes are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid rusage to write to.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    (ns(usage.ru_utime), ns(usage.ru_stime))
}

/// Resident memory of this process, bytes; 0 only if `/proc` is not mounted.
pub fn own_resident_bytes() -> u64 {
    static STATM: OnceLock<Option<KeptFile>> = OnceLock::new();
    let kept = STATM.get_or_init(|| KeptFile::open(Path::new("/proc/self/statm")).ok());
    let text = kept.as_ref().and_then(|file| file.text().ok());
    let pages = text.and_then(|text| text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
    // SAFETY: sysconf has no preconditions.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages.unwrap_or(0) * u64::try_from(page_bytes).unwrap_or(4096)
}
