//! Who turns owners off pays nothing for them: no program of theirs, and none of their instructions
//! in the others.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Composite, MemberAttr};
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions, ProgramInfo};
use metrics_common::Availability;

use crate::daemon::{Daemon, Shared, binary};
use crate::running;

/// The records of a CPU, the one among them that only tags of samples are about, and its words.
const RECORDS: &str = "netto_cpu_records";
const RECORD: (&str, &str) = ("tag", "netto_tag");
const OF_OWNERS: [&str; 3] = ["last_socket", "waiting", "numbered"];
/// The programs that do more for owners, by as much of their name as the kernel keeps.
const SHARED: [&str; 1] = ["netto_sample"];

pub fn turned_off() -> Result<()> {
    let daemon = Daemon::start_beside(&["--owners", "none"])?;
    no_program_and_told_how_to_ask(&daemon)?;
    no_instruction(&daemon)
}

/// Nothing is attached, measured or said, and the reason names the option.
fn no_program_and_told_how_to_ask(daemon: &Daemon) -> Result<()> {
    let info = daemon.info()?;
    ensure!(!info.probes.iter().any(|probe| probe.purpose == "owners"));
    let instrument = info
        .instruments
        .iter()
        .find(|instrument| instrument.name == "owners");
    let Availability::Unavailable { reason } = &instrument.context("not listed")?.availability
    else {
        bail!("it runs though it is turned off");
    };
    ensure!(reason.contains("--owners cgroup"), "{reason}");
    ensure!(daemon.snapshot()?.get("owners").is_none());
    let status = Command::new(binary())
        .args(["run", "--owners", "everybody"])
        .output()?;
    let printed = String::from_utf8_lossy(&status.stderr).into_owned();
    ensure!(
        status.status.code() == Some(2) && printed.contains("cgroup"),
        "{printed}"
    );
    Ok(())
}

/// The kernel takes away what a constant says is never done, so that a softirq and a sample write
/// nothing for owners where nobody wants them. What is left is reading that constant.
fn no_instruction(daemon: &Daemon) -> Result<()> {
    let without = shared_programs(daemon)?;
    let with = shared_programs(&*Shared::take()?)?;
    for name in SHARED {
        let of = |programs: &BTreeMap<String, Loaded>| -> Result<Loaded> {
            let found = programs.get(name).copied();
            found.with_context(|| format!("{name} is not loaded"))
        };
        let (without, with) = (of(&without)?, of(&with)?);
        println!("{name}: {without:?} without owners, {with:?} with them");
        ensure!(
            with.writes_for_owners > 0,
            "{name} writes nothing for owners though it is asked to"
        );
        ensure!(
            without.writes_for_owners == 0,
            "{name} writes for owners though nobody asked"
        );
        ensure!(
            without.instructions < with.instructions,
            "{name} is as long without owners as with them"
        );
    }
    Ok(())
}

/// A program as the verifier has left it.
#[derive(Debug, Clone, Copy)]
struct Loaded {
    instructions: usize,
    /// Of them, those that write what only owners are about.
    writes_for_owners: usize,
}

/// The programs of a daemon, by name.
fn shared_programs(daemon: &Daemon) -> Result<BTreeMap<String, Loaded>> {
    let ids = running::programs_of(daemon.process.pid())?;
    let query = ProgInfoQueryOptions::default().include_xlated_prog_insns(true);
    ProgInfoIter::with_query_opts(query)
        .filter(|program| ids.contains(&program.id))
        .map(|program| {
            let name = program.name.to_string_lossy().into_owned();
            let loaded = Loaded::of(&program).with_context(|| format!("reading {name}"))?;
            Ok((name, loaded))
        })
        .collect()
}

impl Loaded {
    fn of(program: &ProgramInfo) -> Result<Loaded> {
        let btf = Btf::from_prog_id(program.id)?;
        let offsets = owners_offsets(&btf)?;
        // `struct bpf_insn`: operation, registers, signed offset, constant.
        let (instructions, _) = program.xlated_prog_insns.as_chunks::<8>();
        let writes = instructions.iter().filter(|instruction| {
            let offset = i16::from_ne_bytes([instruction[2], instruction[3]]);
            is_write(instruction[0]) && offsets.contains(&i32::from(offset))
        });
        Ok(Loaded {
            instructions: instructions.len(),
            writes_for_owners: writes.count(),
        })
    }
}

/// Whether an operation writes memory, by its class: of a constant or of a register. Where a
/// program of netto's writes at an offset as large as these, it is to the record of its CPU.
fn is_write(operation: u8) -> bool {
    const CLASS: u8 = 0x07;
    matches!(
        u32::from(operation & CLASS),
        libbpf_rs::libbpf_sys::BPF_ST | libbpf_rs::libbpf_sys::BPF_STX
    )
}

/// Where in the records of a CPU is what only owners are about, in bytes; none in a program that
/// knows no such records.
fn owners_offsets(btf: &Btf<'_>) -> Result<Vec<i32>> {
    let Some(records) = btf.type_by_name::<Composite<'_>>(RECORDS) else {
        return Ok(Vec::new());
    };
    let record: Composite<'_> = btf
        .type_by_name(RECORD.1)
        .with_context(|| format!("there is no {}", RECORD.1))?;
    let begin = offset_of(&records, RECORD.0)?;
    let offsets = OF_OWNERS.map(|word| Ok(begin + offset_of(&record, word)?));
    offsets.into_iter().collect()
}

/// Where a member begins, in bytes.
fn offset_of(record: &Composite<'_>, wanted: &str) -> Result<i32> {
    let mut members = record.iter();
    let member = members.find(|member| member.name.is_some_and(|name| name == wanted));
    match member
        .with_context(|| format!("there is no {wanted}"))?
        .attr
    {
        MemberAttr::Normal { offset } => Ok(i32::try_from(offset / 8)?),
        MemberAttr::BitField { .. } => bail!("{wanted} is a part of a word"),
    }
}
