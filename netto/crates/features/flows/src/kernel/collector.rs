//! The programs (`flows.bpf.c`) at interfaces, and their tables.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::ops::{AddAssign, SubAssign};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use anyhow::{Context, bail};
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{MapCore, MapFlags, MapMut};
use netto_sys::held_link::HeldLink;
use netto_sys::interface_links::{self, Hook};
use netto_sys::mapped::MappedArray;
use netto_sys::skeleton;
use netto_sys::system::Roots;
use serde::Serialize;

use crate::abi;
use crate::flow::{Counts, Key};
use crate::flows_skel::{FlowsSkel, FlowsSkelBuilder};
use crate::kernel::batch::take_all;
use crate::kernel::parser::Headers;

/// Prefixes in a table for each CPU, and altogether.
const PREFIXES_OF_CPU: usize = 256;
const LEAST_PREFIXES: usize = 1024;

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
    /// Packets that were not sampled.
    #[serde(skip)]
    pub passed_packets: u64,
    /// Their bytes.
    #[serde(skip)]
    pub passed_bytes: u64,
}

impl Totals {
    /// Each figure of one with that of another.
    fn each(&mut self, other: Totals, of: impl Fn(&mut u64, u64)) {
        of(&mut self.packets, other.packets);
        of(&mut self.bytes, other.bytes);
        of(&mut self.lost_packets, other.lost_packets);
        of(&mut self.lost_bytes, other.lost_bytes);
        of(&mut self.malformed_packets, other.malformed_packets);
        of(&mut self.malformed_bytes, other.malformed_bytes);
        of(&mut self.other_packets, other.other_packets);
        of(&mut self.other_bytes, other.other_bytes);
        of(&mut self.passed_packets, other.passed_packets);
        of(&mut self.passed_bytes, other.passed_bytes);
    }
}

impl AddAssign for Totals {
    fn add_assign(&mut self, more: Totals) {
        self.each(more, |sum, more| *sum += more);
    }
}

impl SubAssign for Totals {
    fn sub_assign(&mut self, less: Totals) {
        self.each(less, |sum, less| *sum = sum.wrapping_sub(less));
    }
}

/// What one CPU saw of a flow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Part {
    pub key: Key,
    pub cpu: u32,
    pub counts: Counts,
    /// Packets that were sampled: what the counts rest on.
    pub sampled: u64,
    /// The lot is drawn for all that come as one: the sum of the squares of their numbers.
    pub squares: u64,
}

/// What one CPU saw of flows for which the table had no room, by prefix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Prefix {
    /// The ends without ports; [`Key::prefix_bits`] says how much of each counts.
    pub part: Part,
    /// How many flows it were at least.
    pub flows: u64,
}

/// What came since the last time, each packet once; parts and totals are of the same packets.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drained {
    pub parts: Vec<Part>,
    pub prefixes: Vec<Prefix>,
    /// By CPU: of received and of sent frames.
    pub totals: Vec<[Totals; 2]>,
}

impl Drained {
    /// Each flow once.
    pub(crate) fn flows(&self) -> HashMap<Key, Counts> {
        // Senders choose the keys: a hash that they cannot foresee.
        let mut flows: HashMap<Key, Counts> = HashMap::with_capacity(self.parts.len());
        for part in &self.parts {
            let known = flows.entry(part.key);
            let add = |counts: &mut Counts| counts.add(&part.counts);
            known.and_modify(add).or_insert(part.counts);
        }
        flows
    }

    /// All CPUs and both directions.
    pub(crate) fn sum(&self) -> Totals {
        let mut sum = Totals::default();
        self.totals
            .iter()
            .flatten()
            .for_each(|totals| sum += *totals);
        sum
    }
}

/// The loaded programs.
pub(crate) struct Collector {
    skel: FlowsSkel<'static>,
    totals: MappedArray,
    /// Of each set of totals, what was handed over.
    before: Vec<Totals>,
    control: MappedArray,
    cpus: usize,
    /// The current table.
    table: usize,
    links: Vec<(u32, HeldLink)>,
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
    pub(crate) fn load(
        most_flows: u32,
        headers: Headers,
        roots: &Roots,
        possible_cpus: usize,
    ) -> anyhow::Result<Collector> {
        let mut open = skeleton::open::<FlowsSkelBuilder>()?;
        let rodata = skeleton::constants(&mut open.maps.rodata_data)?;
        rodata.netto_flows_inner = (headers == Headers::Inner).into();
        rodata.netto_flows_atomic = roots.is_realtime().into();
        let maps = &mut open.maps;
        maps.flows_one.set_max_entries(most_flows)?;
        maps.flows_two.set_max_entries(most_flows)?;
        let of_ends = (PREFIXES_OF_CPU * possible_cpus).max(LEAST_PREFIXES) as u32;
        let of_one_end = (of_ends / 4).max(1);
        for (map, most) in [
            (&mut maps.flows_ends_one, of_ends),
            (&mut maps.flows_ends_two, of_ends),
            (&mut maps.flows_to_one, of_one_end),
            (&mut maps.flows_to_two, of_one_end),
            (&mut maps.flows_from_one, of_one_end),
            (&mut maps.flows_from_two, of_one_end),
        ] {
            map.set_max_entries(most)?;
        }
        let sets = possible_cpus * abi::FLOWS_SETS;
        maps.flows_totals.set_max_entries(sets as u32)?;
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
        let totals = MappedArray::new(totals, abi::FLOW_TOTALS_BYTES, sets)?;
        let control = &skel.maps.flows_control;
        let control = MappedArray::new(control, abi::FLOWS_CONTROL_BYTES, 1)?;
        Ok(Collector {
            skel,
            totals,
            before: vec![Totals::default(); sets],
            control,
            cpus: possible_cpus,
            table: 0,
            links: Vec::new(),
        })
    }

