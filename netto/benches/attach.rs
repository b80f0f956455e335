//! Keeps the programs of a BPF object attached until standard input ends, for
//! `cargo xtask bench`, which compares what netto does with what it does not.

use std::io::{Read, Write};

use anyhow::Context;
use libbpf_rs::ObjectBuilder;

fn main() -> anyhow::Result<()> {
    // Cargo adds options of its own.
    let Some(path) = std::env::args()
        .skip(1)
        .find(|word| !word.starts_with("--"))
    else {
        println!("attach: there is no object to attach; `cargo xtask bench` names one");
        return Ok(());
    };
    let object = ObjectBuilder::default()
        .open_file(&path)
        .with_context(|| format!("cannot open {path}"))?
        .load()
        .with_context(|| format!("the kernel refuses {path}"))?;
    let mut links = Vec::new();
    for program in object.progs_mut() {
        let link = program.attach();
        links.push(link.with_context(|| format!("cannot attach {:?}", program.name()))?);
    }
    println!("ready");
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    drop(links);
    Ok(())
}
