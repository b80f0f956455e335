//! The programs (`flows.bpf.c`) at interfaces, and their tables.

use std::io::ErrorKind;
use std::ops::AddAssign;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, bail};
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{MapCore, MapFlags};
use netto_sys::interface_links::{self, Hook, InterfaceLink};
use netto_sys::mapped::MappedArray;
use netto_sys::skeleton;
use serde::Serialize;

use crate::abi;
use crate::flow::{Counts, Key};
use crate::flows_skel::{FlowsSkel, FlowsSkelBuilder};

/// Flows that are read by one call of the kernel.
const BATCH: u32 = 4096;

/// Where received packets are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum At {
    /// By XDP where the driver has it, else by tc
    Auto,
    /// By XDP in the driver; an error where that is not possible
    Xdp,
    /// By tc (tcx), after the kernel has joined segments
    Tc,
}

/// What was seen, whether or not it is in a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    /// IP packets that belong to flows.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them that are in no flow, because the table was full.
    pub lost_packets: u64,
    /// Their bytes.
    pub lost_bytes: u64,
    /// Frames with a wrong or incomplete header.
    pub malformed_packets: u64,
    /// Bytes of these frames.
    pub malformed_bytes: u64,
    /// Frames without an IP packet.
    pub other_packets: u64,
    /// Bytes of these frames.
    pub other_bytes: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, more: Totals) {
        self.packets += more.packets;
        self.bytes += more.bytes;
        self.lost_packets += more.lost_packets;
        self.lost_bytes += more.lost_bytes;
        self.malformed_packets += more.malformed_packets;
        self.malformed_bytes += more.malformed_bytes;
        self.other_packets += more.other_packets;
        self.other_bytes += more.other_bytes;
    }
}

/// The loaded programs.
pub(crate) struct Collector {
    skel: FlowsSkel<'static>,
    totals: MappedArray,
    cpus: usize,
    /// Whether the second table is the current one.
    is_second: bool,
    links: Vec<InterfaceLink>,
}

/// How the packets of an interface are seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attached {
    /// By which hooks.
    pub how: String,
    /// What is missing, and why.
    pub notes: Vec<String>,
}

