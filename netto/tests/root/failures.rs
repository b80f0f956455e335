//! Bad input and missing permission: a clear sentence, never a panic, nothing lost.

use std::ffi::OsStr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, ensure};
use metrics_common::component::Kind;
use metrics_common::{Availability, COMPONENTS};

use crate::child::{self, Owned};
use crate::daemon::{self, Daemon, Shared};
use crate::http;
use crate::lab::Network;
use crate::traffic;
use crate::trial::tests;
use crate::websocket::{Received, WebSocket};

tests! {
    failures::an_unwritable_log_file_is_named;
    failures::a_file_that_is_no_log_is_refused_and_left_alone;
    failures::a_proc_root_without_proc_is_named;
    failures::a_kernel_without_btf_is_told_from_one_that_has_it;
    failures::without_permission_the_missing_one_and_a_remedy_are_named ["setpriv"];
    failures::hidden_symbols_take_away_the_sampled_rows_only ["ip"];
    failures::a_client_that_talks_nonsense_is_turned_away_and_others_stay;
}

/// The error is about this, short, and no panic.
fn explains(result: &(ExitStatus, String, String), words: &[&str]) -> Result<()> {
    let (status, out, err) = result;
    ensure!(!status.success(), "it worked: {out}{err}");
    ensure!(
        !err.contains("panicked") && !err.contains("RUST_BACKTRACE"),
        "a panic: {err}"
    );
    // The preceding lines are log messages; the error is at the end.
    let lines: Vec<&str> = err.lines().filter(|line| !line.trim().is_empty()).collect();
    let error = lines[lines.len().saturating_sub(2)..].join("\n");
    for word in words {
        ensure!(error.contains(word), "no {word:?} in the error: {err}");
    }
    Ok(())
}

fn run(options: &[&str]) -> Result<(ExitStatus, String, String)> {
    let port = child::free_port()?.to_string();
    let mut arguments = vec!["run", "--port", &port];
    arguments.extend(options);
    daemon::run_to_end(&arguments)
}

fn an_unwritable_log_file_is_named() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("no-such-folder/netto.log");
    let path = path.to_string_lossy();
    explains(&run(&["--log-file", &path])?, &[&path])?;
    // A folder is no file.
    let path = folder.path().to_string_lossy();
    explains(&run(&["--log-file", &path])?, &[&path])
}

fn a_file_that_is_no_log_is_refused_and_left_alone() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("letter.txt");
    std::fs::write(&path, "Dear reader, this is not a log.")?;
    let shown = path.to_string_lossy();
    explains(&run(&["--log-file", &shown])?, &[&shown])?;
    let text = std::fs::read_to_string(&path)?;
    ensure!(
        text == "Dear reader, this is not a log.",
        "now it says {text}"
    );
    Ok(())
}

fn a_proc_root_without_proc_is_named() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().to_string_lossy();
    explains(&run(&["--proc-root", &path])?, &[&path])
}

/// A tree like `/sys` but for the kernel's description of its types.
fn a_kernel_without_btf_is_told_from_one_that_has_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let kernel = folder.path().join("kernel");
    std::fs::create_dir(&kernel)?;
    link_all("/sys", folder.path(), |name| name != "kernel")?;
    link_all("/sys/kernel", &kernel, |name| name != "btf")?;
    let path = folder.path().to_string_lossy();
    for command in ["run", "check"] {
        let mut arguments = vec![command, "--sys-root", &path];
        if command == "run" {
            arguments.extend(["--port", "0"]);
        }
        let result = daemon::run_to_end(&arguments)?;
        explains(&result, &["no type information", "CONFIG_DEBUG_INFO_BTF"])
            .with_context(|| arguments.join(" "))?;
    }
    Ok(())
}

/// Links to everything in a folder whose name is wanted.
fn link_all(folder: &str, to: &Path, is_wanted: impl Fn(&OsStr) -> bool) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        if is_wanted(&name) {
            symlink(Path::new(folder).join(&name), to.join(&name))?;
        }
    }
    Ok(())
}

