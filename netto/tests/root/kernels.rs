//! What netto does with the kernel at hand: which way each event is attached,
//! and what the probes cost. Told in lines that `cargo xtask vm` writes to
//! docs/KERNELS.md; see there for what they mean.

use std::collections::{BTreeMap, HashMap};
use std::net::UdpSocket;
use std::os::fd::{FromRawFd, OwnedFd};

use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::btf::types::Func;
use libbpf_rs::btf::{Btf, TypeId};
use libbpf_rs::libbpf_sys;
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions, ProgramInfo};
use metrics_common::component::index_of;
use metrics_common::{Availability, KindName};

use crate::follow::Followed;
use crate::trial::{NotOnThisKernel, tests};
use crate::{child, daemon, guest, running};

tests! {
    kernels::socket_calls_are_attached_as_this_kernel_allows;
    refusal::a_kernel_without_what_every_probe_needs;
}

/// Begins every line that is meant for `cargo xtask vm`.
const FACT: &str = "kernel fact:";
/// Packets sent and received while the probes' cost is measured.
const PACKETS: usize = 2000;

fn socket_calls_are_attached_as_this_kernel_allows() -> Result<()> {
    let _statistics = Statistics::enable()?;
    let mut followed = Followed::start_with(&["--latency"])?;
    exchange_packets()?;
    followed.catch_up()?;
    let snapshot = followed.next()?;
    let latency = snapshot.sections.latency.context("no latencies")?;
    let info = &followed.info;

    println!("\n{FACT} release {}", info.kernel);
    for probe in &info.probes {
        match &probe.failure {
            None => println!(
                "{FACT} probe {} {} {}",
                probe.purpose, probe.method, probe.name
            ),
            Some(failure) => println!("{} was not attached: {failure}", probe.name),
        }
    }
    for component in &info.components {
        if let (KindName::Timed, Availability::Available { method }) =
            (&component.kind, &component.availability)
        {
            println!("{FACT} event {} {method}", component.slug);
        }
    }
    let hooks = hooks_of_points()?;
    for point in &latency.points {
        let slug = point.point.slug();
        let hooks = hooks.get(slug).context("a point that is not listed")?;
        println!(
            "{FACT} point {slug} {} {hooks}",
            point.method.replace(' ', "")
        );
    }
    for (name, program) in programs(followed.pid())? {
        println!(
            "{FACT} program {name} {} {} {}",
            program.verified_instructions, program.run_time_ns, program.runs
        );
    }

    let refused = info.probes.iter().find(|probe| probe.failure.is_some());
    ensure!(
        refused.is_none(),
        "netto planned a probe that the kernel refused: {refused:?}"
    );
    // Here for hosts in general; the kernels of the guests are known to allow it.
    if guest::is_one() {
        let missing = &latency.missing;
        ensure!(missing.is_empty(), "points are not measured: {missing:?}");
        for point in &latency.points {
            let (slug, method) = (point.point.slug(), &point.method);
            let has_functions = slug != "qdisc" && !slug.ends_with("-softirq-wait");
            ensure!(
                !has_functions || method.contains("fentry"),
                "{slug} is taken by {method}"
            );
        }
        for slug in ["tx_syscall", "rx_syscall", "local_ipc"] {
            let row = index_of(slug).and_then(|index| info.components.get(index));
            let availability = &row.context("no such row")?.availability;
            ensure!(
                *availability == Availability::by("fentry"),
                "{slug} is {availability:?}"
            );
        }
    }
    Ok(())
}

