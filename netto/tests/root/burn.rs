//! A BPF program on received packets that takes a set time for each, by the kernel's own clock,
//! and writes down what it took: a cost of networking that is known to the nanosecond.

use std::os::fd::{AsFd, AsRawFd, RawFd};

use anyhow::{Context, Result};
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, Object, libbpf_sys};

use crate::bpf;

/// The kernel keeps fifteen characters.
const SUMS: &str = "nettotest_burn";
/// Readings of the clock after which a program ends in any case: the verifier must see an end.
const MOST_READINGS: i32 = 7_000;

/// The program's time so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Burnt {
    /// Time in its loop, nanoseconds.
    pub time_ns: u64,
    /// Packets that it has seen.
    pub packets: u64,
}

impl Burnt {
    /// The increase since an earlier time.
    pub fn since(self, earlier: Burnt) -> Burnt {
        Burnt {
            time_ns: self.time_ns - earlier.time_ns,
            packets: self.packets - earlier.packets,
        }
    }
}

/// Attaches it by tcx to a device's received packets; runs in a process of its own, and ends with
/// it.
pub fn attach(device: &str, burn_ns: i32) -> Result<(Object, MapHandle)> {
    let sums = new_sums()?;
    let code = burning(burn_ns, sums.as_fd().as_raw_fd(), bpf::TCX_NEXT);
    Ok((bpf::attach_tcx(device, &code)?, sums))
}

/// The same by generic XDP, which older kernels have, too; it stays as long as the device.
pub fn attach_xdp(device: &str, burn_ns: i32) -> Result<(Object, MapHandle)> {
    let sums = new_sums()?;
    let code = burning(burn_ns, sums.as_fd().as_raw_fd(), bpf::XDP_PASS);
    Ok((bpf::attach_xdp_generic(device, &code)?, sums))
}

fn new_sums() -> Result<MapHandle> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    MapHandle::create(MapType::Array, Some(SUMS), 4, 16, 1, &options)
        .context("the kernel refuses a map of sums")
}

/// The sums of the program that was attached last.
pub fn sums() -> Result<MapHandle> {
    let ours = MapInfoIter::default().filter(|map| map.name.to_string_lossy() == SUMS);
    let newest = ours.map(|map| map.id).max();
    let id = newest.context("no program that burns is attached")?;
    MapHandle::from_map_id(id).context("the sums of the program that burns")
}

/// Reads them.
pub fn read(sums: &MapHandle) -> Result<Burnt> {
    let value = sums
        .lookup(&[0; 4], MapFlags::ANY)?
        .context("a map of sums without an entry")?;
    let word = |at: usize| -> Result<u64> {
        let bytes = value.get(at..at + 8).context("a sum is too short")?;
        Ok(u64::from_ne_bytes(bytes.try_into()?))
    };
    Ok(Burnt {
        time_ns: word(0)?,
        packets: word(8)?,
    })
}

/// Reads the clock until the time is over, adds to the sums, lets the packet pass by this verdict.
fn burning(burn_ns: i32, sums: RawFd, verdict: i32) -> Vec<u8> {
    const CALL: u8 = 0x85;
    const KTIME_GET_NS: i32 = 5;
    const MAP_LOOKUP: i32 = 1;
    const MOVE: u8 = 0xb7;
    const COPY: u8 = 0xbf;
    const ADD: u8 = 0x07;
    const SUBTRACT_REGISTER: u8 = 0x1f;
    const JUMP_IF_AT_LEAST: u8 = 0x35;
    const JUMP_IF_LESS: u8 = 0xa5;
    const JUMP_IF_EQUAL: u8 = 0x15;
    const STORE_WORD: u8 = 0x62;
    const LOAD_WIDE: u8 = 0x18;
    const ATOMIC_ADD: u8 = 0xdb;
    const EXIT: u8 = 0x95;
    const OF_A_MAP: u8 = 1;
    // Operation, destination, source, offset, value.
    let all: [(u8, u8, u8, i16, i32); 21] = [
        (CALL, 0, 0, 0, KTIME_GET_NS),
        (COPY, 6, 0, 0, 0),
        (MOVE, 7, 0, 0, 0),
        // Loop until the time is over.
        (CALL, 0, 0, 0, KTIME_GET_NS),
        (SUBTRACT_REGISTER, 0, 6, 0, 0),
        (JUMP_IF_AT_LEAST, 0, 0, 2, burn_ns),
        (ADD, 7, 0, 0, 1),
        (JUMP_IF_LESS, 7, 0, -5, MOST_READINGS),
        (COPY, 8, 0, 0, 0),
        (STORE_WORD, 10, 0, -4, 0),
        (COPY, 2, 10, 0, 0),
        (ADD, 2, 0, 0, -4),
        (LOAD_WIDE, 1, OF_A_MAP, 0, sums),
        (0, 0, 0, 0, 0),
        (CALL, 0, 0, 0, MAP_LOOKUP),
        (JUMP_IF_EQUAL, 0, 0, 3, 0),
        (ATOMIC_ADD, 0, 8, 0, 0),
        (MOVE, 1, 0, 0, 1),
        (ATOMIC_ADD, 0, 1, 8, 0),
        (MOVE, 0, 0, 0, verdict),
        (EXIT, 0, 0, 0, 0),
    ];
    let mut code = Vec::new();
    for (operation, to, from, offset, value) in all {
        code.extend([operation, to | from << 4]);
        code.extend(offset.to_le_bytes());
        code.extend(value.to_le_bytes());
    }
    code
}
