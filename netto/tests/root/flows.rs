//! Flows to control groups, and netto's cost for each of them beside another.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use metrics_common::component::{children, index_of};
use metrics_common::{OwnerKind, Owners, Snapshot};

use crate::child::Owned;
use crate::follow::Followed;
use crate::groups::Group;
use crate::lab::{Namespace, Network};
use crate::{guest, trial};

/// Options for owners at this level: samples enough that a twentieth of the traffic is told to
/// some per cent, where each sample is not emulated.
pub fn often(level: &str) -> [&str; 6] {
    let frequency = if guest::is_one() { "1000" } else { "4000" };
    [
        "--owners",
        level,
        "--frequency",
        frequency,
        "--max-overhead",
        "100",
    ]
}

/// A rate per second suitable for a machine; an emulated one gets a twentieth of it.
pub fn rate(per_second: u64) -> u64 {
    if guest::is_one() {
        per_second / 20
    } else {
        per_second
    }
}

/// Where packets are received, and where they are sent and read.
pub const RECEIVING_CPU: u32 = 1;
pub const OTHER_CPU: u32 = 0;
/// Measured time of one load, and of two together.
pub const ALONE: Duration = Duration::from_secs(4);
pub const TOGETHER: Duration = Duration::from_secs(10);
/// The same where there are fewer samples in a second.
const TOGETHER_IN_A_GUEST: Duration = Duration::from_secs(40);
/// Tolerance between two figures of the same.
pub const TOLERANCE: f64 = 0.10;

/// Passes the test over on a host of one CPU.
pub fn needs_two_cpus() -> Result<()> {
    match std::thread::available_parallelism()?.get() {
        1 => Err(trial::NotNow("one CPU can only interrupt itself".to_owned()).into()),
        _ => Ok(()),
    }
}

/// Hands packets over to another CPU than the one on which they were sent.
pub fn steer(at: &Namespace, device: &str) -> Result<()> {
    let mask = 1 << RECEIVING_CPU;
    let script = format!("echo {mask:x} > /sys/class/net/{device}/queues/rx-0/rps_cpus");
    at.run_script(&script)
}

/// An agent that begins in a group.
pub fn agent(group: &Group, at: &Namespace, cpu: u32, words: &[&str]) -> Result<Owned> {
    let binary = std::env::current_exe().context("cannot tell where this test binary is")?;
    let binary = binary
        .to_str()
        .context("this test binary has no UTF-8 path")?;
    let mut inner = at.command(binary);
    inner.args(["agent", "on", &cpu.to_string()]).args(words);
    let mut agent = Owned::start(&mut group.command(&inner))?;
    agent.wait_for_line("ready")?;
    Ok(agent)
}

/// Flows to a group.
#[derive(Clone, Copy)]
pub struct Flow<'a> {
    pub group: &'a Group,
    pub senders: &'a Group,
    pub network: &'a Network,
    pub port: u16,
    /// The programs that send and receive.
    pub roles: [&'static str; 2],
    pub rate: u64,
    /// Number of flows, each on a port of its own.
    pub count: u16,
}

/// Flows that are one in a guest, for to start a process takes long there.
const MERGED: u16 = 4;

