//! Layouts and constants shared by the platform's programs and user space. Kinds come from the
//! component table.

use std::path::Path;

use metrics_common::Source;
use metrics_common::component::{CLOCK_KINDS, SOFTIRQ_VECTORS};

use crate::{Abi, Constant, Record};

/// The deepest stack that is kept. The deepest one observed on real hosts has 55 frames.
const MAX_FRAMES: usize = 96;

/// Depth to which a trial of the tick's interrupt reads stacks; deeper ones are cut.
const TRIAL_FRAMES: usize = 32;

/// The tag of a sample, before its frames: see `stacks.bpf.h`.
pub const SAMPLE_TAG_WORDS: usize = 11;

/// The ends of a packet's flow: see `owner_tag.bpf.h`.
pub const ENDS_WORDS: usize = 5;

/// Most words before a stack's frames: the header, the tag, and the ends of the packet's flow.
const HEADER_WORDS: usize = 1 + SAMPLE_TAG_WORDS + ENDS_WORDS;

/// Softirqs of a CPU that are kept in an interval.
const LONG_SOFTIRQS: usize = 10;

/// Length, kind, and what a sample's tag has.
const LONG_SOFTIRQ_WORDS: usize = 2 + SAMPLE_TAG_WORDS;

/// Size of arrays indexed by kind: a power of two, so that an index can be masked.
const KIND_SLOTS: usize = CLOCK_KINDS.next_power_of_two();

const CONSTANTS: &[Constant] = &[
    Constant {
        name: "MAX_FRAMES",
        value: MAX_FRAMES,
        about: "The deepest stack that is kept.",
    },
    Constant {
        name: "SAMPLE_TAG_WORDS",
        value: SAMPLE_TAG_WORDS,
        about: "Words of a sample's tag.",
    },
    Constant {
        name: "ENDS_WORDS",
        value: ENDS_WORDS,
        about: "Words of the ends of a packet's flow.",
    },
    Constant {
        name: "TRIAL_FRAMES",
        value: TRIAL_FRAMES,
        about: "Frames that a trial of the tick has room for.",
    },
    Constant {
        name: "LONG_SOFTIRQS",
        value: LONG_SOFTIRQS,
        about: "Softirqs of a CPU that are kept in an interval: the longest.",
    },
    Constant {
        name: "LONG_SOFTIRQ_WORDS",
        value: LONG_SOFTIRQ_WORDS,
        about: "Words of one of them: see long_softirqs.bpf.h.",
    },
    Constant {
        name: "TRACE_WORDS",
        value: MAX_FRAMES + HEADER_WORDS,
        about: "Words of the longest trace, its header included.",
    },
    Constant {
        name: "PACKET_PARSED",
        value: 0,
        about: "The packet belongs to a flow.",
    },
    Constant {
        name: "PACKET_OTHER",
        value: 1,
        about: "The frame carries no IP packet.",
    },
    Constant {
        name: "PACKET_MALFORMED",
        value: 2,
        about: "A header is wrong or cut off.",
    },
    Constant {
        name: "PACKET_VERSIONS",
        value: 7,
        about: "Bits of the version of IP.",
    },
    Constant {
        name: "PACKET_VLAN",
        value: 1 << 12,
        about: "There is a VLAN tag.",
    },
    Constant {
        name: "PACKET_FIRST_FRAGMENT",
        value: 1,
        about: "It has the ports of all.",
    },
    Constant {
        name: "PACKET_LATER_FRAGMENT",
        value: 2,
        about: "It has no ports.",
    },
];

