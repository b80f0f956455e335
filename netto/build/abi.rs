//! What BPF programs and user space agree on, written once and emitted for
//! both: `netto_abi.h` for C, `abi.rs` for Rust. Kinds come from the component table.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context;
use metrics_common::Source;
use metrics_common::component::{CLOCK_KINDS, SOFTIRQ_VECTORS};
use metrics_common::latency::{BUCKETS, Point};

/// The deepest stack that is kept. The deepest seen on real hosts has 55 frames.
const MAX_FRAMES: usize = 96;

/// Of the deepest stack that a trial of the tick's interrupt looks at; deeper ones are cut.
const TRIAL_FRAMES: usize = 32;

/// Whose a stack is, before its frames: see `stacks.bpf.h`.
const OWNER_WORDS: usize = 9;
/// What may stand before a stack's frames: the header, and whose it is.
const HEADER_WORDS: usize = 1 + OWNER_WORDS;

/// Words of what a sample that waited was told: see `owners.bpf.c`.
const CAUSE_WORDS: usize = 6;

/// Places of drops that are told apart: a power of two.
const DROP_PLACES: usize = 128;

/// Points at which latencies are taken.
const LATENCY_POINTS: usize = Point::ALL.len();
/// Buckets of the histogram of each.
const LATENCY_BUCKETS: usize = BUCKETS;
/// Groups of packets with histograms of their own.
const LATENCY_GROUPS: usize = 16;
/// Places for segments and packets that wait: a power of two.
const LATENCY_WAITING: usize = 1 << 16;
/// Datagrams of a socket that can wait to be read at once: a power of two.
const LATENCY_DATAGRAMS: usize = 128;

/// Words for something of each kind: as many as a mask of bits can tell apart.
const KIND_SLOTS: usize = CLOCK_KINDS.next_power_of_two();

/// A record of 64-bit words that both sides see at the same offsets.
struct Record {
    name: &'static str,
    about: &'static str,
    /// Name, number of words (0: as many as there are), comment.
    fields: &'static [(&'static str, usize, &'static str)],
}

