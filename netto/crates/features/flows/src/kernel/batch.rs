//! Takes all entries out of a table of the programs, many by one call of the kernel.
//!
//! libbpf-rs has the same as an iterator, which takes a batch that is not full for the last one. The
//! kernel fills no batch with a part of a bucket: most are not full.

use std::io;
use std::os::fd::AsRawFd as _;
use std::ptr::null;

use anyhow::{Context, bail};
use libbpf_rs::MapCore;
use libbpf_rs::libbpf_sys::bpf_map_lookup_and_delete_batch;

/// Entries that are taken by one call; no bucket has as many.
const BATCH: usize = 4096;

/// Calls `each` with the key and the value of each entry, and leaves the table empty.
///
/// # Errors
/// The kernel's refusal, or that of `each`.
pub(crate) fn take_all(
    table: &dyn MapCore,
    mut each: impl FnMut(&[u8], &[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let [key, value] = [table.key_size(), table.value_size()].map(|size| size as usize);
    let mut keys = vec![0_u8; BATCH * key];
    let mut values = vec![0_u8; BATCH * value];
    let (mut position, mut is_first) = (0_u64, true);
    loop {
        let mut count = BATCH as u32;
        let from = if is_first {
            null()
        } else {
            &raw const position
        };
        // SAFETY: the kernel writes `count` keys and values at most, for which there is room, and
        // reads and writes four bytes of `position`, the number of a bucket; no options is allowed.
        let result = unsafe {
            bpf_map_lookup_and_delete_batch(
                table.as_fd().as_raw_fd(),
                from.cast_mut().cast(),
                (&raw mut position).cast(),
                keys.as_mut_ptr().cast(),
                values.as_mut_ptr().cast(),
                &raw mut count,
                null(),
            )
        };
        let error = io::Error::from_raw_os_error(result.saturating_neg());
        let is_last = match error.kind() {
            _ if result >= 0 => false,
            io::ErrorKind::NotFound => true,
            _ => return Err(error).context("cannot read a table of flows"),
        };
        let count = count as usize;
        if count > BATCH || (count == 0 && !is_last) {
            bail!("the kernel says {count} flows of {BATCH}");
        }
        let entries = keys.chunks(key).zip(values.chunks(value));
        for (key, value) in entries.take(count) {
            each(key, value)?;
        }
        if is_last {
            return Ok(());
        }
        is_first = false;
    }
}
