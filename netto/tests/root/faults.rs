//! What befalls a host while netto runs: others take its probes away, symbols are hidden, the clock
//! of the day steps, modules come and go, memory runs out, the machine sleeps. netto goes on, says
//! what is missing, and what it has written stays whole.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::libbpf_sys;
use metrics_common::Snapshot;
use nix::errno::Errno;

use crate::child;
use crate::daemon::{self, Daemon};
use crate::flows::{Flow, caused_by, often, rate};
use crate::follow::Followed;
use crate::groups::{self, Group};
use crate::lab::Network;
use crate::log_disk::{is_consecutive, read, read_so_far};
use crate::traffic;
use crate::trial::{NotOnThisKernel, tests};
use crate::{bpf, flow_daemon, guest, http, lab};

tests! {
    faults::probes_that_others_detach_are_attached_again_or_stay ["ip"] = detached;
    faults::a_program_at_control_groups_that_others_detach_is_attached_again ["ip"] = owners_detached;
    faults::symbols_that_are_hidden_later_cost_no_interval = hidden;
    machine::the_clock_of_the_day_steps_back_and_forward = clock;
    machine::modules_come_and_go_again_and_again = modules;
    machine::it_sleeps_and_wakes = sleep;
    machine::who_is_killed_for_memory_leaves_a_whole_log = killed;
}

/// Intervals that show that netto goes on.
const INTERVALS: u64 = 15;
/// How often a module comes and goes.
const MODULES: usize = 30;

fn logging(log: &Path) -> [String; 6] {
    let log = log.to_string_lossy().into_owned();
    [
        "--user-period",
        daemon::short_interval(),
        "--log-flush",
        "100",
        "--log-file",
        &log,
    ]
    .map(str::to_owned)
}

fn start(log: &Path, more: &[&str]) -> Result<Daemon> {
    let logging = logging(log);
    let options: Vec<&str> = logging
        .iter()
        .map(String::as_str)
        .chain(more.iter().copied())
        .collect();
    Daemon::start(&options)
}

/// Further intervals come.
fn goes_on(daemon: &mut Daemon) -> Result<()> {
    let from = daemon.sequence()?;
    child::eventually(|| {
        ensure!(
            daemon.sequence()? >= from + INTERVALS,
            "no further intervals"
        );
        Ok(())
    })?;
    daemon.must_live()
}

/// No interval is missing in the log of a daemon that said this.
fn is_whole(log: &Path, stderr: &str) -> Result<()> {
    let (sequences, gaps, _) = read_so_far(log)?;
    ensure!(
        is_consecutive(&sequences) && gaps.is_empty(),
        "{sequences:?} {gaps:?}: {stderr}"
    );
    ensure!(sequences.len() as u64 > INTERVALS, "{sequences:?}");
    Ok(())
}

/// The links of a process by their numbers, each with its kind.
fn links_of(pid: u32) -> Result<Vec<(u32, String)>> {
    let mut links = Vec::new();
    for file in fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        // It may have been closed.
        let Ok(text) = fs::read_to_string(file?.path()) else {
            continue;
        };
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim().to_owned())
        };
        if let (Some(number), Some(kind)) = (field("link_id:"), field("link_type:")) {
            links.push((number.parse()?, kind));
        }
    }
    Ok(links)
}

/// As `bpftool link detach id …` does it.
fn detach(link: u32) -> Result<(), Errno> {
    // libbpf gives the number of the error, negated.
    let checked = |outcome: i32| match outcome {
        0.. => Ok(outcome),
        error => Err(Errno::from_raw(-error)),
    };
    // SAFETY: the call takes a number.
    let found = checked(unsafe { libbpf_sys::bpf_link_get_fd_by_id(link) })?;
    // SAFETY: the descriptor is new, and nothing else owns it.
    let _owned = unsafe { OwnedFd::from_raw_fd(found) };
    // SAFETY: the descriptor lives until the end of this function.
    checked(unsafe { libbpf_sys::bpf_link_detach(found) }).map(drop)
}