const RECORDS: [Record; 11] = [
    Record {
        name: "control",
        about: "What user space tells the programs; written by nobody else.",
        fields: &[
            ("active_slot", 1, "The slot that samplers write to: 0 or 1."),
            (
                "softirqs_timed",
                1,
                "1: the clock knows of softirqs; 0: one may be on top of any task.",
            ),
            (
                "epoch",
                1,
                "States that were parked with tasks in another one are worthless.",
            ),
        ],
    },
    Record {
        name: "tick",
        about: "What the sampler that the scheduler's tick calls must know of it.",
        fields: &[
            (
                "own_frames",
                1,
                "Frames of the interrupt itself on every stack; 0: a trial is to tell.",
            ),
            ("tried", 1, "Ticks that the trial has met."),
            ("fewest_frames", 1, "The shallowest stack of the trial."),
            ("frames", TRIAL_FRAMES, "Room for a stack of the trial."),
        ],
    },
    Record {
        name: "cpu",
        about: "The clock of one CPU.",
        fields: &[
            (
                "total_ns",
                KIND_SLOTS,
                "Time charged to each kind; all kinds sum to since_ns - start_ns.",
            ),
            ("since_ns", 1, "Last transition, by bpf_ktime_get_ns."),
            ("kind", 1, "What the time since then is charged to."),
            (
                "state",
                1,
                "What the running task is doing: see clock.bpf.h.",
            ),
            ("start_ns", 1, "Value of since_ns when counting began."),
            (
                "interrupted_ns",
                1,
                "When the NIC interrupt at work began; 0 if none is.",
            ),
            (
                "irq_due_ns",
                1,
                "Time of NIC interrupts that is not charged yet.",
            ),
            (
                "ksoftirqd_pid",
                1,
                "Thread of this CPU's ksoftirqd; written by user space before attaching.",
            ),
            (
                "ksoftirqd_rx_ns",
                1,
                "RX softirq time that ran in ksoftirqd.",
            ),
            (
                "idle_samples",
                1,
                "Samples that found the CPU idle; written by its sampler only.",
            ),
            (
                "states_lost",
                1,
                "States of tasks that could not be kept over a context switch.",
            ),
            (
                "unseen_returns",
                1,
                "Socket calls whose return no kretprobe had room to wait for.",
            ),
            ("switches", 1, "Context switches that were seen."),
            (
                "waiting",
                1,
                "Number of the sample that waits to be told whose work it is; 0 if none does.",
            ),
            (
                "last_socket",
                1,
                "The socket that the softirq at hand met last; 0 if none.",
            ),
            ("numbered", 1, "Samples that were given a number."),
            (
                "leaving_skb",
                1,
                "The packet that left last with an answer, which may leave again.",
            ),
            (
                "leaving_number",
                1,
                "Number of the sample that it answered.",
            ),
            ("leaving_to", 1, "Interface by which it left."),
            (
                "met",
                1,
                "Sockets and packets that were met by who tells owners.",
            ),
            ("entries", KIND_SLOTS, "How often each kind was entered."),
        ],
    },
    Record {
        name: "causes",
        about: "Whose work the samples of one CPU were that had to wait to be told.",
        fields: &[
            ("told", 1, "Samples that were told."),
            (
                "words",
                0,
                "A ring of what they were told: see owners.bpf.h.",
            ),
        ],
    },
    Record {
        name: "lane",
        about: "The stacks sampled on one CPU in one slot.",
        fields: &[
            ("in_flight", 1, "Number of writers at work, 0 or 1."),
            ("used_words", 1, "Words of whole traces."),
            ("lost", 1, "Traces that found no room, since the beginning."),
            ("words", 0, "Traces, packed: see stacks.bpf.h."),
        ],
    },
    Record {
        name: "drop_places",
        about: "Where packets are dropped, of all CPUs.",
        fields: &[(
            "place",
            DROP_PLACES,
            "Subsystem and number of the reason, and the address: see drops.bpf.c; 0: none yet.",
        )],
    },
    Record {
        name: "drop_counts",
        about: "Packets that one CPU has dropped.",
        fields: &[
            ("runs", 1, "How often the probe ran."),
            ("other", 1, "At places that there was no room for."),
            ("packets", DROP_PLACES, "At each place."),
        ],
    },
    Record {
        name: "work",
        about: "Messages of sockets and polls of NAPI on one CPU: see work.bpf.c.",
        fields: &[
            ("messages_sent", 1, "Messages that sockets took."),
            ("bytes_sent", 1, "Their bytes."),
            ("messages_received", 1, "Messages that sockets gave."),
            ("bytes_received", 1, "Their bytes."),
            ("polls", 1, "Polls of NAPI."),
            ("polled_packets", 1, "Packets that they found."),
            ("others", 1, "Calls that were looked at and not counted."),
        ],
    },
    Record {
        name: "latency",
        about: "Latencies of one CPU, or of a group of packets on it: see latency.bpf.c.",
        fields: &[
            (
                "runs",
                1,
                "Latencies that were taken, or not for being in no group.",
            ),
            (
                "offset_ns",
                1,
                "What the clock of the day is ahead of the one that never goes back.",
            ),
            (
                "trusted_from_ns",
                1,
                "Stamps before this are of another clock: it was set.",
            ),
            ("went_back", 1, "1: it was set back then."),
            (
                "met_socket",
                1,
                "The socket that the last packet was for; 0 if none.",
            ),
            ("met_stamp_ns", 1, "Stamp of that packet."),
            ("met_interface", 1, "Interface by which it came."),
            (
                "sum_ns",
                LATENCY_POINTS,
                "Sum of the latencies at each point.",
            ),
            ("negative", LATENCY_POINTS, "Those that were negative."),
            (
                "too_long",
                LATENCY_POINTS,
                "Those that were too long for a bucket.",
            ),
            (
                "buckets",
                LATENCY_POINTS * LATENCY_BUCKETS,
                "Histograms, one after another.",
            ),
        ],
    },
    Record {
        name: "latency_clock",
        about: "The clock that packets are stamped by; written by user space only.",
        fields: &[(
            "offset_ns",
            1,
            "What it is ahead of the one that never goes back.",
        )],
    },
    Record {
        name: "latency_groups",
        about: "Which group of packets has which place, of all CPUs.",
        fields: &[("key", LATENCY_GROUPS, "What it is known by; 0: none yet.")],
    },
];

