//! The probes that meet the sockets and packets of softirqs (`owners.bpf.c`), and the owners they
//! report for pending samples.

use std::fs::File;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Acquire;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::Context;
use libbpf_rs::skel::{OpenSkel, Skel};
use libbpf_rs::{RingBuffer, RingBufferBuilder};
use metrics_common::{Method, ProbeInfo};

use super::cgroups::Cgroups;
use crate::abi;
use crate::analysis::verdict::Answer;
use crate::owners_skel::{OwnersSkel, OwnersSkelBuilder};
use netto_analysis::tagged::{FlowEnds, Met, SampleTag};
use netto_sys::cpu_records::CpuRecords;
use netto_sys::mapped::MappedArray;
use netto_sys::session::{Probe, Readers};
use netto_sys::{skeleton, stacks};

/// New control groups that are kept until they are read.
const MOST_GROUPS: usize = 8192;
/// The record of a new control group: its number, and its path with a terminating 0.
const GROUP_BYTES: usize = 8 + 256;
/// Time of RX softirqs for which one packet is told of: at first, and its bounds, nanoseconds.
const FIRST_STEP_NS: u64 = 50_000;
const STEPS_NS: RangeInclusive<u64> = 2_000..=10_000_000;
/// Packets of a CPU and window that are to be told of.
const CHARGES: u64 = abi::CHARGE_PLACES as u64 / 2;

/// Time of an RX softirq, charged to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge {
    /// Its CPU.
    pub cpu: usize,
    /// How much, nanoseconds.
    pub ns: u64,
    /// The task that was interrupted, and the packet: all 0 if the softirq met none.
    pub tag: SampleTag,
}

/// The reports of the probes.
pub struct OwnerEvents {
    rings: MappedArray,
    mask: u64,
    // Dropped before the map that it reads.
    groups: RingBuffer<'static>,
    made: Receiver<(u64, Vec<u8>)>,
    charges: MappedArray,
    /// By CPU, how many of these were read.
    charges_before: Vec<u64>,
    records: Arc<CpuRecords>,
    /// By CPU, the programs' runs before this interval.
    runs_before: Vec<u64>,
    _new_groups: Option<Probe>,
    _skel: OwnersSkel<'static>,
}

/// The attached probes, and their reports.
pub struct Loaded {
    /// The reports.
    pub events: OwnerEvents,
    /// The attached ones that meet sockets and packets.
    pub probes: Vec<Probe>,
    /// All probes, attached or not.
    pub statuses: Vec<ProbeInfo>,
}

/// The programs, with their hooks and methods.
const PROGRAMS: [(&str, &str, Method); 13] = [
    ("netto_arrives", "cgroup_skb", Method::CgroupSkb),
    ("netto_ready", "sk_data_ready", Method::TpBtf),
    ("netto_readable", "sock_def_readable", Method::Fentry),
    ("netto_segment", "tcp_probe", Method::TpBtf),
    ("netto_backlog", "tcp_add_backlog", Method::Fentry),
    ("netto_state", "tcp_rcv_state_process", Method::Fentry),
    ("netto_no_room", "udp_fail_queue_rcv_skb", Method::TpBtf),
    ("netto_leaves", "net_dev_queue", Method::TpBtf),
    ("netto_dropped", "kfree_skb", Method::TpBtf),
    ("netto_tag_in", "softirq_entry", Method::TpBtf),
    ("netto_tag_out", "softirq_exit", Method::TpBtf),
    (PREEMPTED, "sched_switch", Method::TpBtf),
    (NEW_GROUPS, "cgroup_mkdir", Method::TpBtf),
];
/// The program that tells of new control groups. It stays attached while those at packets are not:
/// it runs seldom, and no other source has the name of a group that is gone already.
const NEW_GROUPS: &str = "netto_mkdir";
/// The program that stops the time of softirqs that are preempted: where they can be.
const PREEMPTED: &str = "netto_tag_switch";

/// Ways to meet the sockets of received packets, the best first; the programs of one way are
/// loaded. The program at the root control group meets all packets. The second way needs fentry. The
/// third needs tracepoints only, `sk_data_ready` since 6.2, and misses segments for connections that
/// a process uses or that are not established.
const WAYS: [&[&str]; 3] = [
    &["netto_arrives"],
    &[
        "netto_readable",
        "netto_segment",
        "netto_backlog",
        "netto_state",
        "netto_no_room",
    ],
    &["netto_ready", "netto_segment", "netto_no_room"],
];

