//! Thousands of short-lived control groups and processes: netto's memory is bounded, no time is
//! lost, and no owner has another one's name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use metrics_common::{Owner, OwnerKind, Snapshot};

use crate::child::{self, Owned};
use crate::flows::{owners, sums_hold};
use crate::follow::Followed;
use crate::groups::Group;
use crate::trial::tests;

tests! {
    churn::groups_and_processes_that_come_and_go_take_bounded_memory_and_keep_their_names;
    storm::five_thousand_groups_and_twenty_thousand_processes_in_a_minute;
}

/// Number of processes that make groups at the same time.
const HOSTS: u32 = 2;
/// Processes of a group.
const GUESTS: u32 = 4;
/// Datagrams that each process sends to itself: about a millisecond's work.
const DATAGRAMS: u32 = 200;
/// Most growth of netto: cached paths (8 MiB), and data of the past.
const GROWTH_BYTES: u64 = 24 << 20;
/// Hosts have this time above what was planned: the slowest machine is no failure.
const PATIENCE: Duration = Duration::from_secs(200);
/// The least of all groups that must have been shown by name, one in so many.
const SHOWN: usize = 20;

fn groups_and_processes_that_come_and_go_take_bounded_memory_and_keep_their_names() -> Result<()> {
    come_and_go(300, Duration::ZERO)
}

fn five_thousand_groups_and_twenty_thousand_processes_in_a_minute() -> Result<()> {
    come_and_go(5_000, Duration::from_secs(60))
}

/// Makes this many groups, evenly within this time, or as soon after it as possible.
fn come_and_go(groups: u32, within: Duration) -> Result<()> {
    let folder = Group::new("churn")?;
    let mut followed = Followed::start_with(&["--owners", "process"])?;
    let before = resident_bytes(&followed.next()?)?;
    let begun = Instant::now();
    let mut hosts = start_hosts(&folder, groups / HOSTS, within)?;
    let (mut figures, mut shown) = (0, BTreeSet::new());
    let mut take = |snapshot: Snapshot| -> Result<u64> {
        figures += sums_hold(&snapshot)?;
        let owners = owners(&snapshot)?.owners.iter();
        shown.extend(owners.filter(|owner| is_of_group(owner)).map(identity));
        Ok(snapshot.time_unix_ns)
    };
    let deadline = begun + within + PATIENCE;
    while are_busy(&mut hosts)? {
        take(followed.next()?)?;
        ensure!(Instant::now() < deadline, "hosts were not done in time");
    }
    let took = begun.elapsed();
    for host in &mut hosts {
        host.wait_within(PATIENCE)?;
    }
    let end_ns = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
    while take(followed.next()?)? < end_ns {}
    let after = resident_bytes(&followed.next()?)?;
    let guests = Guests::of(&folder, &hosts)?;
    println!(
        "\n{} groups and {} processes in {took:.1?}; resident {before} bytes before, {after} after",
        guests.paths.len(),
        guests.pids.len(),
    );
    ensure!(guests.paths.len() as u32 == groups && guests.pids.len() as u32 == groups * GUESTS);
    ensure!(figures > 100, "only {figures} figures were not 0");
    guests.have_their_names(&shown)?;
    ensure!(
        after < before + GROWTH_BYTES,
        "from {before} to {after} bytes"
    );
    Ok(())
}

fn resident_bytes(snapshot: &Snapshot) -> Result<u64> {
    let own_cost = snapshot.sections.own.as_ref();
    Ok(own_cost
        .context("no section of netto itself")?
        .resident_bytes)
}

fn is_of_group(owner: &Owner) -> bool {
    matches!(owner.kind, OwnerKind::Cgroup | OwnerKind::Process)
}

/// Everything by which an owner is known.
type Identity = (u64, String, u32, String);

fn identity(owner: &Owner) -> Identity {
    let Owner {
        id,
        cgroup,
        pid,
        comm,
        ..
    } = owner.clone();
    (id, cgroup, pid, comm)
}

fn start_hosts(folder: &Group, groups: u32, within: Duration) -> Result<Vec<Owned>> {
    let binary = std::env::current_exe().context("cannot tell where this test binary is")?;
    let place = folder.folder().to_str().context("no UTF-8 path")?;
    let pause_ns = (within / groups).as_nanos().to_string();
    let start = |host: u32| {
        let mut inner = Command::new(&binary);
        inner.args(["agent", "host-groups", place]);
        inner.args([(host * groups).to_string(), groups.to_string()]);
        inner.arg(&pause_ns);
        Owned::start(&mut folder.command(&inner))
    };
    (0..HOSTS).map(start).collect()
}

