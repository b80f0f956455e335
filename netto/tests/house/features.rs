//! Everywhere that a feature can be met, there is the example; and one that fails is switched off.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use metrics_common::codec::ServerMessage;
use metrics_common::{Availability, Info};
use netto_log_format::LogReader;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message;

use crate::child::{self, Owned};
use crate::daemon::Daemon;
use crate::faulty;
use crate::http;
use crate::trial::tests;
use crate::with::{QUICK, serve, wait_for, with, without};

tests! {
    house::a_feature_is_measured_exported_asked_and_shown_and_one_that_fails_is_off;
    house::its_option_is_an_argument_a_variable_and_a_key_which_begins_it_anew = options;
    house::logs_are_read_by_who_knows_less_and_by_who_knows_more = logs;
    house::a_made_up_host_has_it_too = demo;
}

fn availability<'a>(info: &'a Info, name: &str) -> Option<&'a Availability> {
    let found = info
        .instruments
        .iter()
        .find(|instrument| instrument.name == name);
    found.map(|instrument| &instrument.availability)
}

fn a_feature_is_measured_exported_asked_and_shown_and_one_that_fails_is_off() -> Result<()> {
    let report = child::run(with()?.arg("check"))?;
    let is_there = |line: &str| line.split_whitespace().eq(["ticks", "running"]);
    ensure!(report.lines().any(is_there), "check says:\n{report}");

    let receiver = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let endpoint = format!("http://{}", receiver.local_addr()?);
    let pushing = ["--otlp-endpoint", &endpoint, "--otlp-interval", "1"];
    let mut daemon = serve(with()?, &[&QUICK[..], &pushing].concat())?;
    let pushed = pushed(&receiver)?;
    for name in ["netto.raised.softirqs", "netto.raised.softirq.gap"] {
        ensure!(
            pushed.iter().any(|metric| metric == name),
            "{name} in {pushed:?}"
        );
    }

    wait_for(&daemon, 4)?;
    let info = daemon.info()?;
    let ticks = availability(&info, "ticks");
    ensure!(ticks == Some(&Availability::by("running")), "{ticks:?}");
    let faulty = availability(&info, "faulty");
    let cause = faulty::CAUSE;
    let expected = Availability::missing(format!("switched off: {cause}"));
    ensure!(faulty == Some(&expected), "{faulty:?}");
    let note = format!("faulty is switched off: {cause}.");
    ensure!(info.notes.contains(&note), "the notes are {:?}", info.notes);

    let snapshot = daemon.snapshot()?;
    let (count, sequence) = (&snapshot["ticks"]["count"], &snapshot["sequence"]);
    ensure!(count == sequence, "{count} ticks in {sequence} snapshots");
    let metrics = http::get_ok(daemon.at, "/metrics")?.body;
    for sample in [
        "netto_raised_softirqs_total ",
        "netto_raised_softirq_gap_seconds_count{vector=\"other\"} ",
    ] {
        let value = metrics.lines().find_map(|line| line.strip_prefix(sample));
        let value: f64 = value.with_context(|| format!("no {sample}"))?.parse()?;
        ensure!(value > 0.0, "{sample}{value}");
    }
    let answer = http::get_ok(daemon.at, "/api/v1/ticks?last=1s")?.json()?;
    ensure!(answer["raised"].is_u64(), "/api/v1/ticks says {answer}");
    shown(daemon.at)?;
    daemon.must_live()
}

/// The command of the feature, about the daemon there.
fn shown(at: SocketAddr) -> Result<()> {
    let url = format!("http://{at}");
    let show = ["ticks", "--connect", &url, "--seconds", "1"];
    let text = child::run(with()?.args(show).args(["--once", "--bars"]))?;
    let has_vector = text.lines().any(|line| line.starts_with("net_rx"));
    ensure!(text.contains(" softirqs raised") && has_vector, "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&child::run(with()?.args(show).arg("--json"))?)?;
    ensure!(json["gaps"][2]["vector"] == "other", "{json}");
    let help = child::run(with()?.arg("--help"))?;
    let is_there = |line: &str| line.trim_start().starts_with("ticks  ");
    ensure!(help.lines().any(is_there), "{help}");
    Ok(())
}

/// Names of the metrics that are pushed first.
fn pushed(receiver: &TcpListener) -> Result<Vec<String>> {
    let (mut stream, _) = receiver.accept()?;
    stream.set_read_timeout(Some(child::PATIENCE))?;
    let (mut received, mut chunk) = (Vec::new(), [0; 16 << 10]);
    let body = loop {
        let count = stream.read(&mut chunk)?;
        ensure!(count > 0, "a push that ends early");
        received.extend_from_slice(&chunk[..count]);
        let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&received[..end]).to_lowercase();
        let length = head.split("content-length: ").nth(1).context("no length")?;
        let length: usize = length.lines().next().unwrap_or_default().parse()?;
        let body = &received[end + 4..];
        if body.len() >= length {
            break body.to_vec();
        }
    };
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
    let mut plain = Vec::new();
    GzDecoder::new(&body[..]).read_to_end(&mut plain)?;
    let request = ExportMetricsServiceRequest::decode(&plain[..])?;
    let scopes = request.resource_metrics.into_iter();
    let scopes = scopes.flat_map(|resource| resource.scope_metrics);
    let names = scopes
        .flat_map(|scope| scope.metrics)
        .map(|metric| metric.name);
    Ok(names.collect())
}

