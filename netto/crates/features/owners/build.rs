//! The records and programs of this feature, for C and Rust.

use std::path::PathBuf;

use anyhow::Context;
use netto_bpf_build::{Abi, Constant, Record, base, compile};

/// A tag and the ends of a flow, as samples have, and a time.
const CHARGE_WORDS: usize = base::SAMPLE_TAG_WORDS + base::ENDS_WORDS + 1;
const CHARGE_PLACES: usize = 512;

const CONSTANTS: &[Constant] = &[
    Constant {
        name: "ANSWER_WORDS",
        value: 11,
        about: "Words of a report on a pending sample: see owners.bpf.h.",
    },
    Constant {
        name: "CHARGE_WORDS",
        value: CHARGE_WORDS,
        about: "Words of a packet that time was charged to: see owners.bpf.h.",
    },
    Constant {
        name: "CHARGE_PLACES",
        value: CHARGE_PLACES,
        about: "Such packets of a CPU that are kept until they are read: a power of two.",
    },
];

const RECORDS: &[Record] = &[Record {
    name: "charges",
    about: "Packets of one CPU that time was charged to.",
    fields: &[
        ("newest", 1, "Number of the newest one."),
        (
            "words",
            CHARGE_PLACES * CHARGE_WORDS,
            "A ring of them: see owners.bpf.h.",
        ),
    ],
}];

fn main() -> anyhow::Result<()> {
    let out_dir = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let out_dir = out_dir.context("cargo sets OUT_DIR")?;
    base::generate_header(&out_dir)?;
    Abi {
        name: "owners",
        definitions: "",
        constants: CONSTANTS,
        records: RECORDS,
    }
    .generate(&out_dir)?;
    compile("src", &["owners"], &out_dir)
}
