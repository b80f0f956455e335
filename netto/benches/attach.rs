//! Keeps the programs of a BPF object attached until standard input ends, for
//! `cargo xtask bench`, which compares what netto does with what it does not.
//!
//! `clock=HZ` in place of an object is perf's clock on each CPU, as netto's sampler has it, but
//! with no program and nobody who reads.

use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};

use anyhow::{Context, ensure};
use libbpf_rs::{ObjectBuilder, libbpf_sys};

fn main() -> anyhow::Result<()> {
    // Cargo adds options of its own.
    let Some(path) = std::env::args()
        .skip(1)
        .find(|word| !word.starts_with("--"))
    else {
        println!("attach: there is no object to attach; `cargo xtask bench` names one");
        return Ok(());
    };
    if let Some(frequency_hz) = path.strip_prefix("clock=") {
        let frequency_hz = frequency_hz.parse().context("a frequency is a number")?;
        let cpus = std::thread::available_parallelism()?.get();
        let clocks: anyhow::Result<Vec<OwnedFd>> =
            (0..cpus).map(|cpu| clock(cpu, frequency_hz)).collect();
        return hold(clocks?);
    }
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
    hold(links)
}

/// Until standard input ends.
fn hold<T>(_held: T) -> anyhow::Result<()> {
    println!("ready");
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// perf's clock on one CPU.
fn clock(cpu: usize, frequency_hz: u64) -> anyhow::Result<OwnedFd> {
    const SOFTWARE: u32 = 1;
    const CPU_CLOCK: u64 = 0;
    let mut attributes = libbpf_sys::perf_event_attr {
        type_: SOFTWARE,
        size: size_of::<libbpf_sys::perf_event_attr>() as u32,
        config: CPU_CLOCK,
        ..Default::default()
    };
    attributes.set_freq(1);
    attributes.__bindgen_anon_1.sample_freq = frequency_hz;
    let at = &raw const attributes;
    // SAFETY: the kernel reads one structure, which lives and tells its own size.
    let descriptor = unsafe { libc::syscall(libc::SYS_perf_event_open, at, -1, cpu as i32, -1, 0) };
    let failure = std::io::Error::last_os_error();
    ensure!(descriptor >= 0, "no perf clock on CPU {cpu}: {failure}");
    // SAFETY: the descriptor is new, and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}
