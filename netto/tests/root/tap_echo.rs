//! What is behind a TAP interface: a process that sends each UDP datagram back, as a virtual machine
//! or a VPN would. It reads and writes the interface itself, or leaves that to a vhost worker of the
//! kernel and only has the queues, as the driver in a machine has them.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU16, Ordering, fence};

use anyhow::{Context, Result, ensure};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::trial::NotOnThisKernel;

/// Bytes of a frame in a queue, with room.
const FRAME: usize = 2048;
/// `struct virtio_net_hdr`, before each frame of a queue.
const HEADER: usize = 10;

// include/uapi/linux/if_tun.h
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
const IFF_TAP: u16 = 0x0002;
const IFF_NO_PI: u16 = 0x1000;
const IFF_VNET_HDR: u16 = 0x4000;

/// `struct ifreq` of an interface's name and flags.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: u16,
    rest: [u8; 22],
}

/// Makes a TAP interface, which is there as long as the file is open.
fn tap(device: &str, flags: u16) -> Result<File> {
    let file = File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
        .map_err(|error| NotOnThisKernel(format!("no TAP interface can be made ({error})")))?;
    let mut request = InterfaceRequest {
        name: [0; libc::IFNAMSIZ],
        flags: IFF_TAP | flags,
        rest: [0; 22],
    };
    ensure!(device.len() < request.name.len(), "{device} is no name");
    request.name[..device.len()].copy_from_slice(device.as_bytes());
    set(&file, TUNSETIFF, &request).with_context(|| format!("cannot make {device}"))?;
    Ok(file)
}

/// An ioctl that reads this structure.
fn set<T>(file: &File, number: libc::Ioctl, value: &T) -> Result<()> {
    // SAFETY: each number of this file reads the structure that it is called with, which outlives the
    // call, and keeps no pointer to it.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), number, std::ptr::from_ref(value)) };
    Ok(nix::errno::Errno::result(result).map(drop)?)
}

/// Makes the answer of a frame in its place; false if it is no datagram of UDP over IPv4. Checksums do
/// not depend on the direction.
fn answer(frame: &mut [u8]) -> bool {
    const IPV4: [u8; 2] = [0x08, 0x00];
    const UDP: u8 = 17;
    if frame.len() < 42 || frame[12..14] != IPV4 || frame[14] != 0x45 || frame[23] != UDP {
        return false;
    }
    for (one, other, bytes) in [(0, 6, 6), (26, 30, 4), (34, 36, 2)] {
        let (before, after) = frame.split_at_mut(other);
        before[one..one + bytes].swap_with_slice(&mut after[..bytes]);
    }
    true
}

/// A TAP interface that this process reads and writes.
pub struct Tap(File);

impl Tap {
    /// Makes the interface.
    pub fn new(device: &str) -> Result<Tap> {
        Ok(Tap(tap(device, IFF_NO_PI)?))
    }

    /// Sends all datagrams back.
    pub fn serve(mut self) -> Result<()> {
        let mut frame = vec![0; 1 << 16];
        loop {
            let length = self.0.read(&mut frame)?;
            if answer(&mut frame[..length]) {
                // An interface that is down takes nothing.
                let _ = self.0.write(&frame[..length]);
            }
        }
    }
}

/// What a read and a write take outside of the interface: the kernel's entry, its layer of files, and
/// the answer's making, seconds.
pub fn empty_round_seconds() -> Result<f64> {
    const ROUNDS: u32 = 200_000;
    let mut nothing = File::options().read(true).write(true).open("/dev/null")?;
    let mut frame = [0; FRAME];
    let from = std::time::Instant::now();
    for _ in 0..ROUNDS {
        let _ = nothing.read(&mut frame)?;
        answer(std::hint::black_box(&mut frame));
        let _ = nothing.write(&frame[..106])?;
    }
    Ok(from.elapsed().as_secs_f64() / f64::from(ROUNDS))
}

// include/uapi/linux/vhost.h
const VHOST_SET_FEATURES: libc::Ioctl = 0x4008_af00;
const VHOST_SET_OWNER: libc::Ioctl = 0xaf01;
const VHOST_SET_MEM_TABLE: libc::Ioctl = 0x4008_af03;
const VHOST_SET_VRING_NUM: libc::Ioctl = 0x4008_af10;
const VHOST_SET_VRING_ADDR: libc::Ioctl = 0x4028_af11;
const VHOST_SET_VRING_BASE: libc::Ioctl = 0x4008_af12;
const VHOST_SET_VRING_KICK: libc::Ioctl = 0x4008_af20;
const VHOST_SET_VRING_CALL: libc::Ioctl = 0x4008_af21;
const VHOST_NET_SET_BACKEND: libc::Ioctl = 0x4008_af30;

