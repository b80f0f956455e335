//! The daemon's life: its output at the start, its notes while it runs, and its leftovers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::query::ProgInfoIter;
use metrics_common::codec::ServerMessage;
use metrics_common::component::Kind;
use metrics_common::{COMPONENTS, Snapshot};
use netto_log_format::LogReader;

use crate::child;
use crate::daemon::{self, Daemon, Shared};
use crate::http;
use crate::trial::tests;
use crate::websocket::{Received, WebSocket};

tests! {
    running::check_says_what_is_measured_and_how;
    running::list_names_every_component_with_functions_of_this_kernel = list;
    running::no_program_is_left_in_the_kernel_after_sigterm;
    running::who_asks_for_what_cannot_run_is_warned;
    running::info_and_snapshot_agree_on_rows_and_cpus;
    running::a_websocket_says_hello_then_every_snapshot_then_bye = websocket;
    running::the_log_of_a_killed_daemon_is_readable_up_to_the_end;
    running::the_log_of_a_daemon_told_to_end_ends_with_bye;
    running::the_dashboard_is_served_from_the_binary_alone;
    running::each_thread_may_do_what_the_documentation_says_and_no_more = threads;
    running::another_user_measures_the_same_with_the_units_capabilities ["setpriv"] = other_user;
}

fn check_says_what_is_measured_and_how() -> Result<()> {
    let (status, out, err) = daemon::run_to_end(&["check"])?;
    ensure!(status.success(), "netto check gave {status}: {out}{err}");
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    for expected in [kernel.trim(), "softirq_entry", "softirq_exit"] {
        ensure!(out.contains(expected), "no {expected:?} in: {out}");
    }
    Ok(())
}

fn list() -> Result<()> {
    let (status, out, err) = daemon::run_to_end(&["list"])?;
    ensure!(status.success(), "netto list gave {status}: {out}{err}");
    for component in COMPONENTS {
        ensure!(
            out.contains(component.slug),
            "no {} in: {out}",
            component.slug
        );
    }
    // Real functions, never inlined, on every kernel that netto supports.
    for function in ["process_backlog", "ip_local_deliver_finish", "ip_rcv"] {
        ensure!(out.contains(function), "no {function} in: {out}");
    }
    Ok(())
}

/// Rows of docs/SECURITY.md: who, with which capabilities, no_new_privs and seccomp.
fn threads() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("x.netto");
    // Nobody answers there.
    let collector = format!("http://127.0.0.1:{}", child::free_port()?);
    let daemon = Daemon::start(&[
        "--log-file",
        &log.to_string_lossy(),
        "--otlp-endpoint",
        &collector,
    ])?;
    let listing = || -> Result<BTreeMap<String, Vec<String>>> {
        let mut rows = BTreeMap::new();
        for task in std::fs::read_dir(format!("/proc/{}/task", daemon.process.pid()))? {
            // A thread may have ended.
            let Ok(status) = std::fs::read_to_string(task?.path().join("status")) else {
                continue;
            };
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.map_or("", str::trim).to_owned()
            };
            let [user, capabilities, privileges, seccomp] =
                ["Uid:", "CapEff:", "NoNewPrivs:", "Seccomp:"].map(field);
            let user = user
                .split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned();
            let row = format!("{user} | `{capabilities}` | {privileges} | {seccomp}");
            rows.entry(row)
                .or_insert_with(Vec::new)
                .push(field("Name:"));
        }
        Ok(rows)
    };
    // Each thread gives up what it does not need when it begins, so this may take a moment.
    let rows = child::eventually(|| {
        let rows = listing()?;
        let of = |name: &str| {
            let mut found = rows
                .iter()
                .filter(|(_, names)| names.iter().any(|one| one == name));
            let row = found.next().map(|(row, _)| row.as_str());
            row.filter(|_| found.next().is_none())
        };
        let holds = |name, capabilities| of(name).is_some_and(|row| row.contains(capabilities));
        let are_confined =
            holds("netto-otlp", "`0000000000000000`") && holds("netto-log", "`0000000000000002`");
        ensure!(
            are_confined && rows.len() == 3,
            "HTTP and OTLP, the log, and all others: {rows:#?}"
        );
        Ok(rows)
    })?;
    println!("{rows:#?}");
    let page = include_str!("../../../docs/SECURITY.md");
    for row in rows.keys() {
        ensure!(
            page.contains(&format!("| {row} |")),
            "not in the table: {row}"
        );
    }
    Ok(())
}

