//! What latencies are held against: BPF programs of the tests' own that time each packet from its
//! last device on, by what stands in it.

use std::fs::File;
use std::os::fd::AsRawFd;

use anyhow::Context;
use libbpf_rs::skel::{OpenSkel, Skel};
use libbpf_rs::{Link, MapCore, MapFlags};

use self::arrivals_skel::{ArrivalsSkel, ArrivalsSkelBuilder};
use crate::word;

netto_sys::skeleton!(arrivals_skel, "/arrivals.skel.rs");

/// Buckets for each power of two, as in `arrivals.bpf.c`.
const STEPS: usize = 32;
const BUCKETS: usize = 64 * STEPS;

/// Places of a packet after its arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It is handed to protocols.
    Ip,
    /// It has found its socket.
    Protocol,
    /// It is read.
    Read,
}

/// The attached programs; dropping detaches them.
pub struct Arrivals {
    skel: ArrivalsSkel<'static>,
    _at_sockets: Link,
}

impl Arrivals {
    /// Attaches the programs, for packets of this network namespace and sockets below this control group.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn attach(netns: u64, cgroup: &File) -> anyhow::Result<Arrivals> {
        let mut open = netto_sys::skeleton::open::<ArrivalsSkelBuilder>()?;
        netto_sys::skeleton::constants(&mut open.maps.rodata_data)?.truth_netns = netns;
        let mut skel = open.load().context("the kernel refuses the programs")?;
        skel.attach().context("the programs cannot be attached")?;
        let at_sockets = skel
            .progs
            .truth_at_protocol
            .attach_cgroup(cgroup.as_raw_fd());
        Ok(Arrivals {
            _at_sockets: at_sockets.context("sockets of a control group")?,
            skel,
        })
    }

    /// Latencies of these protocols at a place since the beginning: the middle of each bucket,
    /// nanoseconds, and its packets.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn latencies(
        &self,
        place: Place,
        protocols: &[Protocol],
    ) -> anyhow::Result<Vec<(u64, u64)>> {
        let mut all = Vec::new();
        for bucket in 0..BUCKETS {
            let mut packets = 0;
            for protocol in protocols {
                let histogram = place as usize * 2 + *protocol as usize;
                let key = (histogram * BUCKETS + bucket) as u32;
                let counts = &self.skel.maps.truth_counts;
                let values = counts.lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)?;
                for value in values.context("no entry")? {
                    packets += word(&value, 0)?;
                }
            }
            let (power, step) = (bucket / STEPS, (bucket % STEPS) as u64);
            let width = (1_u64 << power) as f64 / STEPS as f64;
            let middle = (1_u64 << power) as f64 + (step as f64 + 0.5) * width;
            all.push((middle as u64, packets));
        }
        Ok(all)
    }
}

/// A packet's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}