/// Writes `netto_abi.h` and `abi.rs`.
pub fn generate(out_dir: &Path) -> anyhow::Result<()> {
    let mut c = String::from(
        "/* Generated by build/abi.rs. */\n#ifndef NETTO_ABI_H\n#define NETTO_ABI_H\n\n",
    );
    let mut rust = String::from("// Generated by build/abi.rs.\n");

    writeln!(c, "#define NETTO_KIND_SLOTS {KIND_SLOTS}")?;
    writeln!(c, "#define NETTO_SOFTIRQS {SOFTIRQ_VECTORS}")?;
    writeln!(c, "#define NETTO_KIND_OF_SOFTIRQ(vector) (1ULL + (vector))")?;
    for (name, source) in [
        ("SOCKET_SEND", Source::SocketSend),
        ("SOCKET_RECEIVE", Source::SocketReceive),
        ("LOCAL_IPC", Source::LocalIpc),
        ("IO_WORKER", Source::IoWorker),
        ("NIC_INTERRUPT", Source::NicInterrupt),
    ] {
        writeln!(c, "#define NETTO_KIND_{name} {}ULL", source.clock_kind())?;
    }
    writeln!(c, "#define NETTO_MAX_FRAMES {MAX_FRAMES}")?;
    writeln!(c, "#define NETTO_OWNER_WORDS {OWNER_WORDS}")?;
    writeln!(c, "#define NETTO_CAUSE_WORDS {CAUSE_WORDS}")?;
    writeln!(c, "#define NETTO_DROP_PLACES {DROP_PLACES}")?;
    writeln!(
        rust,
        "/// Places of drops that are told apart.\npub const DROP_PLACES: usize = {DROP_PLACES};"
    )?;
    for (name, value) in [
        ("POINTS", LATENCY_POINTS),
        ("BUCKETS", LATENCY_BUCKETS),
        ("GROUPS", LATENCY_GROUPS),
        ("WAITING", LATENCY_WAITING),
        ("DATAGRAMS", LATENCY_DATAGRAMS),
    ] {
        writeln!(c, "#define NETTO_LATENCY_{name} {value}")?;
    }
    writeln!(
        rust,
        "/// Places for packets that wait to be read.\npub const LATENCY_WAITING: u32 = {LATENCY_WAITING};"
    )?;
    writeln!(
        rust,
        "/// Groups of packets with histograms of their own.\n\
         pub const LATENCY_GROUPS: usize = {LATENCY_GROUPS};"
    )?;
    writeln!(
        c,
        "#define NETTO_TRACE_WORDS ({HEADER_WORDS} + NETTO_MAX_FRAMES)"
    )?;
    writeln!(
        rust,
        "/// Words that say whose a trace is.\npub const OWNER_WORDS: usize = {OWNER_WORDS};\n\
         /// Words of what a sample that waited was told.\npub const CAUSE_WORDS: usize = {CAUSE_WORDS};"
    )?;
    writeln!(
        rust,
        "/// Frames that a trial of the tick has room for.\npub const TRIAL_FRAMES: usize = {TRIAL_FRAMES};"
    )?;
    writeln!(
        rust,
        "/// Words of the longest trace, its header included.\npub const TRACE_WORDS: usize = {};",
        MAX_FRAMES + HEADER_WORDS
    )?;

    for record in RECORDS {
        let name = record.name;
        writeln!(c, "\n/* {} */\nstruct netto_{name} {{", record.about)?;
        let mut offset = 0;
        for (field, words, about) in record.fields {
            let (array, shown) = match words {
                0 => ("[]".to_owned(), "the rest"),
                1 => (String::new(), "one word"),
                _ => (format!("[{words}]"), "several words"),
            };
            writeln!(c, "\t__u64 {field}{array}; /* {about} */")?;
            writeln!(
                rust,
                "/// Offset in words: {about} ({shown})\npub const {}_{}: usize = {offset};",
                name.to_uppercase(),
                field.to_uppercase()
            )?;
            offset += words;
        }
        if record.fields.iter().all(|(_, words, _)| *words > 0) {
            // Records of different CPUs must not share a cache line; prefetchers
            // fetch lines in pairs, hence 128 bytes.
            writeln!(c, "}} __attribute__((aligned(128)));")?;
            let bytes = (offset * 8).next_multiple_of(128);
            writeln!(
                rust,
                "/// Bytes of one record.\npub const {}_BYTES: usize = {bytes};",
                name.to_uppercase()
            )?;
        } else {
            writeln!(c, "}};")?;
        }
    }
    c.push_str("\n#endif\n");

    fs::write(out_dir.join("netto_abi.h"), c).context("cannot write netto_abi.h")?;
    fs::write(out_dir.join("abi.rs"), rust).context("cannot write abi.rs")
}
