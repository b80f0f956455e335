//! Owners by process: a pid is no name.

use std::fs;

use anyhow::{Context, Result, bail};
use metrics_common::Owners;
use metrics_common::component::index_of;

use crate::child::Owned;
use crate::flows::{Flow, often, owners, rate};
use crate::follow::Followed;
use crate::groups::Group;
use crate::lab::Network;
use crate::trial::NotOnThisKernel;

/// The kernel gives the next process the number after this one.
const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";
/// Another process may get the next number.
const TRIES: usize = 50;

/// Starts something whose receiver has this pid.
fn start_as(pid: u32, flow: &Flow<'_>) -> Result<Vec<[Owned; 2]>> {
    for _ in 0..TRIES {
        fs::write(LAST_PID, (pid - 1).to_string())?;
        let started = flow.start()?;
        if started[0][1].pid() == pid {
            return Ok(started);
        }
    }
    bail!("{TRIES} times somebody else became process {pid}")
}

/// One process receives and ends; another one of the same number receives in another group.
pub fn a_pid_is_used_again() -> Result<()> {
    if fs::metadata(LAST_PID).is_err() {
        let reason = "this kernel lets nobody choose a pid";
        return Err(NotOnThisKernel(reason.to_owned()).into());
    }
    let network = Network::direct()?;
    let [one, two, senders] = ["one", "two", "senders"].map(Group::new);
    let (one, two, senders) = (one?, two?, senders?);
    let mut followed = Followed::start_with(&often("process"))?;
    let flow = |group| Flow::udp([group, &senders], &network, 6001, rate(20_000));
    let row = index_of("rx_softirq").context("no such row")?;
    let caused_ns = |owners: &Owners, pid: u32, path: &str| -> u64 {
        let places = owners.owners.iter().enumerate();
        let of_process = places.filter(|(_, owner)| owner.pid == pid && owner.cgroup == path);
        of_process
            .map(|(place, _)| owners.caused_ns(place as u32, row))
            .sum()
    };
    let mut until_it_causes = |pid: u32, group: &Group| {
        followed.find(
            |snapshot| format!("process {pid} in {}: {:?}", group.path(), owners(snapshot)),
            |snapshot| {
                let ns = caused_ns(owners(snapshot)?, pid, group.path());
                Ok((ns > 0).then_some(()))
            },
        )
    };
    let first = flow(&one).start()?;
    let pid = first[0][1].pid();
    until_it_causes(pid, &one)?;
    drop(first);
    let _second = start_as(pid, &flow(&two))?;
    until_it_causes(pid, &two)?;
    Ok(())
}
