//! The platform's records and programs, for C and Rust.

use std::path::PathBuf;

use anyhow::Context;

fn main() -> anyhow::Result<()> {
    let out_dir = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let out_dir = out_dir.context("cargo sets OUT_DIR")?;
    netto_bpf_build::base::generate(&out_dir)?;
    let objects = ["netto", "preemption", "socket", "tick"];
    netto_bpf_build::compile("src/bpf", &objects, &out_dir)
}
