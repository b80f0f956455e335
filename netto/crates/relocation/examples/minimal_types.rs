//! `cargo xtask vm --types`: writes those types of a kernel (BTF) that netto's objects ask for.
//! Usage: `minimal_types FROM TO`.

use anyhow::{Context, ensure};
use netto_relocation::btf::Types;
use netto_relocation::{minimal, objects};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    ensure!(arguments.len() == 3, "usage: minimal_types FROM TO");
    let bytes =
        std::fs::read(&arguments[1]).with_context(|| format!("cannot read {}", arguments[1]))?;
    let types = minimal::minimal(&Types::read(&bytes)?, &objects()?)?;
    std::fs::write(&arguments[2], types.write())
        .with_context(|| format!("cannot write {}", arguments[2]))
}
