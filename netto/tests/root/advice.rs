//! Situations that advice is for, made on the real kernel: it is given, and ends once what it says was
//! done, and no more was gained than it had said.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::child::{self, Owned};
use crate::daemon::Daemon;
use crate::flows::needs_two_cpus;
use crate::lab::{Network, Wire};
use crate::trial::{NotOnThisKernel, tests};
use crate::{cpus, guest, http, traffic};

tests! {
    advice::a_cpu_full_of_receiving_is_spread_by_the_advised_command ["ip"];
    advice::small_writes_are_told_until_they_are_large ["ip"];
}

/// The CPU that sends, and so receives.
const FULL: u32 = 0;
/// Packets a second, and what each takes in the softirq, nanoseconds: 0.85 CPUs.
const PACKETS: &str = "8500";
const PACKET_NS: &str = "100000";
const PORT: u16 = 6001;
/// Intervals after which the last five seconds are counted in full.
const SETTLED: u64 = 30;
/// What is made here is there at once: five seconds are judged, after the first fifteen.
const HOLDS_WITHIN: Duration = Duration::from_secs(40);
/// What idle time may be off by, in CPUs.
const OFF: f64 = 0.1;

/// The answer about the last seconds.
pub fn advice(daemon: &Daemon) -> Result<Value> {
    let answer = http::get_ok(daemon.at, "/api/v1/advice?last=5s")?;
    answer.json()
}

/// The rule's item of a list, if it is in it.
fn of_rule<'a>(answer: &'a Value, list: &str, rule: &str) -> Result<Option<&'a Value>> {
    let all = answer[list].as_array().context("no list")?;
    Ok(all.iter().find(|entry| entry["rule"] == rule))
}

/// What a rule says now; an error if it does not hold.
pub fn given(daemon: &Daemon, rule: &str) -> Result<Value> {
    let answer = advice(daemon)?;
    let entry = of_rule(&answer, "advice", rule)?.cloned();
    entry.with_context(|| format!("{rule} does not hold: {answer}"))
}

/// An error while a rule lacks a figure.
pub fn judged(daemon: &Daemon, rule: &str) -> Result<()> {
    let answer = advice(daemon)?;
    match of_rule(&answer, "unjudged", rule)? {
        Some(entry) => bail!("it is not judged: {entry}"),
        None => Ok(()),
    }
}

/// An error while a rule holds, and if the daemon does not answer.
pub fn ended(daemon: &Daemon, rule: &str) -> Result<()> {
    match of_rule(&advice(daemon)?, "advice", rule)? {
        Some(entry) => bail!("it holds: {entry}"),
        None => Ok(()),
    }
}

/// What a rule says once it holds.
///
/// # Errors
/// It never does; [`NotOnThisKernel`] if it lacks a figure here.
pub fn wait_for(daemon: &Daemon, rule: &str) -> Result<Value> {
    let limit = if guest::is_one() {
        child::PATIENCE
    } else {
        HOLDS_WITHIN
    };
    let found = child::within(limit, || {
        let answer = advice(daemon)?;
        // Probes do not count all of the first intervals.
        if daemon.sequence()? >= SETTLED
            && let Some(entry) = of_rule(&answer, "unjudged", rule)?
        {
            return Ok(Err(entry.to_string()));
        }
        given(daemon, rule).map(Ok)
    })?;
    let advice = found.map_err(NotOnThisKernel)?;
    println!("\n{advice:#}");
    Ok(advice)
}

/// An agent of the host's own namespace.
pub fn agent_here(words: &[&str]) -> Result<Owned> {
    let binary = std::env::current_exe().context("cannot tell where this test binary is")?;
    let binary = binary
        .to_str()
        .context("this test binary has no UTF-8 path")?;
    let mut command = child::mortal(binary);
    let mut agent = Owned::start(command.arg("agent").args(words))?;
    agent.wait_for_line("ready")?;
    Ok(agent)
}

