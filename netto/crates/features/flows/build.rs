//! The records and the programs of this feature, for C and Rust.

use std::path::PathBuf;

use anyhow::Context;
use netto_bpf_build::{Abi, Constant, Record, compile};

/// The end has no words: a record with it is not padded to a cache line.
const END: (&str, usize, &str) = ("end", 0, "");
const SOURCE: (&str, usize, &str) = ("source", 2, "Address, IPv4 mapped into IPv6.");
const DESTINATION: (&str, usize, &str) = ("destination", 2, "Address, likewise.");
const PLACE: (&str, usize, &str) = ("place", 1, "Interface, outer and inner VLAN.");

const PACKETS: (&str, usize, &str) = ("packets", 1, "On the wire.");
const BYTES: (&str, usize, &str) = ("bytes", 1, "Of IP packets.");
const FIRST: (&str, usize, &str) = ("first_ns", 1, "When the first was seen.");
const LAST: (&str, usize, &str) = ("last_ns", 1, "When the last was seen.");
const FLAGS: (&str, usize, &str) = ("tcp_flags", 1, "All that were seen.");
const DSCPS: (&str, usize, &str) = ("dscps", 1, "One bit for each that was seen.");
const TTLS: (&str, usize, &str) = ("ttls", 4, "One bit for each that was seen.");
const SQUARES: (&str, usize, &str) = (
    "squares",
    1,
    "Of the numbers of packets that came as one, their sum.",
);

fn main() -> anyhow::Result<()> {
    let out_dir = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let out_dir = out_dir.context("cargo sets OUT_DIR")?;
    let number = |name, value, about| Constant { name, value, about };
    Abi {
        name: "flows",
        definitions: "",
        constants: &[
            number("FLOWS_IN", 1, "Direction: received."),
            number("FLOWS_OUT", 2, "Direction: sent."),
            number(
                "FLOWS_DIRECTION_BIT",
                48,
                "Place of the direction in a key's third word.",
            ),
            number(
                "FLOWS_CPU_BIT",
                50,
                "Place of the CPU in it: a flow has an entry for each CPU.",
            ),
            number(
                "FLOWS_FORM_BIT",
                44,
                "Place of the form in it: 0 for a flow, else which prefix it is.",
            ),
            number("FLOWS_OF_ENDS", 1, "Form: a prefix of sources to an address."),
            number("FLOWS_OF_DESTINATION", 2, "Form: any source to an address."),
            number("FLOWS_OF_SOURCE", 3, "Form: a prefix of sources to anywhere."),
            number("FLOWS_SETS", 4, "Sets of totals of a CPU."),
            number(
                "FLOWS_SENT_BIT",
                1,
                "Of the number of such a set: sent, not received.",
            ),
        ],
        records: &[
            Record {
                name: "flow",
                about: "What is counted of a flow.",
                fields: &[
                    PACKETS, BYTES, FIRST, LAST, FLAGS, DSCPS, TTLS, SQUARES, END,
                ],
            },
            Record {
                name: "flow_prefix",
                about: "What is counted of a prefix: first what is counted of a flow.",
                fields: &[
                    PACKETS,
                    BYTES,
                    FIRST,
                    LAST,
                    FLAGS,
                    DSCPS,
                    TTLS,
                    SQUARES,
                    (
                        "classes",
                        4,
                        "Of 256 classes of flows by their keys, a bit for each that was seen.",
                    ),
                    END,
                ],
            },
            Record {
                name: "flow_fragment",
                about: "Which packet a fragment is of.",
                fields: &[
                    SOURCE,
                    DESTINATION,
                    ("id", 1, "Identification; for IPv4 with the protocol."),
                    PLACE,
                    END,
                ],
            },
            Record {
                name: "flow_totals",
                about: "What one CPU has seen, whether or not it is in the table.",
                fields: &[
                    ("packets", 1, "IP packets that belong to flows."),
                    ("ip_bytes", 1, "Their bytes."),
                    (
                        "lost_packets",
                        1,
                        "Those of them for which the table had no room.",
                    ),
                    ("lost_bytes", 1, "Their bytes."),
                    ("malformed_packets", 1, "Frames with a wrong header."),
                    ("malformed_bytes", 1, "Bytes of these frames."),
                    ("other_packets", 1, "Frames without an IP packet."),
                    ("other_bytes", 1, "Bytes of these frames."),
                    (
                        "passed_packets",
                        1,
                        "Packets that were not sampled for the table.",
                    ),
                    ("passed_bytes", 1, "Their bytes."),
                ],
            },
            Record {
                name: "flows_control",
                about: "What user space tells the programs.",
                fields: &[
                    ("table", 1, "The current table: 0 or 1."),
                    (
                        "one_in",
                        1,
                        "One in so many packets is sampled for the table.",
                    ),
                    (
                        "full",
                        2,
                        "Of each table, a bit if it has been full, and one for each form of prefix.",
                    ),
                ],
            },
        ],
    }
    .generate(&out_dir)?;
    netto_bpf_build::base::generate_header(&out_dir)?;
    compile("src", &["flows"], &out_dir)
}