/// Most control groups with which programs are attached to the root group: the kernel walks through
/// all of them to attach one (`update_effective_progs`), and keeps others from changing any.
const MOST_GROUPS_TO_WALK: u64 = 1_000;

/// Loads and attaches the probes.
///
/// # Errors
/// Why sockets cannot be met here.
pub fn start(readers: &Readers, cgroups: Option<&Cgroups>) -> anyhow::Result<Loaded> {
    for cpu in 0..readers.possible_cpus {
        readers.records.set_step_ns(cpu, FIRST_STEP_NS);
    }
    let root = cgroups.and_then(|cgroups| cgroups.root_with_at_most(MOST_GROUPS_TO_WALK));
    let mut refusal = None;
    for way in WAYS {
        if way == WAYS[0] && root.is_none() {
            continue;
        }
        match load(way, readers).and_then(|skel| attach(skel, readers, root.as_ref())) {
            Ok(loaded) => return Ok(loaded),
            Err(error) => refusal = Some(error),
        }
    }
    Err(refusal.unwrap_or_else(|| anyhow::anyhow!("there is no way to meet sockets")))
}

/// Attaches all programs. One at received packets that the kernel refuses makes the way useless.
fn attach(
    skel: OwnersSkel<'static>,
    readers: &Readers,
    root: Option<&File>,
) -> anyhow::Result<Loaded> {
    let mut probes = Vec::new();
    let mut new_groups = None;
    let mut statuses = Vec::new();
    for program in skel.object().progs().filter(|program| program.autoload()) {
        let name = program.name().to_string_lossy().into_owned();
        let Some((_, hook, method)) = PROGRAMS.iter().find(|known| known.0 == name) else {
            continue;
        };
        let cgroup = root.filter(|_| *method == Method::CgroupSkb);
        let probe = Probe::new(&program, cgroup);
        let mut probe = probe.context("cannot duplicate a descriptor")?;
        let attached = probe.attach();
        statuses.push(ProbeInfo {
            name: (*hook).to_owned(),
            method: method.clone(),
            purpose: "owners".to_owned(),
            failure: attached.as_ref().err().map(ToString::to_string),
        });
        match attached {
            Ok(()) if name == NEW_GROUPS => new_groups = Some(probe),
            Ok(()) => probes.push(probe),
            Err(error) if WAYS.iter().any(|way| way.contains(&name.as_str())) => {
                return Err(error).with_context(|| format!("cannot attach to {hook}"));
            }
            Err(_) => {}
        }
    }
    Ok(Loaded {
        events: OwnerEvents::new(skel, readers, new_groups)?,
        probes,
        statuses,
    })
}

/// Loads the object with the programs of one way.
fn load(way: &[&str], readers: &Readers) -> anyhow::Result<OwnersSkel<'static>> {
    let mut open = skeleton::open::<OwnersSkelBuilder>()?;
    let (cpus, places) = (readers.possible_cpus, places(readers));
    let rodata = skeleton::constants(&mut open.maps.rodata_data)?;
    rodata.netto_possible_cpus = cpus as u64;
    rodata.netto_answers_mask = places - 1;
    rodata.netto_tells_ends = u64::from(readers.records.tell_ends());
    readers.records.share_with(&mut open.maps.data_cpus)?;
    let rings = &mut open.maps.netto_rings;
    rings.set_max_entries(cpus as u32)?;
    rings.set_value_size(ring_bytes(places) as u32)?;
    open.maps.netto_charged.set_max_entries(cpus as u32)?;
    for mut program in open.open_object_mut().progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let name = name.as_str();
        let is_of_another = WAYS.iter().any(|way| way.contains(&name)) && !way.contains(&name);
        if is_of_another || (name == PREEMPTED && !readers.is_realtime) {
            program.set_autoload(false);
        }
    }
    open.load()
        .context("the kernel refuses the programs that find the sockets of packets")
}

/// Slots of a ring: the reports on an interval's samples must be there at its end.
fn places(readers: &Readers) -> u64 {
    (2 * readers.most_samples)
        .clamp(256, 1 << 14)
        .next_power_of_two()
}

fn ring_bytes(places: u64) -> usize {
    places as usize * abi::ANSWER_WORDS * 8
}