/// Idle CPUs over some seconds, of this line of `/proc/stat`: `cpu` or one of them.
pub fn idle_cpus(line: &str) -> Result<f64> {
    let read = || -> Result<[u64; 2]> {
        let text = std::fs::read_to_string("/proc/stat")?;
        let mut lines = text
            .lines()
            .filter_map(|text_line| text_line.split_once(' '));
        let (_, values) = lines
            .find(|entry| entry.0 == line)
            .context("no such line in /proc/stat")?;
        let values: Vec<u64> = values
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        // Idle and waiting for disks; guests are in user time.
        Ok([values[3] + values[4], values[..8].iter().sum()])
    };
    let before = read()?;
    std::thread::sleep(Duration::from_secs(5));
    let after = read()?;
    let cpus = if line == "cpu" { cpus::count()? } else { 1 };
    Ok(cpus as f64 * (after[0] - before[0]) as f64 / (after[1] - before[1]) as f64)
}

/// A command that a rule advises.
pub fn command(advice: &Value, number: usize) -> Result<&str> {
    advice["try"][number].as_str().context("no such command")
}

/// Types a command that a rule advises.
pub fn type_here(advice: &Value, number: usize) -> Result<()> {
    let command = command(advice, number)?;
    child::run(Command::new("sh").args(["-c", command])).map(drop)
}

/// No more was gained than a rule had said.
pub fn is_bounded(advice: &Value, gained: f64) -> Result<()> {
    let Some(stated) = advice["gain_cpus"].as_f64() else {
        println!("gained {gained:.2} CPUs, of which nothing was said");
        return Ok(());
    };
    println!("gained {gained:.2} of at most {stated:.2} CPUs");
    ensure!(gained <= stated + OFF, "more was gained than stated");
    Ok(())
}

pub fn a_cpu_full_of_receiving_is_spread_by_the_advised_command() -> Result<()> {
    needs_two_cpus()?;
    let wire = Wire::new()?;
    let _burner = agent_here(&["burn", &wire.device, PACKET_NS])?;
    let (to, cpu) = (wire.nobody.to_string(), FULL.to_string());
    let words = ["udp-paced-flows", &to, PACKETS, &cpu];
    let _sender = traffic::agent(&wire.inside, &words)?;
    let daemon = Daemon::start(&["--max-overhead", "100"])?;
    let device = &wire.device;
    // How the device is set up is known after the first reading.
    let advice = child::eventually(|| {
        let entry = given(&daemon, "rx-on-one-cpu")?;
        let evidence = entry["evidence"].as_str().context("no evidence")?;
        let expected =
            format!("; {device} has one receive queue, no interrupts of its own and no RPS");
        ensure!(evidence.ends_with(&expected), "{evidence}");
        ensure!(
            evidence.starts_with(&format!("CPU {FULL} spends ")),
            "{evidence}"
        );
        Ok(entry)
    })?;
    println!("\n{advice:#}");
    let full = format!("cpu{FULL}");
    let before = idle_cpus(&full)?;
    type_here(&advice, 0)?;
    child::eventually(|| ended(&daemon, "rx-on-one-cpu"))?;
    let gained = idle_cpus(&full)? - before;
    ensure!(gained > OFF, "nothing was gained");
    is_bounded(&advice, gained)
}

pub fn small_writes_are_told_until_they_are_large() -> Result<()> {
    let network = Network::direct()?;
    let to = format!("{}:{PORT}", network.right_v4);
    let writes = |bytes: &str| -> Result<[Owned; 2]> {
        let sink = traffic::agent(&network.right, &["tcp-sink", &to])?;
        Ok([
            traffic::agent(&network.left, &["tcp-writes", &to, bytes, "0"])?,
            sink,
        ])
    };
    let small = writes("64")?;
    let daemon = Daemon::start(&["--max-overhead", "100"])?;
    let advice = wait_for(&daemon, "small-writes")?;
    let bytes = advice["figures"][1]["value"].as_f64().context("no value")?;
    ensure!(bytes <= 512.0, "{advice}");
    ensure!(advice["gain_cpus"].as_f64() > Some(0.0), "{advice}");
    drop(small);
    let _large = writes("65536")?;
    child::eventually(|| ended(&daemon, "small-writes"))
}