impl<'a> Flow<'a> {
    /// One flow of datagrams at even intervals.
    pub fn udp(groups: [&'a Group; 2], network: &'a Network, port: u16, rate: u64) -> Self {
        let [group, senders] = groups;
        Flow {
            group,
            senders,
            network,
            port,
            roles: ["udp-paced", "udp-sink"],
            rate,
            count: 1,
        }
    }
    /// Starts a sender and a receiver for each flow.
    pub fn start(&self) -> Result<Vec<[Owned; 2]>> {
        let (count, rate) = if guest::is_one() && self.count.is_multiple_of(MERGED) {
            (self.count / MERGED, self.rate * u64::from(MERGED))
        } else {
            (self.count, self.rate)
        };
        let ports = self.port..self.port + count;
        ports.map(|port| self.start_one(port, rate)).collect()
    }

    fn start_one(&self, port: u16, rate: u64) -> Result<[Owned; 2]> {
        let to = std::net::SocketAddr::new(self.network.right_v4, port).to_string();
        let [send, receive] = self.roles;
        let (left, right) = (&self.network.left, &self.network.right);
        let sink = agent(self.group, right, OTHER_CPU, &[receive, &to])?;
        let (rate, cpu) = (rate.to_string(), OTHER_CPU.to_string());
        let source = agent(self.senders, left, OTHER_CPU, &[send, &to, &rate, &cpu])?;
        Ok([source, sink])
    }
}

/// The owners of an interval.
pub fn owners(sum: &Snapshot) -> Result<&Owners> {
    sum.sections.owners.as_ref().context("no owners")
}

/// Time that an owner caused in a component, nanoseconds, by the path of a group.
pub fn caused_by(sum: &Snapshot, group: &Group, slug: &str) -> Result<f64> {
    let row = index_of(slug).context("no such row")?;
    let owners = owners(sum)?;
    let is_of_group = |place: &usize| {
        let owner = &owners.owners[*place];
        owner.cgroup == group.path() && owner.kind != OwnerKind::Interface
    };
    let places = (0..owners.owners.len()).filter(is_of_group);
    Ok(places
        .map(|place| owners.caused_ns(place as u32, row) as f64)
        .sum())
}

/// Time that a kind of owner caused in a component, nanoseconds.
pub fn caused_by_kind(sum: &Snapshot, kind: OwnerKind, slug: &str) -> Result<f64> {
    let row = index_of(slug).context("no such row")?;
    let owners = owners(sum)?;
    let places = (0..owners.owners.len()).filter(|place| owners.owners[*place].kind == kind);
    Ok(places
        .map(|place| owners.caused_ns(place as u32, row) as f64)
        .sum())
}

/// The time of a component, nanoseconds.
pub fn total(sum: &Snapshot, slug: &str) -> Result<f64> {
    let row = index_of(slug).context("no such row")?;
    Ok(sum.total_ns(row).context("not measured")? as f64)
}

/// The rows without parts below a row.
fn leaves(row: usize) -> Vec<usize> {
    match children(row) {
        [] => vec![row],
        parts => parts.iter().flat_map(|part| leaves(*part)).collect(),
    }
}

/// Of each component and CPU, what owners caused sums to what it took. How many of these figures
/// were not 0.
///
/// # Errors
/// One does not.
pub fn sums_hold(snapshot: &Snapshot) -> Result<usize> {
    let mut left = HashMap::new();
    for row in leaves(index_of("network").context("no such row")?) {
        let time = snapshot.cost().cpu_ns(row).unwrap_or_default();
        let columns = time.iter().enumerate().filter(|(_, ns)| **ns > 0);
        left.extend(columns.map(|(column, ns)| ((row, column), *ns)));
    }
    let count = left.len();
    for caused in &owners(snapshot)?.caused {
        let row = caused.component as usize;
        for (column, ns) in caused.cpu_ns.iter().enumerate() {
            let left = left.entry((row, column)).or_default();
            let fits = left.checked_sub(*ns);
            let slug = metrics_common::COMPONENTS[row].slug;
            *left = fits.with_context(|| format!("owners of {slug} have more than it took"))?;
        }
    }
    for ((row, _), ns) in left {
        let slug = metrics_common::COMPONENTS[row].slug;
        ensure!(ns == 0, "owners of {slug} have {ns} ns less than it took");
    }
    Ok(count)
}

/// The sum of intervals over this length.
pub fn look(followed: &mut Followed, length: Duration) -> Result<Snapshot> {
    let from = SystemTime::now();
    std::thread::sleep(length);
    followed.between(from, SystemTime::now())
}

/// What two cost together for so long; `begin` is called before. A flow of the one costs what one of
/// the other does, so they cost as their numbers are.
pub fn compare(
    flows: &[Flow<'_>; 2],
    followed: &mut Followed,
    together: Duration,
    begin: impl FnOnce() -> Result<()>,
) -> Result<Snapshot> {
    let _loads = [flows[0].start()?, flows[1].start()?];
    begin()?;
    let together = if guest::is_one() {
        together.max(TOGETHER_IN_A_GUEST)
    } else {
        together
    };
    let sum = look(followed, together)?;
    let found = [
        caused_by(&sum, flows[0].group, "rx_softirq")?,
        caused_by(&sum, flows[1].group, "rx_softirq")?,
    ];
    let expected = f64::from(flows[0].count) / f64::from(flows[1].count);
    let ratio = found[0] / found[1];
    println!("\nas {ratio:.2} to 1, with flows as {expected:.2} to 1");
    ensure!(
        (ratio / expected - 1.0).abs() <= TOLERANCE,
        "they cost as {ratio:.2} to 1, and their flows are as {expected:.2} to 1"
    );
    Ok(sum)
}
