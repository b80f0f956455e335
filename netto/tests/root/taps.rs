//! Networking of virtual machines and of VPNs in user space: what goes through TUN and TAP, and what
//! vhost workers do, is named and belongs to the process behind it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use metrics_common::codec::ServerMessage;
use metrics_common::component::{children, index_of};
use metrics_common::{Owner, OwnerKind};
use netto_log_format::LogReader;

use crate::burners::cpu_seconds;
use crate::child::{self, Owned};
use crate::daemon::{self, Daemon, short_interval};
use crate::flows::{OTHER_CPU, RECEIVING_CPU, agent, caused_by, look, often, rate, total};
use crate::follow::Followed;
use crate::groups::Group;
use crate::lab::{Namespace, Network};
use crate::trial::{NotOnThisKernel, tests};
use crate::{guest, tap_echo};

tests! {
    taps::what_goes_through_a_tap_is_named_and_belongs_to_the_process_behind_it ["ip"]
        = || belongs_to_the_machine("tap-echo", &["tun_write", "tun_read"]);
    taps::what_a_vhost_worker_does_is_named_and_belongs_to_its_machine ["ip"]
        = || belongs_to_the_machine("vhost-echo", &["vhost_net"]);
    taps::what_is_sent_to_a_tap_belongs_to_the_machine_behind_it ["ip"]
        = is_sent_to_the_machine;
    taps::reading_and_writing_costs_what_the_process_has_had_of_the_cpu ["ip"]
        = costs_what_it_costs;
    taps::a_vhost_worker_costs_what_it_has_had_of_the_cpu ["ip"] = vhost_costs_what_it_costs;
}

/// Datagrams a second.
const PACKETS: u64 = 20_000;
const LENGTH: Duration = Duration::from_secs(4);
/// Least part of a component's time that is its owner's.
const KNOWN: f64 = 0.9;

/// A host with one virtual machine, which sends back what is sent to it.
struct Host {
    /// Ends before its group is removed.
    agent: Owned,
    machine: Group,
    senders: Group,
    namespace: Namespace,
}

impl Host {
    fn new(role: &str) -> Result<Host> {
        if role == "vhost-echo" && !fs::exists("/dev/vhost-net")? {
            return Err(NotOnThisKernel("there is no vhost-net here".to_owned()).into());
        }
        let namespace = Namespace::new()?;
        let machine = Group::new("machine")?;
        let agent = agent(&machine, &namespace, RECEIVING_CPU, &[role, "vm0"])?;
        set_up(&namespace)?;
        Ok(Host {
            agent,
            machine,
            senders: Group::new("senders")?,
            namespace,
        })
    }

    /// Sends datagrams of so many bytes to the machine at this rate.
    fn send(&self, rate: u64, bytes: u32) -> Result<Owned> {
        let (rate, bytes) = (rate.to_string(), bytes.to_string());
        let words = ["udp-paced-bytes", "198.18.0.2:7", &rate, &bytes];
        agent(&self.senders, &self.namespace, OTHER_CPU, &words)
    }
}

/// The host's side of the machine's interface, and the machine's address.
fn set_up(host: &Namespace) -> Result<()> {
    host.ip("address add 198.18.0.1/24 dev vm0")?;
    host.ip("link set vm0 up")?;
    host.ip("neighbour add 198.18.0.2 lladdr 02:00:00:00:00:02 dev vm0")?;
    Ok(())
}

fn length() -> Duration {
    if guest::is_one() { 5 * LENGTH } else { LENGTH }
}

/// These components have time only while there are packets, and it is the machine's.
fn belongs_to_the_machine(role: &str, components: &[&str]) -> Result<()> {
    let host = Host::new(role)?;
    let mut followed = Followed::start_with(&often("process"))?;
    let before = look(&mut followed, LENGTH)?;
    let _load = host.send(rate(PACKETS), 64)?;
    let sum = look(&mut followed, length())?;
    for component in components {
        let [quiet, busy] = [&before, &sum].map(|sum| total(sum, component));
        let (quiet, busy) = (quiet?, busy?);
        let known = caused_by(&sum, &host.machine, component)? / busy;
        let message = format!(
            "{component}: {:.1} ms without packets, {:.1} ms with them, of which {known:.3} are the machine's",
            quiet / 1e6,
            busy / 1e6,
        );
        println!("{message}");
        ensure!(busy > 10.0 * quiet && busy > 2e7 && known > KNOWN, message);
    }
    Ok(())
}