fn detached() -> Result<()> {
    if !lab::kernel_at_least(6, 6)? {
        bail!(NotOnThisKernel("no tcx before Linux 6.6".to_owned()));
    }
    let wire = lab::Wire::new()?;
    let mut daemon = Daemon::start(&["--flows", &wire.device])?;
    let mut seen: BTreeMap<String, Vec<Option<Errno>>> = BTreeMap::new();
    for (link, kind) in links_of(daemon.process.pid())? {
        match detach(link) {
            // netto closed it meanwhile.
            Err(Errno::ENOENT) => {}
            outcome => seen.entry(kind).or_default().push(outcome.err()),
        }
    }
    println!("{seen:?}");
    let mut taken = 0;
    for (kind, outcomes) in &seen {
        match kind.as_str() {
            "xdp" | "tcx" => taken += outcomes.iter().filter(|one| one.is_none()).count(),
            // The next test is about these.
            "cgroup" => {}
            _ => ensure!(
                outcomes.iter().all(|one| *one == Some(Errno::EOPNOTSUPP)),
                "others can detach {kind}: {outcomes:?}"
            ),
        }
    }
    ensure!(taken >= 2, "XDP and tc were detached: {seen:?}");
    ensure!(
        seen.keys().any(|kind| kind != "xdp" && kind != "tcx"),
        "no probes: {seen:?}"
    );
    child::eventually(|| {
        let stderr = daemon.process.stderr();
        let words = format!("replaced netto's programs at {}", wire.device);
        ensure!(stderr.contains(&words), "not noticed: {stderr}");
        ensure!(
            stderr.matches("received by ").count() >= 2,
            "not attached again: {stderr}"
        );
        Ok(())
    })?;
    // Packets are counted again.
    flow_daemon::send(&wire, flow_daemon::PACKETS)?;
    child::eventually(|| {
        let answer = flow_daemon::answer(&daemon)?;
        ensure!(
            flow_daemon::number(&answer, "packets")? >= flow_daemon::PACKETS,
            "{answer}"
        );
        Ok(())
    })?;
    goes_on(&mut daemon)
}

/// Detaches the program at the root control group as soon as it is attached; the number of its link.
fn take_from_groups(pid: u32, but: &[u32]) -> Result<u32> {
    child::eventually(|| {
        let links = links_of(pid)?;
        let link = links
            .iter()
            .find(|(number, kind)| kind == "cgroup" && !but.contains(number));
        let (link, _) = link.with_context(|| format!("not attached: {links:?}"))?;
        detach(*link).with_context(|| format!("link {link} cannot be detached"))?;
        Ok(*link)
    })
}

fn owners_detached() -> Result<()> {
    groups::hierarchy()?;
    let network = Network::direct()?;
    let mut followed = Followed::start_with(&often("cgroup"))?;
    let pid = followed.pid();
    let (once, again) = (
        "somebody has detached or replaced netto's programs at the root control group",
        "somebody detaches or replaces netto's programs at the root control group again and again",
    );
    let says = |daemon: &Daemon, words: &str| {
        let stderr = daemon.process.stderr();
        let warnings = stderr.lines().filter(|line| line.contains("WARN"));
        warnings.filter(|line| line.contains(words)).count()
    };
    let mut taken = vec![take_from_groups(pid, &[])?];
    child::eventually(|| {
        ensure!(says(followed.daemon(), once) == 1, "not noticed");
        Ok(())
    })?;
    // Groups that netto cannot know from before are told apart by what arrives.
    let groups = [Group::new("receives")?, Group::new("sends")?];
    let flow = Flow::udp([&groups[0], &groups[1]], &network, 6001, rate(2_000));
    let load = flow.start()?;
    let shown = |interval: &Snapshot| format!("{:?}", interval.sections.owners);
    followed.find(shown, |interval| {
        let caused = caused_by(interval, &groups[0], "rx_softirq")?;
        Ok((caused > 0.0).then_some(()))
    })?;
    drop(load);
    // Who comes back each time is waited for, and neither fills the log.
    for _ in 0..3 {
        taken.push(take_from_groups(pid, &taken)?);
    }
    child::eventually(|| {
        let notes = followed.daemon().info()?.notes;
        let note = format!("at the root control group {} times", taken.len());
        ensure!(
            notes.iter().any(|listed| listed.contains(&note)),
            "no note {note:?}: {notes:?}"
        );
        Ok(())
    })?;
    let counts = [once, again].map(|words| says(followed.daemon(), words));
    let stderr = followed.daemon().process.stderr();
    // Nor is it taken for a cost that is too high.
    ensure!(
        counts == [1, 1] && !stderr.contains("would cost too much"),
        "{counts:?} of {stderr}"
    );
    Ok(())
}