/// By `cargo xtask vm --kernel 5.10`.
fn a_kernel_without_what_every_probe_needs() -> Result<()> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let release = release.trim();
    let numbers = release.split('.').map(|number| number.parse::<u32>());
    if numbers.take(2).flatten().ge([5, 12]) {
        let reason = format!("Linux {release} has what netto's programs need");
        return Err(NotOnThisKernel(reason).into());
    }
    for arguments in [
        &["check"][..],
        &["run", "--port", "0"],
        &["run", "--method", "sampling"],
    ] {
        let (status, out, err) = daemon::run_to_end(arguments)?;
        ensure!(status.code() == Some(1), "{arguments:?} ends with {status}");
        ensure!(out.is_empty(), "{arguments:?} says {out}");
        let lines: Vec<&str> = err.lines().collect();
        let [error_line] = lines[..] else {
            bail!("more than one line: {err}");
        };
        for words in [
            release,
            "no atomic operations",
            "BPF programs need",
            "from 5.12 on",
        ] {
            ensure!(error_line.contains(words), "no {words:?} in {error_line}");
        }
    }
    Ok(())
}

/// The hooks of each point in the output of `netto list latency`, for the best method on this
/// kernel.
fn hooks_of_points() -> Result<HashMap<String, String>> {
    let listed = child::run(&mut daemon::command(&["list", "latency"]))?;
    let (mut point, mut hooks) = (String::new(), HashMap::new());
    for line in listed.lines() {
        if let Some(found) = line.strip_prefix("    hooked at: ") {
            hooks.insert(point.clone(), found.to_owned());
        } else if !line.starts_with(' ') {
            point = line.split(' ').next().unwrap_or_default().to_owned();
        }
    }
    Ok(hooks)
}

/// Work for the probes on sends, receives, softirqs and context switches.
fn exchange_packets() -> Result<()> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;
    let mut packet = [0; 64];
    for _ in 0..PACKETS {
        sender.send(&packet)?;
        receiver.recv(&mut packet)?;
    }
    Ok(())
}

/// While it exists, the kernel measures the run time of every BPF program.
pub struct Statistics(#[expect(dead_code, reason = "closing it ends the measurement")] OwnedFd);

impl Statistics {
    /// Begins.
    pub fn enable() -> Result<Self> {
        // SAFETY: the call takes no memory of ours.
        let descriptor = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        ensure!(
            descriptor >= 0,
            "the kernel does not measure BPF programs: {}",
            std::io::Error::last_os_error()
        );
        // SAFETY: the descriptor is new, and nothing else owns it.
        Ok(Statistics(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }
}

/// The kernel's values for programs of the same purpose.
#[derive(Debug, Default)]
pub struct Programs {
    /// Instructions processed by the verifier, for the longest of them.
    pub verified_instructions: u32,
    /// Time in them, if the kernel takes it.
    pub run_time_ns: u64,
    /// How often they ran, if the kernel counts.
    pub runs: u64,
}

/// The programs of a process. Those that differ in a number at the end of their
/// name only are the same code on different functions.
pub fn programs(pid: u32) -> Result<BTreeMap<String, Programs>> {
    let ids = running::programs_of(pid)?;
    let mut programs: BTreeMap<String, Programs> = BTreeMap::new();
    let options = ProgInfoQueryOptions::default().include_func_info(true);
    for program in
        ProgInfoIter::with_query_opts(options).filter(|program| ids.contains(&program.id))
    {
        let name = function_of(&program)
            .with_context(|| format!("the function behind program {:?}", program.name))?;
        let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
        let sum = programs.entry(name.to_owned()).or_default();
        sum.verified_instructions = sum.verified_instructions.max(program.verified_insns);
        sum.run_time_ns += program.run_time_ns;
        sum.runs += program.run_cnt;
    }
    Ok(programs)
}

/// The full name of a program; the kernel itself keeps only 15 characters.
fn function_of(program: &ProgramInfo) -> Result<String> {
    let btf = Btf::from_prog_id(program.id)?;
    let first = program.func_info.first().context("no function at all")?;
    let function: Func<'_> = btf
        .type_by_id(TypeId::from(first.type_id))
        .context("no such type")?;
    let name = function.name().context("a function without a name")?;
    Ok(name.to_string_lossy().into_owned())
}
