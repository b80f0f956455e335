//! CPU time and memory of this process.

use std::path::Path;
use std::sync::OnceLock;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::unistd::{SysconfVar, sysconf};

use crate::reopenable::ReopenableFile;

/// CPU time of this process so far (user, system), nanoseconds.
pub fn own_cpu_ns() -> (u64, u64) {
    // Cannot fail for the process itself.
    getrusage(UsageWho::RUSAGE_SELF).map_or((0, 0), |usage| {
        let ns = |time: TimeVal| time.num_nanoseconds() as u64;
        (ns(usage.user_time()), ns(usage.system_time()))
    })
}

/// Resident memory of this process, bytes; 0 only if `/proc` is not mounted.
pub fn own_resident_bytes() -> u64 {
    static STATM: OnceLock<Option<ReopenableFile>> = OnceLock::new();
    let kept = STATM.get_or_init(|| ReopenableFile::open(Path::new("/proc/self/statm")).ok());
    let text = kept.as_ref().and_then(|file| file.text().ok());
    let pages = text.and_then(|text| text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
    let page_bytes = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    let page_bytes = page_bytes.and_then(|bytes| u64::try_from(bytes).ok());
    pages.unwrap_or(0) * page_bytes.unwrap_or(4096)
}