/// What `netto check` says of components, probes and instruments, without what it has measured.
fn measured(check: &str) -> Vec<&str> {
    let mut is_wanted = false;
    let lines = check.lines().filter(|line| {
        if !line.is_empty() && !line.starts_with(' ') {
            is_wanted = !["Stacks", "Notes"].contains(line);
        }
        is_wanted
    });
    lines.collect()
}

/// `User=` with `AmbientCapabilities=`, as docs/OPERATION.md describes it.
fn other_user() -> Result<()> {
    let unit = include_str!("../../../dist/systemd/netto.service");
    let line = unit
        .lines()
        .find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let capabilities = line.context("the unit bounds capabilities")?;
    let mut list = "-all".to_owned();
    for name in capabilities.split_whitespace() {
        list += &format!(",+{}", name.trim_start_matches("CAP_").to_lowercase());
    }
    // A copy, because other users may not be able to read the folder of the tests' binary.
    let folder = tempfile::tempdir()?;
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
    let copy = folder.path().join("netto");
    std::fs::copy(daemon::binary(), &copy)?;
    let mut of_other = child::mortal("setpriv");
    of_other.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    for set in ["--inh-caps", "--ambient-caps", "--bounding-set"] {
        of_other.args([set, &list]);
    }
    of_other.arg(&copy).args(["check", "--sampler", "perf"]);
    let of_other = child::run(&mut of_other)?;
    let (status, of_root, err) = daemon::run_to_end(&["check", "--sampler", "perf"])?;
    ensure!(status.success(), "netto check gave {status}: {err}");
    let (root, other) = (measured(&of_root), measured(&of_other));
    ensure!(
        root.len() > COMPONENTS.len() && root == other,
        "root: {of_root}\nanother user: {of_other}"
    );
    Ok(())
}

/// Numbers of the BPF programs held by a process, from its descriptors.
pub fn programs_of(pid: u32) -> Result<BTreeSet<u32>> {
    let mut programs = BTreeSet::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        // A descriptor may be closed meanwhile.
        let text = std::fs::read_to_string(entry?.path()).unwrap_or_default();
        programs.extend(
            text.lines()
                .filter_map(|line| line.strip_prefix("prog_id:")?.trim().parse::<u32>().ok()),
        );
    }
    Ok(programs)
}

/// Names of the programs that a process has at each BTF tracepoint, as far as the kernel keeps them.
pub fn attached_at(pid: u32) -> Result<BTreeMap<String, Vec<String>>> {
    let mut attached = BTreeMap::<String, Vec<String>>::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        // A descriptor may be closed meanwhile.
        let text = std::fs::read_to_string(entry?.path()).unwrap_or_default();
        let value = |name: &str| {
            let mut values = text.lines().filter_map(|line| line.strip_prefix(name));
            values.next().map(str::trim)
        };
        let (Some(hook), Some(id)) = (value("tp_name:"), value("prog_id:")) else {
            continue;
        };
        let id: u32 = id.parse()?;
        if let Some(program) = ProgInfoIter::default().find(|program| program.id == id) {
            let programs = attached.entry(hook.to_owned()).or_default();
            programs.push(program.name.to_string_lossy().into_owned());
        }
    }
    Ok(attached)
}