/// Softirqs that receive for a TAP have no socket of it: they belong to the interface, and with it to the
/// control group of the process that holds it. Only interfaces of netto's own namespace have owners.
fn is_sent_to_the_machine() -> Result<()> {
    let network = Network::direct()?;
    let machine = Group::new("machine")?;
    let (left, host) = (&network.left, &network.right);
    let _machine = agent(&machine, host, OTHER_CPU, &["tap-echo", "vm0"])?;
    set_up(host)?;
    host.sysctl("net/ipv4/ip_forward", "1")?;
    left.ip(&format!("route add 198.18.0.0/24 via {}", network.right_v4))?;
    let senders = Group::new("senders")?;
    let rate = rate(PACKETS).to_string();
    let words = ["udp-paced-bytes", "198.18.0.2:7", &rate, "64"];
    let _load = agent(&senders, left, OTHER_CPU, &words)?;

    let folder = tempfile::tempdir()?;
    let log = folder.path().join("netto.log");
    let mut netto = host.command(&daemon::binary().to_string_lossy());
    netto.args(often("cgroup")).arg("--log-file").arg(&log);
    netto.args(["--log-flush", "0", "--user-period", short_interval()]);
    let netto = Owned::start(&mut netto)?;
    let is_of_machine = |owner: &Owner| {
        owner.kind == OwnerKind::Interface
            && owner.interface == "forwarded to vm0"
            && owner.cgroup == machine.path()
    };
    let caused = child::eventually(|| {
        let log = LogReader::new(fs::File::open(&log)?)?;
        let rows = children(index_of("rx_softirq").context("no such row")?);
        let mut caused_ns = 0;
        for message in log {
            if let Ok(ServerMessage::Snapshot(snapshot)) = message
                && let Some(owners) = &snapshot.sections.owners
            {
                let places = 0..owners.owners.len();
                for place in places.filter(|place| is_of_machine(&owners.owners[*place])) {
                    let of = |row: &usize| owners.caused_ns(place as u32, *row);
                    caused_ns += rows.iter().map(of).sum::<u64>();
                }
            }
        }
        ensure!(caused_ns > 0, "nothing was forwarded to the machine");
        Ok(caused_ns)
    })?;
    println!("{:.1} ms for packets to the machine", caused as f64 / 1e6);
    drop(netto);
    Ok(())
}

/// Components and a clock of the kernel's are compared for so long.
const COMPARED: Duration = Duration::from_secs(10);
/// How far they may be apart.
const APART: f64 = 0.10;

/// What components took by netto, seconds, and how much each of these readings has grown meanwhile.
fn measured<const N: usize>(
    components: &[&str],
    read: impl Fn() -> Result<[f64; N]>,
) -> Result<(f64, [f64; N])> {
    let daemon = Daemon::start(&["--frequency", "1000", "--max-overhead", "100"])?;
    std::thread::sleep(Duration::from_secs(2));
    let (before, from) = (daemon.reading()?, read()?);
    std::thread::sleep(COMPARED);
    let (after, to) = (daemon.reading()?, read()?);
    let mut seconds = 0.0;
    for component in components {
        seconds += after.event_seconds(component)? - before.event_seconds(component)?;
    }
    Ok((seconds, std::array::from_fn(|at| to[at] - from[at])))
}

fn are_near(by_netto: f64, truth: f64) -> Result<()> {
    let ratio = by_netto / truth;
    let message = format!("{by_netto:.3} s by netto, {truth:.3} s in truth: {ratio:.3}");
    println!("{message}");
    ensure!((ratio - 1.0).abs() <= APART, message);
    Ok(())
}

/// Reading and writing go by way of the kernel's entry and its layer of files, which are not networking:
/// what that takes is measured with a device that does nothing, and is little beside large datagrams. They
/// come as fast as they are read: a process that sleeps between two of them runs so shortly that interrupts
/// are a part of it too late, in a virtual machine by a microsecond or so, and meet the idle task instead.
fn costs_what_it_costs() -> Result<()> {
    let host = Host::new("tap-echo")?;
    host.namespace.ip("link set vm0 mtu 65000")?;
    let _load = host.send(rate(20 * PACKETS), 60_000)?;
    let empty = tap_echo::empty_round_seconds()?;
    let (by_netto, [spent, answered]) = measured(&["tun_write", "tun_read"], || {
        let packets = host.namespace.received_packets("vm0")?;
        Ok([cpu_seconds(&host.agent)?, packets as f64])
    })?;
    println!(
        "{spent:.3} s, {answered} packets, {:.0} ns of each outside",
        empty * 1e9
    );
    are_near(by_netto, spent - empty * answered)
}

/// The worker does nothing else. It is kept busy, for the same reason.
fn vhost_costs_what_it_costs() -> Result<()> {
    let host = Host::new("vhost-echo")?;
    let _load = host.send(rate(20 * PACKETS), 64)?;
    let worker = worker_of(host.agent.pid())?;
    let (by_netto, [spent]) = measured(&["vhost_net"], || Ok([ran_seconds(&worker)?]))?;
    are_near(by_netto, spent)
}

/// The folder in `/proc` of the worker of a process: a thread of the kernel, or of the process.
fn worker_of(process: u32) -> Result<PathBuf> {
    let own = fs::read_dir(format!("/proc/{process}/task"))?;
    let folders = own.chain(fs::read_dir("/proc")?).flatten();
    let name = format!("vhost-{process}\n");
    let mut folders = folders.map(|entry| entry.path());
    folders
        .find(|folder| fs::read_to_string(folder.join("comm")).is_ok_and(|comm| comm == name))
        .context("there is no vhost worker")
}

/// How long a task has run, seconds.
fn ran_seconds(task: &Path) -> Result<f64> {
    let text = fs::read_to_string(task.join("schedstat"))?;
    let ran_ns: u64 = text.split(' ').next().context("no such format")?.parse()?;
    Ok(ran_ns as f64 / 1e9)
}
