//! The record and the program of this feature, for C and Rust.

use std::path::PathBuf;

use anyhow::Context;
use netto_bpf_build::{Abi, Record, compile};

fn main() -> anyhow::Result<()> {
    let out_dir = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let out_dir = out_dir.context("cargo sets OUT_DIR")?;
    Abi {
        name: "ticks",
        definitions: "",
        constants: &[],
        records: &[Record {
            name: "ticks",
            about: "Softirqs that one CPU has raised.",
            fields: &[("raised", 1, "How many.")],
        }],
    }
    .generate(&out_dir)?;
    compile("src", &["ticks"], &out_dir)
}