fn no_program_is_left_in_the_kernel_after_sigterm() -> Result<()> {
    let daemon = Shared::take()?;
    let ids = programs_of(daemon.process.pid())?;
    let named: Vec<(u32, String)> = ProgInfoIter::default()
        .filter(|program| ids.contains(&program.id))
        .map(|program| (program.id, program.name.to_string_lossy().into_owned()))
        .collect();
    println!("programs: {named:?}");
    // Softirq entry and exit, sampler: the least that netto can work with.
    ensure!(named.len() >= 3, "netto holds only {named:?}");
    for (_, name) in &named {
        ensure!(name.starts_with("netto_"), "a program is called {name}");
    }
    let (status, err) = daemon.keep().terminate()?;
    ensure!(status.success(), "SIGTERM ended netto with {status}: {err}");
    // The kernel frees programs when no CPU can be running them any more.
    child::eventually(
        || match ProgInfoIter::default().find(|program| ids.contains(&program.id)) {
            Some(left) => bail!("{:?} is still there", left.name),
            None => Ok(()),
        },
    )
}

fn who_asks_for_what_cannot_run_is_warned() -> Result<()> {
    // More processes than that the kernel does not number.
    let options = "--flows nope0 --owners none --latency --latency-pids 4194305 --health --score-devices nope1";
    let options: Vec<&str> = options.split(' ').collect();
    let daemon = Daemon::start(&options)?;
    for (what, name) in [
        ("flows does not run", "nope0"),
        ("latency does not run", "there is no process 4194305"),
        ("The score is without", "nope1"),
    ] {
        // What is found within the first interval is told then.
        child::eventually(|| {
            let stderr = daemon.process.stderr();
            let mut lines = stderr.lines();
            let is_warned =
                |line: &str| line.contains("WARN") && line.contains(what) && line.contains(name);
            ensure!(lines.any(is_warned), "{what}: {stderr}");
            Ok(())
        })?;
    }
    let stderr = daemon.process.stderr();
    ensure!(
        !stderr.contains("owners does not run"),
        "as asked: {stderr}"
    );
    Ok(())
}

fn info_and_snapshot_agree_on_rows_and_cpus() -> Result<()> {
    let daemon = Shared::take()?;
    let info = daemon.info()?;
    let slugs: Vec<&str> = info.components.iter().map(|c| c.slug.as_str()).collect();
    let table: Vec<&str> = COMPONENTS.iter().map(|c| c.slug).collect();
    ensure!(slugs == table, "rows are {slugs:?}");
    let asked = [daemon::samples_per_second(), daemon::short_interval()];
    ensure!([info.frequency_hz, info.user_period_ms].map(|setting| setting.to_string()) == asked);
    for component in COMPONENTS {
        let essential =
            matches!(component.kind, Kind::Timed(..)) && component.slug.contains("softirq");
        let row = info
            .components
            .iter()
            .find(|row| row.slug == component.slug)
            .with_context(|| format!("no row {}", component.slug))?;
        ensure!(
            !essential || row.availability.is_available(),
            "{} cannot be measured here: {:?}",
            component.slug,
            row.availability
        );
    }
    let snapshot = daemon.snapshot()?;
    let cpus = snapshot["cpus"].as_array().context("no CPUs")?.len();
    let online = std::thread::available_parallelism()?.get();
    ensure!(cpus >= online, "{cpus} CPUs of {online}");
    for (name, list) in [
        ("taken", &snapshot["stacks"]["taken"]),
        ("lost", &snapshot["stacks"]["lost"]),
    ] {
        let length = list.as_array().map(Vec::len);
        ensure!(length == Some(cpus), "stacks.{name} has {length:?} CPUs");
    }
    Ok(())
}

