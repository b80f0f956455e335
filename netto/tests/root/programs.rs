//! BPF programs of known work on the way of packets: each is found with its number, its places and
//! its packets, its time is within networking's, and what a packet costs is what the kernel says.

use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::libbpf_sys::{BPF_STATS_RUN_TIME, bpf_enable_stats};
use libbpf_rs::query::{ProgInfoIter, ProgramInfo};
use metrics_common::Snapshot;
use metrics_common::component::index_of;
use metrics_common::sections::Program;

use crate::child::{self, Owned};
use crate::flows::{self, OTHER_CPU};
use crate::follow::Followed;
use crate::groups::Group;
use crate::lab::{Wire, kernel_at_least};
use crate::lab_itself::needs_kernel;
use crate::traffic;
use crate::trial::tests;

tests! {
    programs::one_at_an_interface_is_found_with_place_and_packets ["ip"]
        = || ways().try_for_each(found);
    programs::one_that_a_control_group_has_without_a_link_is_found_with_its_group ["ip"];
    programs::one_that_is_loaded_later_and_has_gone_is_no_other ["ip"];
    programs::a_packet_costs_what_the_kernel_says_it_ran ["ip"] = || ways().try_for_each(costs);
}

const NAME: &str = "nettotest_work";
const SETTLE: Duration = Duration::from_secs(2);
/// Some ten thousand samples.
const MEASURED: Duration = Duration::from_secs(20);
/// The promise, and what the kernel's account leaves out: the call of the program.
const EXACT: f64 = 0.05;

