//! Asks an NVMe drive for its log page of SMART and health, by the ioctl for administrative commands.
//!
//! A drive may take its time to answer: call this only on a thread that may wait.

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::files;

/// Bytes of the log page.
const LOG_BYTES: usize = 512;
/// `NVME_IOCTL_ADMIN_CMD` (include/uapi/linux/nvme_ioctl.h): reads and writes 72 bytes, of type `N`.
const ADMIN_COMMAND: libc::Ioctl = 0xc048_4e41_u32 as libc::Ioctl;
const GET_LOG_PAGE: u8 = 0x02;
const SMART_AND_HEALTH: u32 = 0x02;
const OF_THE_DRIVE: u32 = u32::MAX;
const TIMEOUT_MS: u32 = 5_000;

/// `struct nvme_passthru_cmd`.
#[repr(C)]
#[derive(Default)]
struct Command {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    words_10_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

/// The log page of the drive at this character device, such as `/dev/nvme0`.
///
/// # Errors
/// The operating system's, or that the drive refuses.
pub fn smart_log(device: &Path) -> io::Result<[u8; LOG_BYTES]> {
    let file = files::open(device)?;
    let mut page = [0_u8; LOG_BYTES];
    let dwords = (LOG_BYTES / 4 - 1) as u32;
    let mut command = Command {
        opcode: GET_LOG_PAGE,
        namespace: OF_THE_DRIVE,
        address: page.as_mut_ptr() as u64,
        data_bytes: LOG_BYTES as u32,
        words_10_15: [SMART_AND_HEALTH | (dwords << 16), 0, 0, 0, 0, 0],
        timeout_ms: TIMEOUT_MS,
        ..Command::default()
    };
    // SAFETY: the kernel reads and writes the command, which is laid out as it expects, and writes at
    // most `data_bytes` to the page; both live until the call returns. Another kind of device refuses
    // the number of the request.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), ADMIN_COMMAND, &raw mut command) };
    match status {
        0 => Ok(page),
        _ if status < 0 => Err(io::Error::last_os_error()),
        // A status of NVMe.
        _ => Err(io::Error::other(format!("the drive refuses ({status:#x})"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_as_long_as_the_kernels_and_what_is_no_drive_refuses() {
        assert_eq!(size_of::<Command>(), 72);
        assert!(smart_log(Path::new("/dev/null")).is_err());
        assert!(smart_log(Path::new("/nowhere")).is_err());
    }
}
