//! Derives the BPF side from the component table, compiles it, and embeds the
//! dashboard. Everything generated goes to `OUT_DIR`.

#[path = "build/abi.rs"]
mod abi;
#[path = "build/bpf.rs"]
mod bpf;

use std::env;
use std::path::PathBuf;

use anyhow::Context;

fn main() -> anyhow::Result<()> {
    let out_dir =
        PathBuf::from(env::var_os("OUT_DIR").context("cargo sets OUT_DIR for build scripts")?);
    abi::generate(&out_dir)?;
    bpf::compile(&out_dir)
}
