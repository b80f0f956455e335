//! The platform's records, programs and parser, for C and Rust.

use std::path::PathBuf;

use anyhow::Context;

fn main() -> anyhow::Result<()> {
    let out_dir = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let out_dir = out_dir.context("cargo sets OUT_DIR")?;
    netto_bpf_build::base::generate(&out_dir)?;
    let objects = ["names", "netto", "preemption", "socket", "tick"];
    netto_bpf_build::compile("src/bpf", &objects, &out_dir)?;
    // The parser of packets again, for this process.
    cc::Build::new()
        .file("src/bpf/packet.c")
        .include(&out_dir)
        .warnings_into_errors(true)
        .try_compile("netto_packet")
        .context("cannot compile packet.c; `cargo xtask setup` installs what it needs")
}