/// Whether any of them is still running.
fn are_busy(hosts: &mut [Owned]) -> Result<bool> {
    let mut any = false;
    for host in hosts {
        match host.try_wait()? {
            None => any = true,
            Some(status) if status.success() => {}
            Some(status) => bail!("a host failed ({status}): {}", host.stderr()),
        }
    }
    Ok(any)
}

/// The groups that were made.
struct Guests {
    /// By number of a group, its path.
    paths: HashMap<u64, String>,
    /// By number of a group, the processes that it had.
    pids: BTreeSet<(u64, u32)>,
    /// The processes that made the groups, and were in each for a moment.
    hosts: BTreeSet<u32>,
}

impl Guests {
    fn of(folder: &Group, hosts: &[Owned]) -> Result<Guests> {
        let mut guests = Guests {
            paths: HashMap::new(),
            pids: BTreeSet::new(),
            hosts: hosts.iter().map(Owned::pid).collect(),
        };
        for host in hosts {
            let stdout = host.stdout();
            for line in stdout.lines().filter(|line| *line != "ready") {
                let words: Vec<&str> = line.split(' ').collect();
                let [name, id, pid] = words[..] else {
                    bail!("a host said {line:?}");
                };
                let path = format!("{}/{name}", folder.path());
                guests.paths.insert(id.parse()?, path);
                guests.pids.insert((id.parse()?, pid.parse()?));
            }
        }
        Ok(guests)
    }

    /// Every group shown has the number, path and name of the same group.
    fn have_their_names(&self, shown: &BTreeSet<Identity>) -> Result<()> {
        let ids: BTreeMap<&str, u64> = self
            .paths
            .iter()
            .map(|(id, path)| (path.as_str(), *id))
            .collect();
        ensure!(
            ids.len() == self.paths.len(),
            "two groups had the same name"
        );
        let mut names = BTreeSet::new();
        // Softirqs of other tests may interrupt a process before it has taken its name.
        let binary = std::env::current_exe()?;
        let binary = binary.file_name().and_then(|name| name.to_str());
        let unnamed: String = binary.unwrap_or_default().chars().take(15).collect();
        for (id, cgroup, pid, comm) in shown {
            let current = ids.get(cgroup.as_str());
            let Some(path) = self.paths.get(id) else {
                ensure!(
                    current.is_none(),
                    "{cgroup} was {current:?} and is shown as {id}"
                );
                continue;
            };
            ensure!(
                path == cgroup,
                "group {id} was {path} and is shown as {cgroup:?}"
            );
            let name = path.rsplit('/').next().unwrap_or_default();
            let is_guest = self.pids.contains(&(*id, *pid));
            let has_name = *pid == 0 || is_guest && comm == name;
            let is_unnamed = *comm == unnamed && (is_guest || self.hosts.contains(pid));
            ensure!(
                has_name || is_unnamed,
                "{path} has had no process {comm:?} [{pid}]"
            );
            names.insert(id);
        }
        println!("{} groups were shown by name", names.len());
        ensure!(names.len() * SHOWN >= self.paths.len());
        Ok(())
    }
}

/// Makes a group for each number, lets processes run in it, says who they were, and removes it:
/// each so long after the one before, or as soon as it can.
pub fn host(folder: &Path, numbers: Range<u32>, pause: Duration) -> Result<()> {
    let binary = std::env::current_exe()?;
    let home = folder.join("cgroup.procs");
    let begun = Instant::now();
    for (turn, number) in (0..).zip(numbers) {
        std::thread::sleep((pause * turn).saturating_sub(begun.elapsed()));
        let name = format!("g{number}");
        let group = folder.join(&name);
        fs::create_dir(&group).with_context(|| format!("cannot make {}", group.display()))?;
        let id = fs::metadata(&group)?.ino();
        fs::write(group.join("cgroup.procs"), "0")?;
        let guest = |_| {
            Command::new(&binary)
                .args(["agent", "be-guest", &name])
                .spawn()
        };
        let guests: Vec<Child> = (0..GUESTS).map(guest).collect::<std::io::Result<_>>()?;
        fs::write(&home, "0")?;
        for mut guest in guests {
            let status = guest.wait()?;
            ensure!(status.success(), "a guest failed: {status}");
            println!("{name} {id} {}", guest.id());
        }
        child::within(PATIENCE, || Ok(fs::remove_dir(&group)?))?;
    }
    Ok(())
}

/// Takes a name, and talks to itself.
pub fn be_guest(name: &str) -> Result<()> {
    fs::write("/proc/self/comm", name)?;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.connect(socket.local_addr()?)?;
    let mut datagram = [0; 64];
    for _ in 0..DATAGRAMS {
        socket.send(&datagram)?;
        socket.recv(&mut datagram)?;
    }
    Ok(())
}