fn options() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("netto.toml");
    let path = file.to_string_lossy();
    let from_file = [&QUICK[..], &["--config", &path]].concat();

    let impossible = "must be 1 to 1000 times, not 0";
    std::fs::write(&file, "ticks-step = 0\n")?;
    let refused = |words: &[&str], value: &str| -> Result<String> {
        let mut command = with()?;
        command.args(words).env("NETTO_TICKS_STEP", value);
        let mut process = Owned::start(&mut command)?;
        let status = process.wait()?;
        ensure!(status.code() == Some(2), "{words:?}: {status}");
        Ok(process.stderr())
    };
    for (words, variable, blamed) in [
        (&["--ticks-step", "0"][..], "1", "--ticks-step"),
        (&[], "0", "NETTO_TICKS_STEP"),
    ] {
        let error = refused(words, variable)?;
        let expected = format!("{blamed} {impossible}");
        ensure!(error.contains(&expected), "{expected}: {error}");
    }
    let refusal = child::run(with()?.args(&from_file)).err();
    let refusal = refusal.context("a wrong key is taken")?.to_string();
    let expected = format!("line 1: ticks-step {impossible}");
    ensure!(refusal.contains(&expected), "{expected}: {refusal}");

    std::fs::write(&file, "ticks-step = 5\n")?;
    let daemon = serve(with()?, &from_file)?;
    let snapshot = daemon.snapshot()?;
    let counted = |snapshot: &serde_json::Value| {
        let count = snapshot["ticks"]["count"].as_u64();
        count.zip(snapshot["sequence"].as_u64())
    };
    let (count, sequence) = counted(&snapshot).context("no ticks")?;
    ensure!(count == 5 * sequence, "{count} in {sequence} snapshots");
    std::fs::write(&file, "ticks-step = 997\n")?;
    daemon.process.signal("HUP")?;
    child::eventually(|| {
        let (count, sequence) = counted(&daemon.snapshot()?).context("no ticks")?;
        let is_anew = count % 997 == 0 && count < 997 * sequence;
        ensure!(is_anew, "{count} in {sequence} snapshots");
        Ok(())
    })
}

/// Has a netto write a log of some snapshots.
fn record(program: Command, path: &Path) -> Result<()> {
    let text = path.to_string_lossy();
    let daemon = serve(program, &[&QUICK[..], &["--log-file", &text]].concat())?;
    wait_for(&daemon, 5)?;
    daemon.terminate()?;
    Ok(())
}

/// Intervals of a log with ticks, and all.
fn read(path: &Path) -> Result<(u64, u64)> {
    let mut reader = LogReader::new(File::open(path)?)?;
    let (mut ticks, mut snapshots) = (0, 0);
    for message in reader.by_ref() {
        if let ServerMessage::Snapshot(snapshot) = message? {
            snapshots += 1;
            ensure!(snapshot.sections.has("cost"), "no cost: {snapshot:?}");
            ticks += u64::from(snapshot.sections.has("ticks"));
        }
    }
    let lost = (reader.unknown_messages(), reader.damaged_stretches());
    ensure!(lost == (0, 0), "unknown and damaged messages: {lost:?}");
    Ok((ticks, snapshots))
}

/// Whether a netto that plays this log exports ticks.
fn plays(program: Command, path: &Path) -> Result<bool> {
    let player = serve(program, &["replay", &path.to_string_lossy()])?;
    wait_for(&player, 1)?;
    let metrics = http::get_ok(player.at, "/metrics")?.body;
    ensure!(
        metrics.contains("netto_component_cpu_seconds_total"),
        "{metrics}"
    );
    Ok(metrics.contains("netto_raised_softirqs_total "))
}

fn logs() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("with.log");
    record(with()?, &path)?;
    let (ticks, snapshots) = read(&path)?;
    ensure!(ticks == snapshots && ticks >= 5, "{ticks} of {snapshots}");
    ensure!(plays(with()?, &path)?, "the recording has no ticks");
    ensure!(!plays(without()?, &path)?, "exported by a netto without");

    let path = folder.path().join("without.log");
    record(without()?, &path)?;
    let (ticks, snapshots) = read(&path)?;
    ensure!(ticks == 0 && snapshots >= 5, "{ticks} of {snapshots}");
    ensure!(!plays(with()?, &path)?, "ticks that nobody counted");
    Ok(())
}

fn demo() -> Result<()> {
    let daemon: Daemon = serve(with()?, &["demo", "--cpus", "2"])?;
    let ticks = &daemon.snapshot()?["ticks"];
    ensure!(ticks["gaps"][0]["vector"] == "net_rx", "{ticks}");
    Ok(())
}
