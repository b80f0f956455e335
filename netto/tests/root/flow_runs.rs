//! Packets for the programs of flows without a cable: the kernel runs the XDP program on bytes that it
//! is given, and says how long that took. And many flows at once, by that way.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use anyhow::{Context, Result, ensure};
use libbpf_rs::libbpf_sys::{
    BPF_F_TEST_XDP_LIVE_FRAMES, bpf_prog_get_fd_by_id, bpf_prog_test_run_opts, bpf_test_run_opts,
};
use libbpf_rs::query::ProgInfoIter;

use crate::child;
use crate::daemon::Daemon;
use crate::flow_daemon::{answer, number, sums_hold};
use crate::flow_table::frames::{ethernet, ipv4, with_ports};
use crate::lab::Wire;
use crate::trial::tests;

tests! {
    flow_runs::of_ten_million_flows_a_table_of_one_million_keeps_the_totals ["ip"];
}

const FLOWS: u32 = 10_000_000;
const ROOM: &str = "1000000";
/// Ten times as many flows, and no more memory of the process than a million take: a second table, as
/// the hash grows, and what is read from the kernel at once.
const MOST_BYTES: u64 = 1_500_000_000;

/// The newest program with this name; an older one may be there until the kernel has freed it.
pub fn program(name: &str) -> Result<OwnedFd> {
    let all = ProgInfoIter::default().filter(|info| info.name == name);
    let newest = all.map(|info| info.id).max();
    let id = newest.with_context(|| format!("there is no program {name}"))?;
    // SAFETY: the call takes no pointer.
    let descriptor = unsafe { bpf_prog_get_fd_by_id(id) };
    ensure!(descriptor >= 0, "the program has gone");
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Nanoseconds of a run on a frame.
pub fn run(program: &OwnedFd, frame: &[u8], repeats: u32) -> Result<f64> {
    test_run(program, frame, repeats, 0)
}

/// The same of frames that take the way of received ones, in the network namespace of this thread.
pub fn run_live(program: &OwnedFd, frame: &[u8], repeats: u32) -> Result<f64> {
    test_run(program, frame, repeats, BPF_F_TEST_XDP_LIVE_FRAMES)
}

fn test_run(program: &OwnedFd, frame: &[u8], repeats: u32, flags: u32) -> Result<f64> {
    let mut options = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as _,
        data_in: frame.as_ptr().cast(),
        data_size_in: frame.len() as u32,
        repeat: repeats as i32,
        flags,
        ..bpf_test_run_opts::default()
    };
    // SAFETY: the kernel reads as many bytes of the frame as it has, and writes to the options only.
    let result = unsafe { bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    ensure!(result == 0, "the kernel does not run it: {result}");
    Ok(f64::from(options.duration))
}

fn of_ten_million_flows_a_table_of_one_million_keeps_the_totals() -> Result<()> {
    let wire = Wire::new()?;
    let daemon = Daemon::start(&[
        "--flows",
        &wire.device,
        "--flows-at",
        "xdp",
        "--flows-max",
        ROOM,
        "--max-overhead",
        "100",
        // Longer than it takes to fill the table.
        "--user-period",
        "10000",
    ])?;
    let program = program("netto_flows_xdp")?;
    let udp = with_ports([5, 53], 8, &[]);
    let mut frame = ethernet(&[], 0x0800, &ipv4(0, 0, 17, &udp));
    let bytes = u64::from(FLOWS) * 28;
    for flow in 0..FLOWS {
        // The source is one of 40,000 networks.
        frame[26..30].copy_from_slice(&flow.to_be_bytes());
        run(&program, &frame, 1)?;
    }
    let found = child::eventually(|| {
        let answer = answer(&daemon)?;
        ensure!(number(&answer, "packets")? >= FLOWS.into(), "{answer}");
        Ok(answer)
    })?;
    sums_hold(&found)?;
    // The cable has packets of its own.
    let few = u64::from(FLOWS) + 1_000;
    ensure!(number(&found, "packets")? < few, "{found}");
    ensure!((bytes..bytes + 1_000_000).contains(&number(&found, "bytes")?));
    ensure!(number(&found, "prefix_packets")? > 0, "{found}");
    ensure!(number(&found, "active")? <= 1_000_000, "{found}");
    let peak = peak_bytes(&daemon)?;
    let [by_prefix, lost, ended] =
        ["prefix_packets", "lost_packets", "ended"].map(|name| number(&found, name));
    println!(
        "\n{ended:?} flows have ended, {by_prefix:?} packets by prefix, {lost:?} lost, \
         {} MB of memory at most",
        peak / 1_000_000
    );
    ensure!(peak < MOST_BYTES, "{peak} bytes of memory");
    Ok(())
}

/// The most that the daemon has had.
fn peak_bytes(daemon: &Daemon) -> Result<u64> {
    let path = format!("/proc/{}/status", daemon.process.pid());
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kilobytes: u64 = kilobytes.context("no VmHWM")?.trim().parse()?;
    Ok(kilobytes * 1024)
}
