//! What `netto flows` costs for a packet: its program run on packets of a known flow, of new flows, of
//! flows for which its table has no room, and on packets that are not sampled.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use anyhow::{Context, Result, ensure};
use libbpf_rs::libbpf_sys::{bpf_prog_get_fd_by_id, bpf_prog_test_run_opts, bpf_test_run_opts};
use libbpf_rs::query::{MapInfoIter, ProgInfoIter};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};

use super::figure;
use crate::flow_table::frames::{ethernet, ipv4, ipv6, tcp, with_ports};
use crate::flow_table::{Flows, network};

/// Runs of one packet in one call of the kernel.
const REPEATS: u32 = 1_000_000;
/// Packets of as many flows, each in a call of its own.
const PORTS: u16 = 50_000;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// Measures.
pub fn measure() -> Result<()> {
    let network = network()?;
    let roomy = Flows::start(&network, &["--flows-at", "xdp"])?;
    let program = program()?;
    let udp = datagram(1);
    let segment = ethernet(&[], IPV6, &ipv6(6, &tcp([1, 2], 0x10, 3, &[0; 60])));
    for (name, frame) in [
        ("flows_no_ip_ns", ethernet(&[], 0x88b5, &[0; 46])),
        ("flows_known_udp_ns", udp.clone()),
        ("flows_known_tcp6_ns", segment),
    ] {
        figure(name, &[run(&program, &frame, REPEATS)?]);
    }
    // One run for each call, of the same packet and of others: the difference is a new flow's.
    let same = one_by_one(&program, |_| udp.clone())?;
    let fresh = one_by_one(&program, datagram)?;
    figure("flows_new_more_ns", &[fresh - same]);
    sample_none()?;
    let without_entry = run(&program, &datagram(1), REPEATS)?;
    figure("flows_not_sampled_ns", &[without_entry]);
    drop(program);
    roomy.finish()?;
    let _full = Flows::start(&network, &["--flows-at", "xdp", "--flows-max", "1"])?;
    let program = self::program()?;
    one_by_one(&program, datagram)?;
    let without_room = one_by_one(&program, datagram)?;
    figure("flows_no_room_more_ns", &[without_room - same]);
    Ok(())
}

fn datagram(port: u16) -> Vec<u8> {
    ethernet(
        &[],
        IPV4,
        &ipv4(0, 0, 17, &with_ports([port, 53], 8, &[0; 18])),
    )
}

/// The mean of a run, where each packet has a call.
fn one_by_one(program: &OwnedFd, frame: impl Fn(u16) -> Vec<u8>) -> Result<f64> {
    let runs = (1..=PORTS).map(|port| run(program, &frame(port), 1));
    let sum: f64 = runs.sum::<Result<f64>>()?;
    Ok(sum / f64::from(PORTS))
}

/// Has the newest programs sample one packet in four billions: the second word of what they are told.
fn sample_none() -> Result<()> {
    let all = MapInfoIter::default().filter(|info| info.name == "flows_control");
    let id = all.map(|info| info.id).max();
    let map = MapHandle::from_map_id(id.context("netto flows has no control map")?)?;
    let key = 0_u32.to_ne_bytes();
    let mut told = map.lookup(&key, MapFlags::ANY)?.context("no element")?;
    let word = told.get_mut(8..16).context("no second word")?;
    word.copy_from_slice(&u64::from(u32::MAX).to_ne_bytes());
    Ok(map.update(&key, &told, MapFlags::ANY)?)
}

/// The program at received packets.
fn program() -> Result<OwnedFd> {
    let all = ProgInfoIter::default().filter(|info| info.name == "netto_flows_xdp");
    // An earlier one may be there until the kernel has freed it; numbers grow.
    let newest = all.map(|info| info.id).max();
    let id = newest.context("netto flows has no XDP program")?;
    // SAFETY: the call takes no pointer.
    let descriptor = unsafe { bpf_prog_get_fd_by_id(id) };
    ensure!(descriptor >= 0, "the program has gone");
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Nanoseconds of a run.
fn run(program: &OwnedFd, frame: &[u8], repeats: u32) -> Result<f64> {
    let mut options = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as _,
        data_in: frame.as_ptr().cast(),
        data_size_in: frame.len() as u32,
        repeat: repeats as i32,
        ..bpf_test_run_opts::default()
    };
    // SAFETY: the kernel reads as many bytes of the frame as it has, and writes to the options only.
    let result = unsafe { bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    ensure!(result == 0, "the kernel does not run it: {result}");
    Ok(f64::from(options.duration))
}
