//! What owners are held against: BPF programs of the tests' own that divide the time of NET_RX
//! softirqs by the ports of packets and the interrupted control group. Only tests have this crate.

use anyhow::Context;
use libbpf_rs::skel::{OpenSkel, Skel};
use libbpf_rs::{MapCore, MapFlags};

use crate::truth_skel::{TruthSkel, TruthSkelBuilder};

netto_sys::skeleton!(truth_skel, "/truth.skel.rs");

/// The attached programs; dropping detaches them.
pub struct Truth {
    skel: TruthSkel<'static>,
}

/// Time of NET_RX softirqs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charged {
    /// Number of the control group of the interrupted task.
    pub cgroup: u64,
    /// Source and destination of the packet; 0 for one of neither TCP nor UDP, and without a packet.
    pub ports: [u16; 2],
    /// Whether a bridge took the packet.
    pub is_bridged: bool,
    /// CPU time, nanoseconds.
    pub ns: u64,
}

impl Truth {
    /// Attaches the programs.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn attach() -> anyhow::Result<Truth> {
        let open = netto_sys::skeleton::open::<TruthSkelBuilder>()?;
        let mut skel = open.load().context("the kernel refuses the programs")?;
        skel.attach().context("the programs cannot be attached")?;
        Ok(Truth { skel })
    }

    /// All time since the beginning, but for the last softirq of each CPU.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn charged(&self) -> anyhow::Result<Vec<Charged>> {
        let map = &self.skel.maps.truth_ns;
        let mut all = Vec::new();
        for key in map.keys() {
            // It is gone, if it was there.
            let Some(values) = map.lookup_percpu(&key, MapFlags::ANY)? else {
                continue;
            };
            let mut ns = 0;
            for value in values {
                ns += word(&value, 0)?;
            }
            let ports = word(&key, 8)?;
            all.push(Charged {
                cgroup: word(&key, 0)?,
                ports: [(ports >> 16) as u16, ports as u16],
                is_bridged: ports >> 32 != 0,
                ns,
            });
        }
        Ok(all)
    }

    /// Number of these softirqs since the beginning.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn number(&self) -> anyhow::Result<u64> {
        let map = &self.skel.maps.truth_now;
        let values = map.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)?;
        let values = values.context("no entry")?;
        values.iter().map(|value| word(value, 40)).sum()
    }
}

fn word(bytes: &[u8], at: usize) -> anyhow::Result<u64> {
    let bytes = bytes.get(at..at + 8);
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.map(u64::from_ne_bytes).context("a short entry")
}