fn hidden() -> Result<()> {
    let tree = crate::hostile::Tree::new(&["proc/kallsyms"])?;
    tree.write("proc/kallsyms", fs::read("/proc/kallsyms")?)?;
    let mut daemon = tree.daemon()?;
    let line = fs::read_to_string("/proc/kallsyms")?;
    let hidden = line.lines().filter_map(|line| line.get(16..));
    let hidden: String = hidden.map(|rest| format!("{:016x}{rest}\n", 0)).collect();
    tree.write("proc/kallsyms", hidden)?;
    // New code in the kernel: symbols are read again.
    let _program = bpf::attach_empty("raw_tp/sched_switch")?;
    child::eventually(|| {
        let stderr = daemon.process.stderr();
        ensure!(
            stderr.contains("cannot refresh the kernel's symbols"),
            "not noticed: {stderr}"
        );
        Ok(())
    })?;
    goes_on(&mut daemon)?;
    let info = daemon.info()?;
    let is_measured = |slug: &str| {
        let row = info.components.iter().find(|row| row.slug == slug);
        row.is_some_and(|row| {
            matches!(
                row.availability,
                metrics_common::Availability::Available { .. }
            )
        })
    };
    ensure!(is_measured("rx_softirq"), "what was known stays known");
    // The kernel names functions one by one, whatever its list says.
    let network = Network::direct()?;
    let _traffic = traffic::udp(&network.left, &network.right, network.right_v4)?;
    child::eventually(|| {
        let stacks = http::get_ok(daemon.at, "/api/v1/flamegraph")?.body;
        ensure!(stacks.contains("udp_sendmsg"), "no names: {stacks}");
        Ok(())
    })
}

/// By the guest's shell, which has these programs within.
fn shell(script: &str) -> Result<()> {
    child::run(Command::new("sh").args(["-c", script])).map(drop)
}

/// The daemon of the tests of a machine, with its log: in a guest a start takes longer than they do.
struct Lasting {
    daemon: Daemon,
    folder: tempfile::TempDir,
}

static LASTING: Mutex<Option<Lasting>> = Mutex::new(None);

/// What befalls the machine is no reason to end, nor for a gap in the log.
fn it_lasts(befalls: fn(&mut Daemon) -> Result<()>) -> Result<()> {
    guest::only()?;
    let mut place = LASTING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut lasting = match place.take() {
        Some(lasting) => lasting,
        None => {
            let folder = tempfile::tempdir()?;
            let daemon = start(&log_in(&folder), &[])?;
            Lasting { daemon, folder }
        }
    };
    befalls(&mut lasting.daemon)?;
    goes_on(&mut lasting.daemon)?;
    is_whole(&log_in(&lasting.folder), &lasting.daemon.process.stderr())?;
    *place = Some(lasting);
    Ok(())
}

/// Ends the daemon that tests of the machine share.
pub fn end() {
    LASTING
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
}

fn log_in(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("x.netto")
}

fn clock() -> Result<()> {
    it_lasts(clock_steps)
}

