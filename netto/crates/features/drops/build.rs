//! The records and programs of this feature, for C and Rust.

use std::path::PathBuf;

use anyhow::Context;
use netto_bpf_build::{Abi, Constant, Record, compile};

/// Most distinguished places of drops: a power of two.
const DROP_PLACES: usize = 128;

const CONSTANTS: &[Constant] = &[Constant {
    name: "DROP_PLACES",
    value: DROP_PLACES,
    about: "Places of drops that are told apart.",
}];

const RECORDS: &[Record] = &[
    Record {
        name: "drop_places",
        about: "Where packets are dropped, of all CPUs.",
        fields: &[(
            "place",
            DROP_PLACES,
            "Subsystem and number of the reason, and the address: see drops.bpf.c; 0: none, 1: being given back.",
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
];

fn main() -> anyhow::Result<()> {
    let out_dir = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let out_dir = out_dir.context("cargo sets OUT_DIR")?;
    Abi {
        name: "drops",
        definitions: "",
        constants: CONSTANTS,
        records: RECORDS,
    }
    .generate(&out_dir)?;
    compile("src", &["drops"], &out_dir)
}
