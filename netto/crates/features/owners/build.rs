//! The records and programs of this feature, for C and Rust.

use std::path::PathBuf;

use anyhow::Context;
use netto_bpf_build::{Abi, Constant, Record, base, compile};

const CONSTANTS: &[Constant] = &[Constant {
    name: "ANSWER_WORDS",
    value: 11,
    about: "Words of a report on a pending sample: see owners.bpf.h.",
}];

const RECORDS: &[Record] = &[Record {
    name: "answers",
    about: "Reports on the owners of pending samples of one CPU.",
    fields: &[
        ("told", 1, "Number of reports."),
        ("words", 0, "A ring of reports: see owners.bpf.h."),
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
