//! The programs of this crate.

use std::path::PathBuf;

use anyhow::Context;
use netto_bpf_build::compile;

fn main() -> anyhow::Result<()> {
    let out_dir = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let out_dir = out_dir.context("cargo sets OUT_DIR")?;
    compile("src", &["allocations", "arrivals", "truth"], &out_dir)
}
