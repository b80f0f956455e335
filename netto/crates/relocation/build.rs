//! Lists the BPF objects of the crates that this one depends on, as their build scripts made them.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, ensure};

fn main() -> anyhow::Result<()> {
    let mut list = String::from("&[\n");
    for (variable, folder) in std::env::vars() {
        if !variable.starts_with("DEP_NETTO_") || !variable.ends_with("_GENERATED") {
            continue;
        }
        let entries =
            std::fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))?;
        let entries = entries.map(|entry| Ok(entry?.path()));
        let mut objects = entries.collect::<std::io::Result<Vec<PathBuf>>>()?;
        objects.retain(|path| path.to_string_lossy().ends_with(".bpf.o"));
        ensure!(!objects.is_empty(), "there is no object in {folder}");
        objects.sort();
        for path in objects {
            println!("cargo::rerun-if-changed={}", path.display());
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = name.trim_end_matches(".bpf.o");
            writeln!(list, "    ({name:?}, include_bytes!({path:?})),")?;
        }
    }
    list.push(']');
    let out_dir = std::env::var_os("OUT_DIR").context("cargo sets OUT_DIR")?;
    std::fs::write(PathBuf::from(out_dir).join("objects.rs"), list)
        .context("cannot write objects.rs")
}