impl Collector {
    /// Loads the programs, with room for so many flows in each table.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn load(most_flows: u32, possible_cpus: usize) -> anyhow::Result<Collector> {
        let mut open = skeleton::open::<FlowsSkelBuilder>()?;
        let maps = &mut open.maps;
        maps.flows_one.set_max_entries(most_flows)?;
        maps.flows_two.set_max_entries(most_flows)?;
        maps.flows_totals.set_max_entries(possible_cpus as u32)?;
        let skel = open.load().map_err(|error| {
            let what = "the kernel refuses the programs that count flows";
            match error.kind() {
                libbpf_rs::ErrorKind::PermissionDenied => anyhow::anyhow!(
                    "{what}: {error}; run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"
                ),
                _ => anyhow::anyhow!(error).context(what),
            }
        })?;
        let totals = &skel.maps.flows_totals;
        let totals = MappedArray::new(totals, abi::FLOW_TOTALS_BYTES, possible_cpus)?;
        Ok(Collector {
            skel,
            totals,
            cpus: possible_cpus,
            is_second: false,
            links: Vec::new(),
        })
    }

    /// Memory of both tables in the kernel; none where it does not tell.
    pub(crate) fn table_bytes(&self) -> Option<u64> {
        let maps = &self.skel.maps;
        let bytes = |map: &dyn AsFd| {
            let number = map.as_fd().as_raw_fd();
            let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("memlock:"))?;
            line.trim().parse::<u64>().ok()
        };
        Some(bytes(&maps.flows_one)? + bytes(&maps.flows_two)?)
    }

    /// Attaches the programs to an interface.
    ///
    /// # Errors
    /// No received packet can be seen there.
    pub(crate) fn attach(&mut self, name: &str, index: u32, at: At) -> anyhow::Result<Attached> {
        let programs = &self.skel.progs;
        let mut notes = Vec::new();
        let received = match at {
            At::Tc => None,
            At::Auto | At::Xdp => {
                match interface_links::attach(&programs.netto_flows_xdp, index, Hook::Xdp) {
                    Ok(link) => Some((link, "XDP")),
                    Err(error) => {
                        let why = match error.kind() {
                            ErrorKind::ResourceBusy | ErrorKind::AlreadyExists => {
                                "another XDP program is there, which stays".to_owned()
                            }
                            _ => format!("the driver refuses XDP: {error}"),
                        };
                        if at == At::Xdp {
                            bail!("{name}: {why}; --flows-at tc works beside it");
                        }
                        notes.push(format!("{name}: {why}; received packets are seen by tc"));
                        None
                    }
                }
            }
        };
        let (link, how) = match received {
            Some(received) => received,
            None => {
                let program = &programs.netto_flows_in;
                let link = interface_links::attach(program, index, Hook::TcxIngress);
                let link = link.with_context(|| format!("{name}: {NO_TCX}"))?;
                (link, "tc")
            }
        };
        self.links.push(link);
        let sent = interface_links::attach(&programs.netto_flows_out, index, Hook::TcxEgress);
        let how = match sent {
            Ok(link) => {
                self.links.push(link);
                format!("{name}: received by {how}, sent by tc")
            }
            Err(error) => {
                notes.push(format!(
                    "{name}: sent packets are not seen: {NO_TCX}: {error}"
                ));
                format!("{name}: received by {how}")
            }
        };
        Ok(Attached { how, notes })
    }

    /// Detaches the programs from all interfaces.
    pub(crate) fn detach(&mut self) {
        self.links.clear();
    }

    /// What was seen until now.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for cpu in 0..self.cpus {
            let words = self.totals.element(cpu);
            let word = |at: usize| words.get(at).map_or(0, |word| word.load(Relaxed));
            totals += Totals {
                packets: word(abi::FLOW_TOTALS_PACKETS),
                bytes: word(abi::FLOW_TOTALS_IP_BYTES),
                lost_packets: word(abi::FLOW_TOTALS_LOST_PACKETS),
                lost_bytes: word(abi::FLOW_TOTALS_LOST_BYTES),
                malformed_packets: word(abi::FLOW_TOTALS_MALFORMED_PACKETS),
                malformed_bytes: word(abi::FLOW_TOTALS_MALFORMED_BYTES),
                other_packets: word(abi::FLOW_TOTALS_OTHER_PACKETS),
                other_bytes: word(abi::FLOW_TOTALS_OTHER_BYTES),
            };
        }
        totals
    }

    /// Hands over what came since this was asked the last time, each packet once.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(Key, Counts)) -> anyhow::Result<()> {
        let maps = &self.skel.maps;
        let (old, new) = match self.is_second {
            false => (&maps.flows_one, &maps.flows_two),
            true => (&maps.flows_two, &maps.flows_one),
        };
        // The kernel returns from this when no program uses the old table any more.
        let number = new.as_fd().as_raw_fd().to_ne_bytes();
        let current = &maps.flows_current;
        current
            .update(&0_u32.to_ne_bytes(), &number, MapFlags::ANY)
            .context("cannot change the table of flows")?;
        self.is_second = !self.is_second;
        let batch = BATCH.min(old.max_entries());
        let flows = old.lookup_and_delete_batch(batch, MapFlags::ANY, MapFlags::ANY)?;
        for (key, value) in flows {
            let both = Key::from_bytes(&key).zip(Counts::from_bytes(&value));
            let (key, counts) = both.context("a flow of another size than its program's")?;
            each(key, counts);
        }
        Ok(())
    }
}

/// Why a tcx program may be refused.
const NO_TCX: &str = "the kernel refuses a program at tcx, which Linux has since 6.6";