const RECORDS: &[Record] = &[
    Record {
        name: "flow_packet",
        about: "What the parser finds in a packet (see packet.h). It begins with the key of the flow.",
        fields: &[
            ("source", 2, "Address, IPv4 mapped into IPv6."),
            ("destination", 2, "Address, likewise."),
            (
                "talk",
                1,
                "Source port, destination port (or type and code), protocol, version of IP.",
            ),
            ("place", 1, "Bits 32..47 and 48..63: outer and inner VLAN."),
            ("ip_bytes", 1, "Of the IP packet."),
            ("header_bytes", 1, "Of its headers, up to the transport's."),
            ("tcp_flags", 1, "As in the header."),
            ("tos", 1, "Type of service or traffic class."),
            ("ttl", 1, "Time to live or hop limit."),
            ("fragment", 1, "0, or which fragment it is."),
            ("fragment_id", 1, "What fragments of one packet share."),
            ("end", 0, ""),
        ],
    },
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
            (
                "long_set",
                1,
                "Where the longest softirqs of CPUs are kept: 0 or 1.",
            ),
            (
                "alarm_softirqs",
                1,
                "RX softirqs over which the rate of a load that begins is measured.",
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
            (
                "long_above_ns",
                1,
                "A softirq that takes longer is kept: see long_softirqs.bpf.h.",
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
                "alarm_at",
                1,
                "At this number of RX softirqs a load may have begun: see alarm.bpf.h.",
            ),
            (
                "alarm_from_ns",
                1,
                "When the measurement of its rate began; 0 if it has not.",
            ),
            (
                "alarm_ns",
                1,
                "How long alarm_softirqs took; 0 if that is not known yet.",
            ),
            (
                "idle_samples",
                1,
                "Samples that found the CPU idle; written by its sampler only.",
            ),
            (
                "tick_chance",
                1,
                "Of 2^32 ticks, how many take a sample; written by user space.",
            ),
            (
                "timers",
                1,
                "Timers that have called the sampler at the tick, which is one of them.",
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
            ("entries", KIND_SLOTS, "How often each kind was entered."),
        ],
    },
    Record {
        name: "tag",
        about: "What tags of samples of one CPU need: see owner_tag.bpf.h.",
        fields: &[
            (
                "waiting",
                1,
                "Number of the sample that waits to be told whose work it is; 0 if none does.",
            ),
            (
                "waiting_worker",
                1,
                "Who must meet its packet: 0 for the softirq at hand, else a thread of the kernel.",
            ),
            (
                "softirq_worker",
                1,
                "Who serves a softirq, as in waiting_worker but never 0, while owners' probes are attached; 0 if none is.",
            ),
            (
                "last_socket",
                1,
                "The socket that was met last, or that sent the packet; 0 if none.",
            ),
            (
                "last_device",
                1,
                "The device of that packet; 0 if a socket received it.",
            ),
            ("last_interfaces", 1, "Its interfaces, as in answers."),
            ("last_worker", 1, "Who met it, as in waiting_worker."),
            (
                "last_header",
                1,
                "Where the network header of the packet is that has found its socket last; 0 if unknown.",
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
                "softirq_runs",
                1,
                "Runs in softirqs of the programs that meet packets.",
            ),
            ("task_runs", 1, "Their runs in tasks."),
            (
                "since_ns",
                1,
                "When the RX softirq at hand began or met a packet, by a clock that stands while it is preempted; 0 if none is.",
            ),
            (
                "due_ns",
                1,
                "Time of such softirqs, from the begin of a step.",
            ),
            (
                "point_ns",
                1,
                "The point of that time at which a packet is told of next; 0 before the first.",
            ),
            (
                "step_ns",
                1,
                "Time of such softirqs for which one packet is told of; user space writes it, too.",
            ),
            (
                "last_ends",
                ENDS_WORDS,
                "The ends of the packet that was met last, where it was looked into.",
            ),
            (
                "sending",
                1,
                "Number of the sample of a task that waits to be told of which flow it is; 0 if none does.",
            ),
            ("sending_worker", 1, "That task, as in waiting_worker."),
        ],
    },
    Record {
        name: "long",
        about: "The longest softirqs of one CPU: see long_softirqs.bpf.h.",
        fields: &[
            ("writing", 1, "1 while its program writes here."),
            (
                "kept",
                2 * LONG_SOFTIRQS * LONG_SOFTIRQ_WORDS,
                "Two sets of them, in no order.",
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
];

/// Writes `netto_abi.h` and `abi.rs`.
///
/// # Errors
/// A folder that cannot be written to.
pub fn generate(out_dir: &Path) -> anyhow::Result<()> {
    let definitions = definitions();
    let abi = abi(&definitions);
    abi.write_header(out_dir)?;
    abi.write_rust(out_dir)
}

/// Writes `netto_abi.h` alone, for programs that include `clock.bpf.h` or `packet.h`.
///
/// # Errors
/// A folder that cannot be written to.
pub fn generate_header(out_dir: &Path) -> anyhow::Result<()> {
    abi(&definitions()).write_header(out_dir)
}

fn abi(definitions: &str) -> Abi<'_> {
    Abi {
        name: "netto",
        definitions,
        constants: CONSTANTS,
        records: RECORDS,
    }
}

fn definitions() -> String {
    let mut c = format!(
        "#define NETTO_KIND_SLOTS {KIND_SLOTS}\n\
         #define NETTO_SOFTIRQS {SOFTIRQ_VECTORS}\n\
         #define NETTO_KIND_OF_SOFTIRQ(vector) (1ULL + (vector))\n"
    );
    for (name, source) in [
        ("SOCKET_SEND", Source::SocketSend),
        ("SOCKET_RECEIVE", Source::SocketReceive),
        ("LOCAL_IPC", Source::LocalIpc),
        ("IO_WORKER", Source::IoWorker),
        ("NIC_INTERRUPT", Source::NicInterrupt),
    ] {
        let kind = source.clock_kind();
        c.push_str(&format!("#define NETTO_KIND_{name} {kind}ULL\n"));
    }
    c
}
