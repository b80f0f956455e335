//! Asks an ATA drive for pages of its logs and for its SMART data, by the SCSI layer's ioctl for commands
//! that it passes on (SG_IO, ATA PASS-THROUGH). The kernel asks for CAP_SYS_RAWIO.
//!
//! A drive may take its time to answer: call this only on a thread that may wait.

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::files;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 512;
/// `SG_IO` (include/scsi/sg.h).
const PASS_ON: libc::Ioctl = 0x2285;
const FROM_DRIVE: i32 = -3;
/// `SG_INFO_OK_MASK`: whether anything went wrong.
const HAS_FAILED: u32 = 1;
const TIMEOUT_MS: u32 = 5_000;
const SENSE_BYTES: usize = 32;

/// ATA PASS-THROUGH (16): reads, one block of 512 bytes.
const PASS_THROUGH: u8 = 0x85;
const PIO_IN: u8 = 4 << 1;
/// The command has registers of 48 bits.
const EXTENDED: u8 = 1;
/// The count of sectors says how many blocks are read.
const READS_BLOCKS: u8 = 0x0e;
const READ_LOG: u8 = 0x2f;
const DEVICE_STATISTICS: u8 = 0x04;
const SMART: u8 = 0xb0;
const SMART_READ_DATA: u8 = 0xd0;
/// What must stand in two registers of each command of SMART.
const SMART_MID: u8 = 0x4f;
const SMART_HIGH: u8 = 0xc2;

/// `struct sg_io_hdr`.
#[repr(C)]
struct Request {
    interface: i32,
    direction: i32,
    command_bytes: u8,
    most_sense_bytes: u8,
    pieces: u16,
    data_bytes: u32,
    data: *mut u8,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    number: i32,
    own: *mut u8,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_bytes: u8,
    host_status: u16,
    driver_status: u16,
    missing_bytes: i32,
    took_ms: u32,
    info: u32,
}

/// A page of the device statistics of the drive at this device, such as `/dev/sda`.
///
/// # Errors
/// The operating system's, or that the drive refuses.
pub fn statistics(device: &Path, page: u8) -> io::Result<[u8; PAGE_BYTES]> {
    read(device, statistics_command(page))
}

/// The SMART data of the drive at this device.
///
/// # Errors
/// The operating system's, or that the drive refuses.
pub fn smart_data(device: &Path) -> io::Result<[u8; PAGE_BYTES]> {
    read(device, smart_command())
}

fn statistics_command(page: u8) -> [u8; 16] {
    let mut command = [0; 16];
    command[0] = PASS_THROUGH;
    command[1] = PIO_IN | EXTENDED;
    command[2] = READS_BLOCKS;
    command[6] = 1;
    command[8] = DEVICE_STATISTICS;
    command[10] = page;
    command[14] = READ_LOG;
    command
}

fn smart_command() -> [u8; 16] {
    let mut command = [0; 16];
    command[0] = PASS_THROUGH;
    command[1] = PIO_IN;
    command[2] = READS_BLOCKS;
    command[4] = SMART_READ_DATA;
    command[6] = 1;
    command[10] = SMART_MID;
    command[12] = SMART_HIGH;
    command[14] = SMART;
    command
}

fn read(device: &Path, command: [u8; 16]) -> io::Result<[u8; PAGE_BYTES]> {
    let file = files::open(device)?;
    let mut page = [0_u8; PAGE_BYTES];
    let mut sense = [0_u8; SENSE_BYTES];
    let mut request = Request {
        interface: i32::from(b'S'),
        direction: FROM_DRIVE,
        command_bytes: command.len() as u8,
        most_sense_bytes: SENSE_BYTES as u8,
        pieces: 0,
        data_bytes: PAGE_BYTES as u32,
        data: page.as_mut_ptr(),
        command: command.as_ptr(),
        sense: sense.as_mut_ptr(),
        timeout_ms: TIMEOUT_MS,
        flags: 0,
        number: 0,
        own: std::ptr::null_mut(),
        status: 0,
        masked_status: 0,
        message_status: 0,
        sense_bytes: 0,
        host_status: 0,
        driver_status: 0,
        missing_bytes: 0,
        took_ms: 0,
        info: 0,
    };
    // SAFETY: the kernel reads and writes the request, which is laid out as it expects, reads the command,
    // and writes at most as many bytes to the page and to what the drive says of a failure as the request
    // names; all of them live until the call returns. Another kind of device refuses the number.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), PASS_ON, &raw mut request) };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    let is_whole = request.missing_bytes == 0;
    if request.info & HAS_FAILED != 0 || request.status != 0 || !is_whole {
        return Err(io::Error::other(format!(
            "the drive refuses ({:#x}, {:#x}, {:#x})",
            request.status, request.host_status, request.driver_status
        )));
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_as_long_as_the_kernels_and_what_is_no_drive_refuses() {
        #[cfg(target_pointer_width = "64")]
        assert_eq!(size_of::<Request>(), 88);
        assert!(statistics(Path::new("/dev/null"), 7).is_err());
        assert!(smart_data(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn commands_are_those_of_the_standard() {
        // As smartmontools sends them (`smartctl -r ioctl,2`): READ LOG EXT, SMART READ DATA.
        let page = [
            0x85, 0x09, 0x0e, 0, 0, 0, 0x01, 0, 0x04, 0, 0x07, 0, 0, 0, 0x2f, 0,
        ];
        assert_eq!(statistics_command(7), page);
        let data = [
            0x85, 0x08, 0x0e, 0, 0xd0, 0, 0x01, 0, 0, 0, 0x4f, 0, 0xc2, 0, 0xb0, 0,
        ];
        assert_eq!(smart_command(), data);
    }
}