/// How the tests' program is attached: the agent's word, its type, and its hook.
struct Way(&'static str, &'static str, &'static str);

fn ways() -> impl Iterator<Item = Way> {
    let tcx = kernel_at_least(6, 6).unwrap_or(false);
    let tcx = tcx.then_some(Way("tcx", "sched_cls", "tcx_ingress"));
    [Way("xdp-generic", "xdp", "xdp")].into_iter().chain(tcx)
}

/// Attaches the tests' program to the host's end, until dropped.
fn attach(wire: &Wire, how: &str) -> Result<Owned> {
    attach_to(&wire.device, how)
}

fn attach_to(target: &str, how: &str) -> Result<Owned> {
    let binary = std::env::current_exe()?;
    let mut command = child::mortal(&binary.to_string_lossy());
    let mut agent = Owned::start(command.args(["agent", "attach", how, target]))?;
    agent.wait_for_line("ready")?;
    Ok(agent)
}

fn blast(wire: &Wire) -> Result<Owned> {
    traffic::udp_blast(&wire.inside, wire.nobody)
}

/// The tests' newest program, by the kernel.
pub fn by_kernel() -> Result<ProgramInfo> {
    let programs = ProgInfoIter::default().filter(|program| program.name == NAME);
    programs.last().context("the program is not loaded")
}

fn program(sum: &Snapshot, id: u32) -> Option<&Program> {
    let programs = sum.sections.programs.as_ref()?;
    programs
        .programs
        .iter()
        .find(|program| program.about.id == id)
}

/// Of no CPU do programs have more time than networking, and all of it is somebody's.
fn sums_hold(sum: &Snapshot) -> Result<()> {
    let programs = sum.sections.programs.as_ref().context("no section")?;
    let network = index_of("network").context("no such row")?;
    let network = sum.cost().cpu_ns(network).context("not measured")?;
    for (column, &all_ns) in network.iter().enumerate() {
        let of_programs = programs
            .programs
            .iter()
            .map(|program| program.cpu_ns[column]);
        let sum_ns = of_programs.sum::<u64>() + programs.other_cpu_ns[column];
        ensure!(
            sum_ns <= all_ns,
            "{sum_ns} ns of {all_ns} on column {column}"
        );
    }
    Ok(())
}

/// Follows until the program with this number is complete.
fn wait_for(followed: &mut Followed, id: u32) -> Result<Snapshot> {
    followed.find(shown, |snapshot| {
        sums_hold(snapshot)?;
        let is_whole =
            |program: &Program| program.total_ns() > 0 && program.about.packets.is_some();
        let found = program(snapshot, id).is_some_and(is_whole);
        Ok(found.then(|| snapshot.clone()))
    })
}

fn shown(snapshot: &Snapshot) -> String {
    format!("{:?}", snapshot.sections.programs)
}

fn found(Way(how, kind, hook): Way) -> Result<()> {
    let wire = Wire::new()?;
    let _program = attach(&wire, how)?;
    let mut followed = Followed::start()?;
    let _traffic = blast(&wire)?;
    let truth = by_kernel()?;
    let snapshot = wait_for(&mut followed, truth.id)?;
    let measured = program(&snapshot, truth.id).context("it was there")?;
    println!("\n{how}: {measured:?}");
    ensure!(
        measured.about.name == NAME && measured.about.kind == kind,
        "{measured:?}"
    );
    ensure!(
        !measured.about.is_own && measured.about.samples > 0,
        "{measured:?}"
    );
    let [place] = &measured.about.attached[..] else {
        bail!("it is attached once: {measured:?}");
    };
    ensure!((&*place.hook, &*place.target) == (hook, &*wire.device));
    let packets = measured.about.packets.context("it has packets")?;
    ensure!(packets.count > 0 && !packets.are_runs, "{packets:?}");
    let programs = snapshot.sections.programs.context("no section")?;
    let is_own = |program: &&Program| program.about.is_own;
    for program in programs.programs.iter().filter(is_own) {
        ensure!(program.about.name.starts_with("netto_"), "{program:?}");
    }
    Ok(())
}

/// Attached as systemd does it.
fn one_that_a_control_group_has_without_a_link_is_found_with_its_group() -> Result<()> {
    let wire = Wire::new()?;
    let group = Group::new("filtered")?;
    let folder = group.folder().to_string_lossy();
    let _program = attach_to(&folder, "cgroup-skb")?;
    let id = by_kernel()?.id;
    let mut followed = Followed::start()?;
    let to = SocketAddr::new(wire.nobody, 9).to_string();
    let _traffic = flows::agent(&group, &wire.inside, OTHER_CPU, &["udp-blast", &to])?;
    followed.find(shown, |snapshot| {
        let measured = program(snapshot, id);
        let Some([place]) = measured.map(|measured| &measured.about.attached[..]) else {
            return Ok(None);
        };
        ensure!((&*place.hook, &*place.target) == ("cgroup_inet_egress", group.path()));
        Ok(Some(()))
    })
}

/// Two programs with the same name and the same instructions, one after the other.
fn one_that_is_loaded_later_and_has_gone_is_no_other() -> Result<()> {
    needs_kernel(6, 6, "tcx")?;
    let wire = Wire::new()?;
    let mut followed = Followed::start()?;
    let _traffic = blast(&wire)?;
    let mut before = None;
    for _ in 0..2 {
        let agent = attach(&wire, "tcx")?;
        let id = by_kernel()?.id;
        ensure!(Some(id) != before, "a number is used once");
        wait_for(&mut followed, id)?;
        drop(agent);
        before = Some(id);
        followed.find(shown, |snapshot| {
            let is_gone = program(snapshot, id).is_none_or(|program| program.about.samples == 0);
            Ok(is_gone.then_some(()))
        })?;
    }
    Ok(())
}

/// Runs of a program, and their time, as the kernel counts them.
pub fn account(id: u32) -> Result<(u64, u64)> {
    let program = ProgInfoIter::default().find(|program| program.id == id);
    let program = program.context("the program is gone")?;
    Ok((program.run_cnt, program.run_time_ns))
}

fn costs(Way(how, ..): Way) -> Result<()> {
    // Not the sysctl: netto would go by it.
    // SAFETY: the call takes no pointer.
    let accounts = unsafe { bpf_enable_stats(BPF_STATS_RUN_TIME) };
    ensure!(accounts >= 0, "the kernel does not count runs");
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    let _accounts = unsafe { OwnedFd::from_raw_fd(accounts) };
    let setting = std::fs::read_to_string(Path::new("/proc/sys/kernel/bpf_stats_enabled"))?;
    ensure!(setting.trim() == "0", "the kernel counts anyway");
    let wire = Wire::new()?;
    let _program = attach(&wire, how)?;
    let mut followed = Followed::start()?;
    let _traffic = blast(&wire)?;
    let id = by_kernel()?.id;
    wait_for(&mut followed, id)?;
    std::thread::sleep(SETTLE);
    let (from, (runs_before, ran_before)) = (SystemTime::now(), account(id)?);
    std::thread::sleep(MEASURED);
    let (to, (runs, ran)) = (SystemTime::now(), account(id)?);
    let sum = followed.between(from, to)?;
    sums_hold(&sum)?;
    let measured = program(&sum, id).context("it was there")?;
    let each = measured.ns_per_packet().context("its packets are known")?;
    let truth = (ran - ran_before) as f64 / (runs - runs_before) as f64;
    println!(
        "\n{how}: {each:.0} ns a packet by netto ({} samples, {:?}), {truth:.0} ns by the kernel \
         ({} runs): {:.3}",
        measured.about.samples,
        measured.about.packets,
        runs - runs_before,
        each / truth
    );
    ensure!(
        (each / truth - 1.0).abs() < EXACT,
        "{each} ns, {truth} in truth"
    );
    Ok(())
}