    /// The tables of prefixes, by form.
    fn prefix_tables(&self) -> [[&MapMut<'static>; 2]; 3] {
        let maps = &self.skel.maps;
        [
            [&maps.flows_ends_one, &maps.flows_ends_two],
            [&maps.flows_to_one, &maps.flows_to_two],
            [&maps.flows_from_one, &maps.flows_from_two],
        ]
    }

    /// Memory of all tables in the kernel; none where it does not tell.
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
        let prefixes = self.prefix_tables();
        let prefixes = prefixes.as_flattened().iter().copied();
        let tables = [&maps.flows_one, &maps.flows_two].into_iter();
        tables.chain(prefixes).map(|map| bytes(map)).sum()
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
        self.links.push((index, link));
        let sent = interface_links::attach(&programs.netto_flows_out, index, Hook::TcxEgress);
        let how = match sent {
            Ok(link) => {
                self.links.push((index, link));
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

    /// Whether all programs of an interface are where they were attached.
    pub(crate) fn is_in_place(&self, index: u32) -> bool {
        let mut links = self.links.iter();
        links.all(|(attached_to, link)| *attached_to != index || link.is_in_place())
    }

    /// Detaches the programs from one interface, which may be gone.
    pub(crate) fn detach_from(&mut self, index: u32) {
        self.links.retain(|(attached_to, _)| *attached_to != index);
    }

    /// Has one in so many packets sampled for the table from now on; all are in the totals.
    pub(crate) fn sample_one_in(&self, one_in: u64) {
        self.set(abi::FLOWS_CONTROL_ONE_IN, one_in);
    }

    fn set(&self, word: usize, value: u64) {
        if let Some(word) = self.control.element(0).get(word) {
            word.store(value, SeqCst);
        }
    }

    /// What this set of totals has counted since this was asked the last time.
    fn counted(&mut self, set: usize) -> Totals {
        let words = self.totals.element(set);
        let word = |at: usize| words.get(at).map_or(0, |word| word.load(Relaxed));
        let now = Totals {
            packets: word(abi::FLOW_TOTALS_PACKETS),
            bytes: word(abi::FLOW_TOTALS_IP_BYTES),
            lost_packets: word(abi::FLOW_TOTALS_LOST_PACKETS),
            lost_bytes: word(abi::FLOW_TOTALS_LOST_BYTES),
            malformed_packets: word(abi::FLOW_TOTALS_MALFORMED_PACKETS),
            malformed_bytes: word(abi::FLOW_TOTALS_MALFORMED_BYTES),
            other_packets: word(abi::FLOW_TOTALS_OTHER_PACKETS),
            other_bytes: word(abi::FLOW_TOTALS_OTHER_BYTES),
            passed_packets: word(abi::FLOW_TOTALS_PASSED_PACKETS),
            passed_bytes: word(abi::FLOW_TOTALS_PASSED_BYTES),
        };
        let mut counted = now;
        counted -= std::mem::replace(&mut self.before[set], now);
        counted
    }

    /// What came since this was asked the last time.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn drain(&mut self) -> anyhow::Result<Drained> {
        let (table, next) = (self.table, 1 - self.table);
        self.set(abi::FLOWS_CONTROL_TABLE, next as u64);
        self.table = next;
        let maps = &self.skel.maps;
        let both = [&maps.flows_one, &maps.flows_two];
        // The table stays at its place: the kernel returns from this when no program uses what it
        // used before.
        let number = both[next].as_fd().as_raw_fd().to_ne_bytes();
        maps.flows_tables
            .update(&(next as u32).to_ne_bytes(), &number, MapFlags::ANY)
            .context("cannot wait for the programs that count flows")?;
        let mut parts = Vec::new();
        take_all(both[table], |key, value| {
            parts.push(part(key, value).context(ODD)?);
            Ok(())
        })?;
        // A table that has not been full has no prefixes.
        let has_been_full = self.control.element(0).get(abi::FLOWS_CONTROL_FULL + table);
        let has_been_full = has_been_full.is_some_and(|word| word.load(SeqCst) != 0);
        let mut prefixes = Vec::new();
        let forms = if has_been_full {
            self.prefix_tables().map(|both| both[table]).to_vec()
        } else {
            Vec::new()
        };
        for form in forms {
            take_all(form, |key, value| {
                let both = part(key, value).zip(Counts::classes(value));
                let (part, flows) = both.context(ODD)?;
                prefixes.push(Prefix { part, flows });
                Ok(())
            })?;
        }
        self.set(abi::FLOWS_CONTROL_FULL + table, 0);
        let set = |cpu: usize, is_sent: usize| {
            cpu * abi::FLOWS_SETS + (is_sent << abi::FLOWS_SENT_BIT) + table
        };
        let cpus = 0..self.cpus;
        let totals = cpus.map(|cpu| [0, 1].map(|is_sent| self.counted(set(cpu, is_sent))));
        Ok(Drained {
            totals: totals.collect(),
            parts,
            prefixes,
        })
    }
}

/// An entry of a table of flows, or of one of prefixes.
fn part(key: &[u8], value: &[u8]) -> Option<Part> {
    let (key, cpu) = Key::from_bytes(key)?;
    let counts = Counts::from_bytes(value)?;
    Some(Part {
        key,
        cpu,
        counts,
        sampled: counts.packets,
        squares: Counts::squares(value)?,
    })
}

const ODD: &str = "a flow of another size than its program's";

/// Why a tcx program may be refused.
const NO_TCX: &str = "the kernel refuses a program at tcx, which Linux has since 6.6";