fn clock_steps(daemon: &mut Daemon) -> Result<()> {
    for step in [-3_600, 7_200, -3_600] {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        shell(&format!("date -s @{}", now.saturating_add_signed(step)))?;
        goes_on(daemon)?;
        let snapshot = daemon.snapshot()?;
        let interval_ns = snapshot["interval_ns"].as_u64().context("no interval")?;
        ensure!(
            interval_ns < 600_000_000_000,
            "the step is in the interval: {interval_ns}"
        );
        http::get_ok(daemon.at, "/api/v1/history")?;
    }
    Ok(())
}

fn modules() -> Result<()> {
    it_lasts(|daemon| {
        shell(&"rmmod dummy && insmod /modules/dummy.ko || exit 1\n".repeat(MODULES))?;
        let stderr = daemon.process.stderr();
        ensure!(!stderr.contains("ERROR"), "{stderr}");
        Ok(())
    })
}

fn killed() -> Result<()> {
    guest::only()?;
    end();
    let root = groups::hierarchy()?;
    fs::write(root.join("cgroup.subtree_control"), "+memory")?;
    let group = Group::new("memory")?;
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("x.netto");
    let logging = logging(&log);
    let port = child::free_port()?;
    let port_text = port.to_string();
    let mut words = vec!["run", "--address", "127.0.0.1", "--port", &port_text];
    words.extend(logging.iter().map(String::as_str));
    let inner = daemon::command(&words);
    let mut command = group.command(&inner);
    let mut daemon = Daemon::of(&mut command, port)?;
    goes_on(&mut daemon)?;
    let newest = daemon.sequence()?;
    // Less than it needs, at once.
    fs::write(group.folder().join("memory.max"), "1M")?;
    let status = daemon.process.wait()?;
    let events = fs::read_to_string(group.folder().join("memory.events"))?;
    ensure!(!status.success(), "{status}");
    let kills = events
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "));
    ensure!(
        kills.is_some_and(|kills| kills != "0"),
        "{status}: {events}"
    );
    let (sequences, _) = read(&log)?;
    let last = *sequences.last().context("an empty log")?;
    println!("interval {newest} was shown, {last} is in the log");
    ensure!(
        is_consecutive(&sequences) && last + 50 >= newest,
        "{sequences:?}"
    );
    drop(daemon);
    // Another start goes on in the same file.
    let mut again = start(&log, &[])?;
    goes_on(&mut again)?;
    let (status, stderr) = again.terminate()?;
    ensure!(status.success(), "{status}: {stderr}");
    let (both, _) = read(&log)?;
    ensure!(
        both.starts_with(&sequences) && both.len() > sequences.len(),
        "{both:?}"
    );
    Ok(())
}

fn sleep() -> Result<()> {
    it_lasts(sleeps)
}

fn sleeps(daemon: &mut Daemon) -> Result<()> {
    let power = Path::new("/sys/power");
    let states = fs::read_to_string(power.join("state")).unwrap_or_default();
    let tests = fs::read_to_string(power.join("pm_test")).unwrap_or_default();
    let Some(state) = ["mem", "freeze"]
        .into_iter()
        .find(|state| states.split_whitespace().any(|one| one == *state))
    else {
        bail!(NotOnThisKernel(format!("it cannot sleep: {states:?}")));
    };
    if tests.is_empty() {
        bail!(NotOnThisKernel(
            "it cannot sleep and wake by itself (CONFIG_PM_DEBUG)".to_owned()
        ));
    }
    // Seconds that it sleeps.
    fs::write("/sys/module/suspend/parameters/pm_test_delay", "1")?;
    for depth in ["freezer", "devices", "platform", "processors", "core"] {
        fs::write(power.join("pm_test"), depth)?;
        // A part of the way to sleep, and back.
        fs::write(power.join("state"), state).with_context(|| format!("{state}, {depth}"))?;
        goes_on(daemon)?;
    }
    Ok(())
}