/// As an unprivileged user. The binary is copied to a folder that the user can access.
fn without_permission_the_missing_one_and_a_remedy_are_named() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755))?;
    let copy = folder.path().join("netto");
    std::fs::copy(daemon::binary(), &copy)?;
    for (arguments, word) in [
        (&["run", "--port", "0"][..], "CAP_BPF"),
        (&["check"], "CAP_BPF"),
    ] {
        let mut process = Owned::start(
            Command::new("setpriv")
                .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
                .args(["--bounding-set", "-all", "--pdeathsig", "KILL"])
                .arg(&copy)
                .args(arguments)
                .current_dir("/"),
        )?;
        let status = process.wait()?;
        let (out, err) = (process.stdout(), process.stderr());
        ensure!(!status.success(), "{arguments:?} worked: {out}{err}");
        ensure!(!err.contains("panicked"), "{arguments:?}: {err}");
        let printed = format!("{out}{err}");
        ensure!(
            printed.contains(word) || printed.contains("root"),
            "{arguments:?} names no permission: {printed}"
        );
    }
    Ok(())
}

/// The kernel's own `/proc` in every respect but one: the addresses of symbols are hidden,
/// as from a user who may not see them.
fn proc_with_hidden_symbols(folder: &Path) -> Result<()> {
    link_all("/proc", folder, |name| {
        let is_process = name.to_string_lossy().bytes().all(|b| b.is_ascii_digit());
        !is_process && name != "kallsyms"
    })?;
    let symbols =
        "0000000000000000 T _text\n0000000000000000 t net_rx_action\n0000000000000000 T ip_rcv\n";
    std::fs::write(folder.join("kallsyms"), symbols.repeat(1000))?;
    Ok(())
}

fn hidden_symbols_take_away_the_sampled_rows_only() -> Result<()> {
    let folder = tempfile::tempdir()?;
    proc_with_hidden_symbols(folder.path())?;
    let network = Network::direct()?;
    let daemon = Daemon::start(&["--proc-root", &folder.path().to_string_lossy()])?;
    let info = daemon.info()?;
    for (component, row) in COMPONENTS.iter().zip(&info.components) {
        if !matches!(component.kind, Kind::Sampled(_)) {
            continue;
        }
        let Availability::Unavailable { reason } = &row.availability else {
            anyhow::bail!("{} is said to be measured", component.slug);
        };
        ensure!(
            reason.contains("symbol") || reason.contains("kallsyms"),
            "{}: {reason}",
            component.slug
        );
    }
    let _traffic = traffic::udp(&network.left, &network.right, network.right_v4)?;
    child::eventually(|| {
        let seconds = daemon.reading()?.event_seconds("rx_softirq")?;
        ensure!(seconds > 0.1, "rx_softirq took only {seconds:.3} s");
        Ok(())
    })?;
    let part = &daemon.snapshot()?["components"]["local_delivery_v4"];
    ensure!(part["unavailable"].is_string(), "{part}");
    Ok(())
}

fn a_client_that_talks_nonsense_is_turned_away_and_others_stay() -> Result<()> {
    let mut daemon = Shared::take()?;
    let mut patient = WebSocket::open(daemon.at)?;
    let mut talker = WebSocket::open(daemon.at)?;
    talker.send_text("make me a sandwich")?;
    loop {
        if let Received::Closed(code, words) = talker.receive()? {
            // 1003: a message that the server does not understand.
            ensure!(
                code == 1003 && !words.is_empty(),
                "closed with {code} {words:?}"
            );
            break;
        }
    }
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(200_000));
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"[..],
        b"HELO there\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        long.as_bytes(),
    ] {
        // An error as answer, or no answer but the end of the connection: both will do.
        if let Ok(answer) = http::raw(daemon.at, garbage) {
            ensure!(answer.status >= 400, "garbage was answered by {answer:?}");
        }
        daemon.must_live()?;
    }
    for (method, path) in [("DELETE", "/api/v1/snapshot"), ("POST", "/metrics")] {
        let answer = http::request(daemon.at, method, path, None)?;
        ensure!(
            (400..500).contains(&answer.status),
            "{method} {path} gave {}",
            answer.status
        );
    }
    // The client that behaved was not disturbed.
    for _ in 0..3 {
        ensure!(
            matches!(patient.receive()?, Received::Message(_)),
            "the well-behaved client was turned away"
        );
    }
    Ok(())
}