fn websocket() -> Result<()> {
    let daemon = Daemon::start(&["--user-period", "200"])?;
    let info = daemon.info()?;
    let mut socket = WebSocket::open(daemon.at)?;
    let Received::Message(first) = socket.receive()? else {
        bail!("closed at once");
    };
    let ServerMessage::Hello(mut hello) = *first else {
        bail!("the first message is {first:?}");
    };
    // Facts that netto learns later are in the notes.
    hello.notes.clone_from(&info.notes);
    ensure!(*hello == info, "the first message says {hello:?}");
    let mut last: Option<Snapshot> = None;
    for _ in 0..5 {
        let snapshot = loop {
            let Received::Message(message) = socket.receive()? else {
                bail!("closed too early");
            };
            match *message {
                ServerMessage::Snapshot(snapshot) => break snapshot,
                // Something about the host has changed.
                ServerMessage::Hello(_) => {}
                other => bail!("no snapshot but {other:?}"),
            }
        };
        if let Some(before) = &last {
            ensure!(
                snapshot.sequence == before.sequence + 1
                    && snapshot.time_unix_ns > before.time_unix_ns,
                "after snapshot {} came {}",
                before.sequence,
                snapshot.sequence
            );
        }
        last = Some(*snapshot);
    }
    let reader = std::thread::spawn(move || {
        let mut bye = false;
        loop {
            match socket.receive() {
                Ok(Received::Message(message)) => {
                    bye |= matches!(*message, ServerMessage::Bye(_));
                }
                Ok(Received::Closed(code, _)) => return Ok((bye, code)),
                Err(error) => return Err(error),
            }
        }
    });
    daemon.terminate()?;
    let (bye, code) = reader
        .join()
        .map_err(|_| anyhow::anyhow!("the reader panicked"))??;
    ensure!(bye, "no Bye before the end");
    // 1001: the server goes away.
    ensure!(code == 1001, "closed with {code}");
    Ok(())
}

/// The messages of a log, which must begin with Hello and count its snapshots up by one.
pub fn read_log(path: &Path) -> Result<(Vec<ServerMessage>, bool)> {
    let mut reader = LogReader::new(File::open(path)?)?;
    let messages: Vec<ServerMessage> = reader.by_ref().collect::<Result<_, _>>()?;
    ensure!(reader.damaged_stretches() == 0, "damaged stretches");
    ensure!(
        matches!(messages.first(), Some(ServerMessage::Hello(_))),
        "the log begins with {:?}",
        messages.first()
    );
    let sequences: Vec<u64> = messages
        .iter()
        .filter_map(|message| match message {
            ServerMessage::Snapshot(snapshot) => Some(snapshot.sequence),
            _ => None,
        })
        .collect();
    ensure!(sequences.len() >= 5, "only snapshots {sequences:?}");
    ensure!(
        sequences.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "snapshots {sequences:?}"
    );
    Ok((messages, reader.is_cut()))
}

/// A daemon that has written so many snapshots to this file.
fn with_log(path: &Path, snapshots: u64) -> Result<Daemon> {
    let text = path.to_string_lossy();
    let daemon = Daemon::start(&[
        "--user-period",
        "100",
        "--log-flush",
        "0",
        "--log-file",
        &text,
    ])?;
    child::eventually(|| {
        ensure!(daemon.sequence()? >= snapshots, "not enough snapshots yet");
        Ok(())
    })?;
    Ok(daemon)
}

fn the_log_of_a_killed_daemon_is_readable_up_to_the_end() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("netto.log");
    let mut daemon = with_log(&path, 10)?;
    let published = daemon.sequence()?;
    let has_them = || {
        let (messages, _) = read_log(&path)?;
        let is_snapshot = |message: &&ServerMessage| matches!(message, ServerMessage::Snapshot(_));
        let snapshots = messages.iter().filter(is_snapshot).count() as u64;
        ensure!(
            snapshots >= published,
            "{snapshots} snapshots in the log, {published} published"
        );
        Ok(())
    };
    // The disk may be slow; what it has stays.
    child::eventually(has_them)?;
    daemon.process.signal("KILL")?;
    daemon.process.wait()?;
    has_them()
}

fn the_log_of_a_daemon_told_to_end_ends_with_bye() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("netto.log");
    with_log(&path, 6)?.terminate()?;
    let (messages, cut) = read_log(&path)?;
    ensure!(!cut, "the log was cut");
    ensure!(
        matches!(messages.last(), Some(ServerMessage::Bye(_))),
        "the log ends with {:?}",
        messages.last()
    );
    Ok(())
}

fn the_dashboard_is_served_from_the_binary_alone() -> Result<()> {
    let daemon = Shared::take()?;
    let page = http::get_ok(daemon.at, "/")?;
    ensure!(page.body.contains("<!doctype html"), "{}", page.body);
    let missing = http::get(daemon.at, "/no-such-page")?;
    ensure!(missing.status == 404, "status {}", missing.status);
    Ok(())
}