impl OwnerEvents {
    fn new(
        skel: OwnersSkel<'static>,
        readers: &Readers,
        new_groups: Option<Probe>,
    ) -> anyhow::Result<OwnerEvents> {
        let places = places(readers);
        let cpus = readers.possible_cpus;
        let rings = MappedArray::new(&skel.maps.netto_rings, ring_bytes(places), cpus)?;
        let (sender, made) = sync_channel(MOST_GROUPS);
        let charges = MappedArray::new(&skel.maps.netto_charged, abi::CHARGES_BYTES, cpus)?;
        let mut builder = RingBufferBuilder::new();
        builder.add(&skel.maps.netto_owners_groups, move |bytes: &[u8]| {
            send_group(&sender, bytes)
        })?;
        let groups = builder
            .build()
            .context("cannot read events of new control groups")?;
        Ok(OwnerEvents {
            rings,
            mask: places - 1,
            groups,
            made,
            charges,
            charges_before: vec![0; cpus],
            records: readers.records.clone(),
            runs_before: vec![0; cpus],
            _new_groups: new_groups,
            _skel: skel,
        })
    }

    /// Runs of the programs on each of these CPUs since the last call.
    pub fn runs(&mut self, cpus: &[u32]) -> Vec<u64> {
        let grown = cpus.iter().map(|&cpu| {
            let now = self.records.tag_runs(cpu as usize);
            let before = self.runs_before.get_mut(cpu as usize);
            before.map_or(0, |before| {
                now.saturating_sub(std::mem::replace(before, now))
            })
        });
        grown.collect()
    }

    /// The report on a sample, by its CPU and number; `None` if there is none, or it was
    /// overwritten.
    pub fn of(&self, cpu: usize, number: u64) -> Option<Answer> {
        let ring = self.rings.element(cpu);
        let at = (number & self.mask) as usize * abi::ANSWER_WORDS;
        read_place(ring.get(at..at + abi::ANSWER_WORDS)?, number)
    }

    /// Control groups created since the last call: number and path. If there are very many, some
    /// are dropped.
    pub fn new_groups(&self) -> impl Iterator<Item = (u64, Vec<u8>)> {
        // Failed readings are repeated later.
        let _ = self.groups.consume();
        self.made.try_iter()
    }

    /// Time of RX softirqs on these CPUs since the last call, charged to packets. About as many are
    /// told of next time, whatever the load, and each stands for the time until it.
    pub fn charges(&mut self, cpus: &[u32]) -> Vec<Charge> {
        let mut charges = Vec::new();
        for cpu in cpus.iter().map(|&cpu| cpu as usize) {
            let (ring, before) = (self.charges.element(cpu), self.charges_before.get_mut(cpu));
            let Some((newest, before)) = ring.get(abi::CHARGES_NEWEST).zip(before) else {
                continue;
            };
            let newest = newest.load(Acquire);
            let kept = newest.saturating_sub(abi::CHARGE_PLACES as u64 - 1);
            let first = (std::mem::replace(before, newest) + 1).max(kept);
            let of_cpu = charges.len();
            charges.extend((first..=newest).filter_map(|number| charge_of(ring, cpu, number)));
            let ns: u64 = charges[of_cpu..].iter().map(|charge| charge.ns).sum();
            if ns > 0 {
                let step_ns = (ns / CHARGES).clamp(*STEPS_NS.start(), *STEPS_NS.end());
                self.records.set_step_ns(cpu, step_ns);
            }
        }
        charges
    }
}

/// The charge of this number in a CPU's ring, if it is there before and afterwards.
fn charge_of(ring: &[AtomicU64], cpu: usize, number: u64) -> Option<Charge> {
    let at = number as usize % abi::CHARGE_PLACES * abi::CHARGE_WORDS;
    let place = ring.get(abi::CHARGES_WORDS..)?.get(at..)?;
    let place = place.first_chunk::<{ abi::CHARGE_WORDS }>()?;
    let words = place.each_ref().map(|word| word.load(Acquire));
    let (tag, rest) = words.split_first_chunk()?;
    let ([ends @ .., ns], _) = rest.split_first_chunk::<{ ENDS_WORDS + 1 }>()?;
    let mut tag = stacks::tag_of(*tag);
    tag.last.flow = FlowEnds::from_words(*ends);
    let is_its = [words[NUMBER_AT], place[NUMBER_AT].load(Acquire)] == [number; 2];
    is_its.then_some(Charge { cpu, ns: *ns, tag })
}

/// Words of a packet that was met: `netto_met`.
const MET_WORDS: usize = 4 + ENDS_WORDS;
/// Words of the ends of a flow.
const ENDS_WORDS: usize = 5;
/// The word of a tag that has its number.
const NUMBER_AT: usize = 6;

