//! Derives the BPF side from the component table, compiles it, and embeds the
//! dashboard. Everything generated goes to `OUT_DIR`.

#[path = "build/abi.rs"]
mod abi;
#[path = "build/bpf.rs"]
mod bpf;
#[path = "build/dashboard.rs"]
mod dashboard;

use std::env;
use std::path::PathBuf;

use anyhow::Context;

fn main() -> anyhow::Result<()> {
    let folder = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .with_context(|| format!("cargo sets {name}"))
    };
    let out_dir = folder("OUT_DIR")?;
    let workspace = folder("CARGO_MANIFEST_DIR")?.join("..");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build");
    abi::generate(&out_dir)?;
    bpf::compile(&out_dir)?;
    dashboard::embed(&out_dir, &workspace)
}
