//! What `netto flows` costs for a packet: its program run on packets of a known flow, of new flows, of
//! flows for which its table has no room, and on packets that are not sampled; beside a program that
//! does nothing; and what a table of a million flows takes.

use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType, libbpf_sys};
use nix::sched::{CloneFlags, setns};

use super::figure;
use crate::flow_runs::{self, run, run_live};
use crate::flow_table::frames::{ethernet, ipv4, ipv6, tcp, with_ports};
use crate::flow_table::{Flows, network};
use crate::lab::Network;
use crate::traffic;

/// Runs of one packet in one call of the kernel.
const REPEATS: u32 = 1_000_000;
/// Packets of as many flows, each in a call of its own.
const PORTS: u16 = 50_000;
/// Flows in a table that is emptied.
const MANY: u32 = 1_000_000;
/// Flows that are taken by one call of the kernel.
const BATCH: u32 = 4096;
/// Bytes of a flow's key and of what is counted of it.
const KEY: usize = 48;
const COUNTS: usize = 88;
/// How often live frames are sent by each of two programs, in turn.
const ROUNDS: usize = 5;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const XDP: &str = "netto_flows_xdp";

/// Measures.
pub fn measure() -> Result<()> {
    let network = network()?;
    let roomy = Flows::start(&network, &["--flows-at", "xdp"])?;
    let program = flow_runs::program(XDP)?;
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
    live(&network, &program)?;
    sample_none()?;
    let without_entry = run(&program, &datagram(1), REPEATS)?;
    figure("flows_not_sampled_ns", &[without_entry]);
    drop(program);
    roomy.finish()?;
    let full = Flows::start(&network, &["--flows-at", "xdp", "--flows-max", "1"])?;
    let program = flow_runs::program(XDP)?;
    one_by_one(&program, datagram)?;
    let without_room = one_by_one(&program, datagram)?;
    figure("flows_no_room_more_ns", &[without_room - same]);
    drop(program);
    full.finish()?;
    empty()
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

/// The packet rate of frames that pass this program and go up the stack, as a share of those that pass
/// a program which only lets them pass.
fn live(network: &Network, program: &OwnedFd) -> Result<()> {
    let _agent = traffic::agent(&network.left, &["attach", "xdp-pass", "lan"])?;
    let only_passes = flow_runs::program("nettotest_work")?;
    let path = format!("/run/netns/{}", network.right.name());
    let namespace = File::open(&path).with_context(|| format!("cannot open {path}"))?;
    let ratios = std::thread::scope(|scope| {
        let rounds = scope.spawn(|| -> Result<Vec<f64>> {
            setns(namespace, CloneFlags::CLONE_NEWNET).context("cannot enter the namespace")?;
            let frame = datagram(1);
            let round = |_| {
                let bare = run_live(&only_passes, &frame, REPEATS)?;
                Ok(bare / run_live(program, &frame, REPEATS)?)
            };
            (0..ROUNDS).map(round).collect()
        });
        rounds.join().map_err(|_| anyhow::anyhow!("it panicked"))?
    })?;
    figure("flows_live_ratio", &ratios);
    Ok(())
}

/// Has the newest programs sample one packet in four billions: the second word of what they are told.
fn sample_none() -> Result<()> {
    let all = MapInfoIter::default().filter(|info| info.name == "flows_control");
    let id = all.map(|info| info.id).max();
    let map = MapHandle::from_map_id(id.context("netto flows has no control map")?)?;
    let key = 0_u32.to_ne_bytes();
    let mut control = map.lookup(&key, MapFlags::ANY)?.context("no element")?;
    let word = control.get_mut(8..16).context("no second word")?;
    word.copy_from_slice(&u64::from(u32::MAX).to_ne_bytes());
    Ok(map.update(&key, &control, MapFlags::ANY)?)
}

/// Fills a table like that of the programs, and empties it as netto does.
fn empty() -> Result<()> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let (key, counts) = (KEY as u32, COUNTS as u32);
    let name = Some("nettotest_flows");
    let map = MapHandle::create(MapType::Hash, name, key, counts, MANY, &options)?;
    let number = map.as_fd().as_raw_fd();
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("memlock:"));
    let bytes: f64 = line.context("no memlock")?.trim().parse()?;
    figure("flows_entry_bytes", &[bytes / f64::from(MANY)]);
    let mut keys = vec![0; KEY * MANY as usize];
    for (flow, key) in (0_u64..).zip(keys.chunks_mut(KEY)) {
        key[..8].copy_from_slice(&flow.to_ne_bytes());
    }
    let mut values = vec![0; COUNTS * MANY as usize];
    map.update_batch(&keys, &values, MANY, MapFlags::ANY, MapFlags::ANY)?;
    let begun = Instant::now();
    let (mut left, mut position, mut is_first) = (MANY as usize, 0_u64, true);
    while left > 0 {
        let mut count = BATCH;
        let from = if is_first {
            std::ptr::null_mut()
        } else {
            (&raw mut position).cast()
        };
        // SAFETY: there is room for as many keys and values as are asked for, and for a position.
        unsafe {
            libbpf_sys::bpf_map_lookup_and_delete_batch(
                number,
                from,
                (&raw mut position).cast(),
                keys.as_mut_ptr().cast(),
                values.as_mut_ptr().cast(),
                &raw mut count,
                std::ptr::null(),
            )
        };
        ensure!(count > 0 && count <= BATCH, "{left} flows are left");
        left -= count as usize;
        is_first = false;
    }
    let took = begun.elapsed();
    figure("flows_empty_million_ms", &[took.as_secs_f64() * 1e3]);
    Ok(())
}
