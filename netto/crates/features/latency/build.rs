//! The records and programs of this feature, for C and Rust.

use std::path::PathBuf;

use anyhow::Context;
use netto_bpf_build::metrics_common::latency::{BUCKETS, Point};
use netto_bpf_build::{Abi, Constant, Record, compile};

/// Number of points.
const LATENCY_POINTS: usize = Point::ALL.len();
/// Buckets of each histogram.
const LATENCY_BUCKETS: usize = BUCKETS;
/// Groups of packets with histograms of their own.
const LATENCY_GROUPS: usize = 16;
/// Slots for waiting segments and packets: a power of two.
const LATENCY_WAITING: usize = 1 << 16;
/// Sets of notes of arrivals: a power of two.
const LATENCY_ARRIVALS: usize = 1 << 14;
/// Places for UDP sockets whose datagrams wait: a power of two.
const LATENCY_SOCKETS: usize = 1 << 10;
/// Places for connections that came out of order: a power of two.
const LATENCY_DISORDERS: usize = 1 << 14;
/// Places of a set: a power of two.
const LATENCY_WAYS: usize = 8;
/// Stamps of a socket's datagrams that are kept; of those behind them only the first: a power of
/// two.
const LATENCY_DATAGRAMS: usize = 128;

const CONSTANTS: &[Constant] = &[
    Constant {
        name: "LATENCY_POINTS",
        value: LATENCY_POINTS,
        about: "Points at which latencies are taken.",
    },
    Constant {
        name: "LATENCY_HISTOGRAM_BUCKETS",
        value: LATENCY_BUCKETS,
        about: "Buckets of the histogram of each.",
    },
    Constant {
        name: "LATENCY_GROUPS",
        value: LATENCY_GROUPS,
        about: "Groups of packets with histograms of their own.",
    },
    Constant {
        name: "LATENCY_WAITING",
        value: LATENCY_WAITING,
        about: "Places for packets that wait to be read.",
    },
    Constant {
        name: "LATENCY_ARRIVALS",
        value: LATENCY_ARRIVALS,
        about: "Sets of notes of arrivals.",
    },
    Constant {
        name: "LATENCY_SOCKETS",
        value: LATENCY_SOCKETS,
        about: "Places for UDP sockets whose datagrams wait to be read.",
    },
    Constant {
        name: "LATENCY_DISORDERS",
        value: LATENCY_DISORDERS,
        about: "Places for connections that came out of order.",
    },
    Constant {
        name: "LATENCY_WAYS",
        value: LATENCY_WAYS,
        about: "Places of a set.",
    },
    Constant {
        name: "LATENCY_DATAGRAMS",
        value: LATENCY_DATAGRAMS,
        about: "Stamps of a socket's datagrams that are kept.",
    },
];

const RECORDS: &[Record] = &[
    Record {
        name: "latency",
        about: "Latencies of one CPU, or of a group of packets on it: see latency_counts.bpf.h.",
        fields: &[
            (
                "runs",
                1,
                "Latencies that were taken, or not for being in no group.",
            ),
            (
                "offset_ns",
                1,
                "Offset of CLOCK_REALTIME from CLOCK_MONOTONIC, nanoseconds.",
            ),
            (
                "trusted_from_ns",
                1,
                "Stamps before this are of another clock: it was set.",
            ),
            ("went_back", 1, "1: it was set back then."),
            (
                "pending",
                1,
                "The packet being enqueued, or the socket that the last one was for; 0 if none.",
            ),
            ("pending_stamp_ns", 1, "Stamp of that packet."),
            ("pending_ifindex", 1, "Interface by which it came."),
            (
                "raised_ns",
                2,
                "When the RX and the TX softirq that are pending were raised; 0 while none is.",
            ),
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
                "lost",
                LATENCY_POINTS,
                "Packets there of which it was lost when they came, or were enqueued.",
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
        about: "The clock of packets' timestamps; written by user space only.",
        fields: &[(
            "offset_ns",
            1,
            "Its offset from CLOCK_MONOTONIC, nanoseconds.",
        )],
    },
    Record {
        name: "latency_groups",
        about: "The groups of packets by index, for all CPUs.",
        fields: &[("key", LATENCY_GROUPS, "Its identity; 0: none yet.")],
    },
];

fn main() -> anyhow::Result<()> {
    let out_dir = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let out_dir = out_dir.context("cargo sets OUT_DIR")?;
    Abi {
        name: "latency",
        definitions: "",
        constants: CONSTANTS,
        records: RECORDS,
    }
    .generate(&out_dir)?;
    compile("src", &["latency"], &out_dir)
}
