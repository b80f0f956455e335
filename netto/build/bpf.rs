//! Compiles the BPF programs and generates their skeletons.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Context;
use libbpf_cargo::SkeletonBuilder;

/// Compiles every object of `src/bpf` into a skeleton in `out_dir`.
pub fn compile(out_dir: &Path) -> anyhow::Result<()> {
    println!("cargo:rerun-if-changed=src/bpf");
    for object in [
        "netto", "socket", "tick", "owners", "drops", "work", "latency",
    ] {
        let mut include = OsString::from("-I");
        include.push(out_dir);
        SkeletonBuilder::new()
            .source(format!("src/bpf/{object}.bpf.c"))
            .obj(out_dir.join(format!("{object}.bpf.o")))
            // v3 has the atomic operations that return the old value.
            .clang_args([include, "-mcpu=v3".into(), "-Wall".into(), "-Wextra".into(), "-Werror".into(), "-Wno-unused-parameter".into()])
            .build_and_generate(out_dir.join(format!("{object}.skel.rs")))
            .with_context(|| {
                format!("cannot compile src/bpf/{object}.bpf.c; `cargo xtask setup` installs what it needs (clang, libelf and zlib headers)")
            })?;
    }
    Ok(())
}
