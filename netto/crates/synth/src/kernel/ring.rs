//! Sending by a ring of frames in memory that the kernel shares (`PACKET_TX_RING`, version 2).
//!
//! Each slot has a status: available to this process, or requested to be sent, from which the kernel
//! makes it available again. In front of a frame is a virtio header, only to say how much of the frame
//! the kernel shall copy: headers that it referred to instead would change in the packet when the slot
//! is written again, while the packet is still in a queue of the receiver's. Of the zeros behind them
//! that is no harm.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context as _;
use memmap2::{MmapOptions, MmapRaw};

use super::helper::Helper;
use super::socket::{bind, is_full, send_ring, set};
use crate::packet::HEADROOM;

/// Memory of the ring, and of each piece of it that the kernel allocates.
const RING_BYTES: usize = 8 << 20;
const BLOCK_BYTES: usize = 256 << 10;
const LEAST_SLOT_BYTES: usize = 2048;
/// Where the data of a slot begins: where the kernel would put the address of the sender.
const DATA: usize = libc::TPACKET2_HDRLEN - size_of::<libc::sockaddr_ll>();
/// The virtio header: flags, kind, the header's length, and three numbers that do not matter here.
const VIRTIO_BYTES: usize = 10;
const HEADER_LENGTH: usize = 2;

/// So many frames are worth another thread's time.
const MANY: usize = 32;

/// A ring of slots.
pub struct Ring {
    fd: Arc<OwnedFd>,
    /// Calls the kernel when there is much to send.
    helper: Option<Helper>,
    memory: MmapRaw,
    slot_bytes: usize,
    slots: usize,
    /// The slot that is written next, and how many before it were not yet seen to be sent.
    next: usize,
    waiting: usize,
}

impl Ring {
    /// A ring of frames of at most so many bytes, to an interface.
    ///
    /// # Errors
    /// The kernel has none, or no memory for it.
    pub fn new(fd: OwnedFd, interface: i32, frame_bytes: usize) -> anyhow::Result<Self> {
        let slot_bytes = (DATA + VIRTIO_BYTES + frame_bytes.max(HEADROOM))
            .next_power_of_two()
            .max(LEAST_SLOT_BYTES);
        let block_bytes = BLOCK_BYTES.max(slot_bytes);
        let blocks = RING_BYTES / block_bytes;
        let slots = RING_BYTES / slot_bytes;
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        set(&fd, libc::SOL_PACKET, libc::PACKET_VERSION, &version)
            .context("PACKET_VERSION is refused")?;
        set(&fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)
            .context("PACKET_VNET_HDR is refused")?;
        let request = libc::tpacket_req {
            tp_block_size: block_bytes as libc::c_uint,
            tp_block_nr: blocks as libc::c_uint,
            tp_frame_size: slot_bytes as libc::c_uint,
            tp_frame_nr: slots as libc::c_uint,
        };
        set(&fd, libc::SOL_PACKET, libc::PACKET_TX_RING, &request)
            .context("PACKET_TX_RING is refused")?;
        let memory = MmapOptions::new()
            .len(RING_BYTES)
            .map_raw(fd.as_raw_fd())
            .context("cannot map the ring")?;
        bind(&fd, interface).context("cannot bind to the interface")?;
        let fd = Arc::new(fd);
        Ok(Ring {
            helper: Helper::new(fd.clone()),
            fd,
            memory,
            slot_bytes,
            slots,
            next: 0,
            waiting: 0,
        })
    }

    /// Whether another thread calls the kernel.
    pub fn is_helped(&self) -> bool {
        self.helper.is_some()
    }

    /// Lets no other thread call the kernel any more.
    pub fn end_help(&mut self) {
        self.helper = None;
    }

    fn status(&self, slot: usize) -> &AtomicU32 {
        let at = slot % self.slots * self.slot_bytes;
        // SAFETY: the slot is in the mapping, which lives as long as it is borrowed. A slot begins
        // with the 32-bit status, at a multiple of its size, which is a power of two. The kernel
        // changes it concurrently, and so it is an atomic.
        unsafe { &*self.memory.as_mut_ptr().add(at).cast::<AtomicU32>() }
    }

    pub fn put(&mut self, write: impl FnOnce(&mut [u8]) -> usize) -> bool {
        let available = libc::TP_STATUS_AVAILABLE;
        if self.waiting == self.slots || self.status(self.next).load(Ordering::Acquire) != available
        {
            return false;
        }
        let at = self.next * self.slot_bytes;
        let room = self.slot_bytes - DATA;
        // SAFETY: the slot is in the mapping, and its data ends with it. The status says that the
        // slot is this process's, and the kernel neither writes the data of a slot nor reads that of
        // an available one; a packet that still refers to it is in the kernel, not in Rust. The
        // slice is the only one: it ends with this call, which has `self` exclusively.
        let data = unsafe {
            std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().add(at + DATA), room)
        };
        let (virtio, frame) = data.split_at_mut(VIRTIO_BYTES);
        let length = write(frame).min(frame.len());
        let copied = length.min(HEADROOM) as u16;
        virtio[HEADER_LENGTH..HEADER_LENGTH + 2].copy_from_slice(&copied.to_ne_bytes());
        let all = (VIRTIO_BYTES + length) as u32;
        let length_at = std::mem::offset_of!(libc::tpacket2_hdr, tp_len);
        // SAFETY: as for the data; the slot begins with a `tpacket2_hdr`, whose length is a 32-bit
        // word that the kernel reads after it has seen the request.
        unsafe {
            let header = self.memory.as_mut_ptr().add(at + length_at);
            header.cast::<u32>().write(all);
        }
        let request = libc::TP_STATUS_SEND_REQUEST;
        self.status(self.next).store(request, Ordering::Release);
        self.next = (self.next + 1) % self.slots;
        self.waiting += 1;
        true
    }

    /// Sends, and gives how many frames went. If the device has no room for a frame, the kernel marks it
    /// available for a moment, and then requested again: so frames count when the call is over.
    pub fn flush(&mut self) -> io::Result<usize> {
        let mut sent = 0;
        if let Some(helper) = &self.helper {
            if helper.is_busy() {
                return Ok(0);
            }
            sent = self.reap();
        }
        if let Some(helper) = &self.helper
            && self.waiting >= MANY
        {
            helper.call()?;
            return Ok(sent);
        }
        if self.waiting == 0 {
            return Ok(sent);
        }
        match send_ring(&self.fd) {
            // After what went is told, the kernel refuses again.
            Err(error) if !is_full(&error) && sent == 0 => Err(error),
            _ => Ok(sent + self.reap()),
        }
    }

    /// How many frames the kernel has taken since the last time, in their order.
    fn reap(&mut self) -> usize {
        let requested = libc::TP_STATUS_SEND_REQUEST;
        let before = self.waiting;
        while self.waiting > 0 {
            let oldest = self.next + self.slots - self.waiting;
            if self.status(oldest).load(Ordering::Acquire) == requested {
                break;
            }
            self.waiting -= 1;
        }
        before - self.waiting
    }
}
