//! Owners by process: a pid is no name.

use std::fs;
use std::time::{Duration, SystemTime};

use anyhow::{Result, bail, ensure};
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
const MEASURED: Duration = Duration::from_secs(3);

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
    let from = SystemTime::now();
    let first = flow(&one).start()?;
    let pid = first[0][1].pid();
    std::thread::sleep(MEASURED);
    drop(first);
    let second = start_as(pid, &flow(&two))?;
    std::thread::sleep(MEASURED);
    drop(second);
    let sum = followed.between(from, SystemTime::now())?;
    let owners = owners(&sum)?;
    let row = index_of("rx_softirq").unwrap_or_default();
    let of = |path: &str| -> u64 {
        let places = owners.owners.iter().enumerate();
        let own = places.filter(|(_, owner)| owner.pid == pid && owner.cgroup == path);
        own.map(|(place, _)| owners.caused_ns(place as u32, row))
            .sum()
    };
    let (first_ns, second_ns) = (of(one.path()), of(two.path()));
    println!("\nprocess {pid} in one group caused {first_ns} ns, in the other {second_ns} ns");
    ensure!(first_ns > 0 && second_ns > 0);
    // A busy host gives the two runs not the same time.
    let ratio = first_ns as f64 / second_ns as f64;
    ensure!(
        (0.1..=10.0).contains(&ratio),
        "the one caused {ratio:.2} times as much as the other"
    );
    Ok(())
}
