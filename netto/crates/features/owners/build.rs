//! The records and programs of this feature, for C and Rust.

use std::path::PathBuf;

use anyhow::Context;
use netto_bpf_build::{Abi, Constant, Record, base, compile};

const CONSTANTS: &[Constant] = &[Constant {
    name: "ANSWER_WORDS",
    value: 6,
    about: "Words of what a sample that waited was told: see owners.bpf.h.",
}];

const RECORDS: &[Record] = &[Record {
    name: "answers",
    about: "Whose work the samples of one CPU were that had to wait to be told.",
    fields: &[
        ("told", 1, "Samples that were told."),
        (
            "words",
            0,
            "A ring of what they were told: see owners.bpf.h.",
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