/// `struct vhost_memory` with one region.
#[repr(C)]
struct MemoryTable {
    regions: u32,
    padding: u32,
    guest_address: u64,
    bytes: u64,
    address: u64,
    flags: u64,
}

/// `struct vhost_vring_addr`.
#[repr(C)]
struct QueueAddresses {
    index: u32,
    flags: u32,
    descriptors: u64,
    used: u64,
    available: u64,
    log: u64,
}

/// Descriptors of a queue, each with one buffer for one frame. A power of two.
const ENTRIES: usize = 256;
/// A buffer that the device writes to (`VRING_DESC_F_WRITE`).
const WRITTEN: u16 = 2;
/// The device looks at its queue by itself (`VRING_USED_F_NO_NOTIFY`).
const NO_KICK: u16 = 1;

/// A split queue as in the virtio specification, version 1.2, 2.7.
#[repr(C, align(16))]
struct Queue {
    descriptors: [Descriptor; ENTRIES],
    available_flags: u16,
    available_index: AtomicU16,
    available: [u16; ENTRIES],
    used_event: u16,
    used: Used,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Descriptor {
    address: u64,
    bytes: u32,
    flags: u16,
    next: u16,
}

#[repr(C, align(4))]
struct Used {
    flags: AtomicU16,
    index: AtomicU16,
    elements: [[u32; 2]; ENTRIES],
    available_event: u16,
}

/// What the process and the vhost worker share.
#[repr(C, align(4096))]
struct Shared {
    /// Of received frames, and of those to be sent.
    queues: [Queue; 2],
    buffers: [[u8; FRAME]; ENTRIES],
}

const RECEIVED: usize = 0;
const SENT: usize = 1;

/// A TAP interface that a vhost worker reads and writes.
pub struct Vhost {
    /// Allocated once and never freed: the worker has its address.
    shared: *mut Shared,
    kicks: [EventFd; 2],
    calls: [EventFd; 2],
    /// Elements of each queue that were taken back.
    taken: [u16; 2],
    /// Keep worker and interface.
    _files: [File; 2],
}

impl Vhost {
    /// Makes the interface and the worker.
    pub fn new(device: &str) -> Result<Vhost> {
        let vhost = File::options()
            .read(true)
            .write(true)
            .open("/dev/vhost-net")
            .map_err(|error| NotOnThisKernel(format!("there is no vhost-net here ({error})")))?;
        let tap = tap(device, IFF_NO_PI | IFF_VNET_HDR)?;
        // SAFETY: all its fields are numbers, for which zero is a value; the layout is not empty.
        let shared = unsafe { std::alloc::alloc_zeroed(std::alloc::Layout::new::<Shared>()) };
        let shared = shared.cast::<Shared>();
        ensure!(!shared.is_null(), "no memory");
        set(&vhost, VHOST_SET_OWNER, &())?;
        set(&vhost, VHOST_SET_FEATURES, &0_u64)?;
        let table = MemoryTable {
            regions: 1,
            padding: 0,
            guest_address: shared as u64,
            bytes: size_of::<Shared>() as u64,
            address: shared as u64,
            flags: 0,
        };
        set(&vhost, VHOST_SET_MEM_TABLE, &table)?;
        let eventfd = || EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC);
        let kicks = [eventfd()?, eventfd()?];
        let calls = [eventfd()?, eventfd()?];
        for index in [RECEIVED, SENT] {
            // SAFETY: it is allocated, and only addresses are made of it.
            let queue = unsafe { &raw mut (*shared).queues[index] };
            // SAFETY: as above.
            let (available, used) =
                unsafe { (&raw mut (*queue).available_flags, &raw mut (*queue).used) };
            let number = index as u32;
            set(&vhost, VHOST_SET_VRING_NUM, &[number, ENTRIES as u32])?;
            set(&vhost, VHOST_SET_VRING_BASE, &[number, 0])?;
            let addresses = QueueAddresses {
                index: number,
                flags: 0,
                descriptors: queue as u64,
                used: used as u64,
                available: available as u64,
                log: 0,
            };
            set(&vhost, VHOST_SET_VRING_ADDR, &addresses)?;
            let of = |file: i32| [number, file as u32];
            set(&vhost, VHOST_SET_VRING_KICK, &of(kicks[index].as_raw_fd()))?;
            set(&vhost, VHOST_SET_VRING_CALL, &of(calls[index].as_raw_fd()))?;
            set(&vhost, VHOST_NET_SET_BACKEND, &of(tap.as_raw_fd()))
                .context("the worker does not take the interface")?;
        }
        Ok(Vhost {
            shared,
            kicks,
            calls,
            taken: [0; 2],
            _files: [vhost, tap],
        })
    }