fn met_of(words: [u64; MET_WORDS]) -> Met {
    let [cgroup, inode, interfaces, netns, ends @ ..] = words;
    Met {
        cgroup,
        inode,
        from: interfaces as u32,
        to: (interfaces >> 32) as u32,
        netns,
        flow: FlowEnds::from_words(ends),
    }
}

/// Reads a slot of the ring, if it is that of this sample before and afterwards.
fn read_place(place: &[AtomicU64], number: u64) -> Option<Answer> {
    let word = |at: usize| place.get(at).map_or(0, |word| word.load(Acquire));
    let is_its = || number != 0 && word(0) == number;
    if !is_its() {
        return None;
    }
    let answer = Answer {
        time_ns: word(1),
        met: met_of(std::array::from_fn(|at| word(2 + at))),
    };
    is_its().then_some(answer)
}

/// Keeps a new control group; returns 0, so that libbpf continues.
fn send_group(sender: &SyncSender<(u64, Vec<u8>)>, bytes: &[u8]) -> i32 {
    if let Some((id, path)) = bytes
        .get(..GROUP_BYTES)
        .and_then(<[u8]>::split_first_chunk::<8>)
    {
        let path: Vec<u8> = path.iter().copied().take_while(|byte| *byte != 0).collect();
        // If the channel is full, drop it: enough are queued.
        let _ = sender.try_send((u64::from_ne_bytes(*id), path));
    }
    0
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Release;

    use super::*;

    #[test]
    fn a_place_that_is_another_samples_tells_nothing() {
        let talk = 17 << 32 | 53 << 16 | 4242;
        let words = [
            7,
            1000,
            42,
            99,
            3 | 5 << 32,
            4_026_531_840,
            0,
            0,
            0,
            0,
            talk,
        ];
        let place = words.map(AtomicU64::new);
        let answer = Answer {
            time_ns: 1000,
            met: Met {
                cgroup: 42,
                inode: 99,
                from: 3,
                to: 5,
                netns: 4_026_531_840,
                flow: FlowEnds::from_words([0, 0, 0, 0, talk]),
            },
        };
        assert_eq!(read_place(&place, 7), Some(answer));
        assert_eq!(read_place(&place, 8), None);
        assert!(answer.met.flow.is_some());
        place[0].store(0, Release);
        assert_eq!(read_place(&place, 0), None, "0 is no sample's number");
    }

    #[test]
    fn a_charge_comes_with_its_payer_and_packet_unless_another_has_taken_its_place() {
        let number = 2 + abi::CHARGE_PLACES as u64;
        let mut words = vec![0; abi::CHARGES_WORDS + 3 * abi::CHARGE_WORDS];
        let talk = 17 << 32 | 53 << 16 | 4242;
        words[abi::CHARGES_WORDS + 2 * abi::CHARGE_WORDS..].copy_from_slice(&[
            10 << 32 | 11,
            7,
            1,
            0,
            0,
            1_000,
            number,
            42,
            99,
            3 | 5 << 32,
            4_026_531_840,
            0,
            0,
            0,
            0,
            talk,
            25_000,
        ]);
        let ring: Vec<AtomicU64> = words.into_iter().map(AtomicU64::new).collect();
        let charge = charge_of(&ring, 3, number).unwrap();
        assert_eq!((charge.cpu, charge.ns), (3, 25_000));
        let SampleTag {
            thread,
            cgroup,
            time_ns,
            last,
            ..
        } = charge.tag;
        assert_eq!((thread, cgroup, time_ns), (11, 7, 1_000));
        assert_eq!(
            (last.cgroup, last.inode, last.from, last.to),
            (42, 99, 3, 5)
        );
        assert!(last.flow.is_some());
        assert_eq!(charge_of(&ring, 3, 2), None);
        assert_eq!(charge_of(&ring, 3, number + 1), None, "there is no room");
    }

    #[test]
    fn a_group_is_kept_with_its_path_up_to_its_end_and_what_is_too_short_is_not() {
        let (sender, made) = sync_channel(4);
        let mut bytes = vec![0; GROUP_BYTES];
        bytes[0] = 9;
        bytes[8..14].copy_from_slice(b"/a\xffb/c");
        send_group(&sender, &bytes);
        send_group(&sender, &bytes[..20]);
        let id = u64::from_ne_bytes([9, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            made.try_iter().collect::<Vec<_>>(),
            [(id, b"/a\xffb/c".to_vec())]
        );
    }
}