    /// Sends all datagrams back.
    pub fn serve(mut self) -> Result<()> {
        for buffer in 0..ENTRIES as u16 {
            self.offer(RECEIVED, buffer, FRAME as u32);
        }
        self.kick(RECEIVED)?;
        loop {
            let mut is_idle = true;
            while let Some([buffer, bytes]) = self.take(RECEIVED) {
                is_idle = false;
                let (buffer, bytes) = (buffer as u16, bytes as usize);
                // SAFETY: the worker has given the buffer back, and writes to it no more.
                let frame = unsafe { &mut (*self.shared).buffers[usize::from(buffer)] };
                frame[..HEADER].fill(0);
                if bytes > HEADER && bytes <= FRAME && answer(&mut frame[HEADER..bytes]) {
                    self.offer(SENT, buffer, bytes as u32);
                } else {
                    self.offer(RECEIVED, buffer, FRAME as u32);
                }
            }
            while let Some([buffer, _]) = self.take(SENT) {
                is_idle = false;
                self.offer(RECEIVED, buffer as u16, FRAME as u32);
            }
            if !is_idle {
                self.kick(SENT)?;
                self.kick(RECEIVED)?;
                continue;
            }
            let wait = |call: usize| PollFd::new(self.calls[call].as_fd(), PollFlags::POLLIN);
            poll(&mut [wait(RECEIVED), wait(SENT)], PollTimeout::NONE)?;
            for call in &self.calls {
                // Nothing to read is no error here.
                let _ = call.read();
            }
        }
    }

    /// Gives a buffer to the worker.
    fn offer(&mut self, queue: usize, buffer: u16, bytes: u32) {
        // SAFETY: `shared` stays allocated. The worker looks at an entry only after `available_index`
        // has counted it, which is done last.
        unsafe {
            let address = (&raw const (*self.shared).buffers[usize::from(buffer)]) as u64;
            let queue_at = &raw mut (*self.shared).queues[queue];
            let flags = if queue == RECEIVED { WRITTEN } else { 0 };
            let descriptor = Descriptor {
                address,
                bytes,
                flags,
                next: 0,
            };
            (&raw mut (*queue_at).descriptors[usize::from(buffer)]).write(descriptor);
            let index = &(*queue_at).available_index;
            let next = index.load(Ordering::Relaxed);
            (&raw mut (*queue_at).available[usize::from(next) % ENTRIES]).write(buffer);
            index.store(next.wrapping_add(1), Ordering::Release);
        }
    }

    /// Takes back a buffer that the worker is done with: its number, and the bytes written to it.
    fn take(&mut self, queue: usize) -> Option<[u32; 2]> {
        let taken = &mut self.taken[queue];
        // SAFETY: `shared` stays allocated. The worker writes an element before it counts it in `index`.
        let element = unsafe {
            let used = &raw mut (*self.shared).queues[queue].used;
            if (*used).index.load(Ordering::Acquire) == *taken {
                return None;
            }
            (&raw const (*used).elements[usize::from(*taken) % ENTRIES]).read_volatile()
        };
        *taken = taken.wrapping_add(1);
        Some(element)
    }

    /// Tells the worker that there are new buffers, unless it looks by itself.
    fn kick(&self, queue: usize) -> Result<()> {
        fence(Ordering::SeqCst);
        // SAFETY: `shared` stays allocated.
        let used = unsafe { &raw const (*self.shared).queues[queue].used };
        // SAFETY: as above; the field is atomic.
        let flags = unsafe { (*used).flags.load(Ordering::Relaxed) };
        if flags & NO_KICK == 0 {
            self.kicks[queue].write(1)?;
        }
        Ok(())
    }
}
