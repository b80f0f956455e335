//! Softirqs on a CPU that is meant to be quiet: who caused them, whom they interrupted and from where
//! they came is told as long as it is meant to be quiet, and neither before nor after.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use metrics_common::Snapshot;
use metrics_common::component::index_of;
use metrics_common::sections::{Intruders, QuietKind};

use crate::daemon::run_to_end;
use crate::flows::{Flow, OTHER_CPU, RECEIVING_CPU, agent, needs_two_cpus, often, rate, steer};
use crate::follow::Followed;
use crate::groups::{Group, hierarchy};
use crate::guest;
use crate::lab::Network;
use crate::trial::{NotOnThisKernel, tests};

tests! {
    intruders::packets_steered_to_a_quiet_cpu_have_cause_victim_and_origin ["ip"];
    intruders::on_a_cpu_that_the_kernel_isolates_are_named ["ip"];
}

/// The CPU that is meant to be quiet.
const QUIET: u32 = RECEIVING_CPU;
const PORT: u16 = 6001;
/// Intervals in which nothing is told while nothing is meant to be quiet.
const BEFORE: usize = 20;

/// A way to have a quiet CPU and to take it back, and the group of the program on it.
enum Quiet {
    /// A sysfs whose list of isolated CPUs is the test's.
    Listed(tempfile::TempDir, Group),
    /// A group's partition, which only a guest's control groups have.
    Partition(Group),
}

impl Quiet {
    fn new() -> Result<Quiet> {
        let group = Group::new("quiet")?;
        if !guest::is_one() {
            return Ok(Quiet::Listed(sysfs()?, group));
        }
        fs::write(hierarchy()?.join("cgroup.subtree_control"), "+cpuset")?;
        fs::write(group.folder().join("cpuset.cpus"), QUIET.to_string())?;
        Ok(Quiet::Partition(group))
    }

    fn group(&self) -> &Group {
        match self {
            Quiet::Listed(_, group) | Quiet::Partition(group) => group,
        }
    }

    fn root(&self) -> &str {
        match self {
            Quiet::Listed(folder, _) => folder.path().to_str().unwrap_or_default(),
            Quiet::Partition(_) => "/sys",
        }
    }

    fn why(&self) -> String {
        match self {
            Quiet::Listed(..) => "isolcpus".to_owned(),
            Quiet::Partition(group) => format!("cpuset {}", group.path()),
        }
    }

    fn set(&self, is_quiet: bool) -> Result<()> {
        match self {
            Quiet::Listed(folder, _) => {
                let list = folder.path().join("devices/system/cpu/isolated");
                let text = if is_quiet {
                    format!("{QUIET}\n")
                } else {
                    "\n".to_owned()
                };
                fs::write(list, text)?;
            }
            Quiet::Partition(group) => {
                let file = group.folder().join("cpuset.cpus.partition");
                let wanted = if is_quiet { "isolated" } else { "member" };
                fs::write(&file, wanted)?;
                let now = fs::read_to_string(&file)?;
                ensure!(now.trim() == wanted, "the group is {now}, not {wanted}");
            }
        }
        Ok(())
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Quiet::Partition(_) = self {
            let _ = self.set(false);
            if let Ok(root) = hierarchy() {
                let _ = fs::write(root.join("cgroup.subtree_control"), "-cpuset");
            }
        }
    }
}

/// This host's sysfs, but for the list of isolated CPUs, which is empty.
fn sysfs() -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let (mut copy, mut real) = (folder.path().to_owned(), Path::new("/sys").to_owned());
    for part in ["devices", "system", "cpu", ""] {
        for entry in fs::read_dir(&real)? {
            let name = entry?.file_name();
            if name != *part && name != *"isolated" {
                symlink(real.join(&name), copy.join(&name))?;
            }
        }
        if !part.is_empty() {
            (copy, real) = (copy.join(part), real.join(part));
            fs::create_dir(&copy)?;
        }
    }
    fs::write(copy.join("isolated"), "\n")?;
    Ok(folder)
}

/// Reads intervals until something is found in one.
fn wait_for<T>(
    followed: &mut Followed,
    look: impl FnMut(&Snapshot) -> Result<Option<T>>,
) -> Result<T> {
    followed.find(|last| format!("{:?}", last.sections.intruders), look)
}

/// The section, if in it packets that this group received interrupted that group on the quiet CPU.
fn named<'a>(snapshot: &'a Snapshot, cause: &Group, victim: &Group) -> Option<&'a Intruders> {
    let intruders = snapshot.sections.intruders.as_ref()?;
    let event = index_of("rx_softirq")? as u32;
    let mut rows = intruders.intrusions.iter();
    let is_charged = rows.any(|intrusion| {
        (intrusion.cpu, intrusion.event) == (QUIET, event)
            && intrusion.cause.cgroup == cause.path()
            && intrusion.victim.cgroup == victim.path()
    });
    is_charged.then_some(intruders)
}

/// On each CPU and of each event, what was caused is what it took.
fn sums_hold(snapshot: &Snapshot) -> Result<()> {
    let Some(intruders) = &snapshot.sections.intruders else {
        return Ok(());
    };
    let column = snapshot.cpus.iter().position(|cpu| *cpu == QUIET);
    let column = column.context("the CPU is online")?;
    for event in 0..metrics_common::COMPONENTS.len() {
        let rows = intruders.intrusions.iter();
        let rows =
            rows.filter(|intrusion| (intrusion.cpu, intrusion.event) == (QUIET, event as u32));
        let (count, ns) = rows.fold((0, 0), |(count, ns), intrusion| {
            (count + 1, ns + intrusion.ns)
        });
        let time = snapshot.cost().cpu_ns(event).map_or(0, |row| row[column]);
        ensure!(
            count == 0 || ns == time,
            "{ns} ns of {time} of event {event}"
        );
    }
    Ok(())
}

fn packets_steered_to_a_quiet_cpu_have_cause_victim_and_origin() -> Result<()> {
    needs_two_cpus()?;
    let quiet = Quiet::new()?;
    let (noisy, network) = (Group::new("noisy")?, Network::direct()?);
    steer(&network.right, "lan")?;
    let _victim = agent(quiet.group(), &network.left, QUIET, &["spin-one"])?;
    let _flow = Flow::udp([&noisy, &noisy], &network, PORT, rate(20_000)).start()?;
    let options = [&often("cgroup")[..], &["--sys-root", quiet.root()]].concat();
    let mut followed = Followed::start_with(&options)?;
    for _ in 0..BEFORE {
        let before = followed.next()?.sections.intruders;
        ensure!(before.is_none(), "nothing is meant to be quiet: {before:?}");
    }
    quiet.set(true)?;
    wait_for(&mut followed, |snapshot| {
        sums_hold(snapshot)?;
        let Some(intruders) = named(snapshot, &noisy, quiet.group()) else {
            return Ok(None);
        };
        let [cpu] = &intruders.cpus[..] else {
            bail!("one CPU is meant to be quiet: {intruders:?}");
        };
        ensure!((cpu.cpu, cpu.reasons()) == (QUIET, quiet.why()), "{cpu:?}");
        // In a short interval there may be no sample of its sends.
        let mut origins = intruders.origins.iter();
        let from =
            origins.any(|origin| origin.owner.cgroup == noisy.path() && origin.cpu == OTHER_CPU);
        if from {
            println!("\n{:#?}", intruders.intruders());
        }
        Ok(from.then_some(()))
    })?;
    let (status, printed, _) = run_to_end(&["check", "--sys-root", quiet.root()])?;
    let note = format!(
        "CPUs that are meant to be quiet: {QUIET} ({}).",
        quiet.why()
    );
    ensure!(status.success() && printed.contains(&note), "{printed}");
    quiet.set(false)?;
    wait_for(&mut followed, |snapshot| {
        Ok(snapshot.sections.intruders.is_none().then_some(()))
    })
}

/// In a guest that was started with `isolcpus` for this CPU. The kernel lets no mask of receive packet
/// steering have such a CPU; steering to where a program reads (RFS) goes there.
fn on_a_cpu_that_the_kernel_isolates_are_named() -> Result<()> {
    let list = fs::read_to_string("/sys/devices/system/cpu/isolated").unwrap_or_default();
    if !guest::is_one() || list.trim() != QUIET.to_string() {
        let why = format!("the kernel was not started with isolcpus={QUIET}");
        return Err(NotOnThisKernel(why).into());
    }
    let (noisy, network) = (Group::new("noisy")?, Network::direct()?);
    fs::write("/proc/sys/net/core/rps_sock_flow_entries", "256")?;
    let queue = "/sys/class/net/lan/queues/rx-0";
    let script = format!("echo 256 > {queue}/rps_flow_cnt");
    network.right.run_script(&script)?;
    let refused = steer(&network.right, "lan").is_err();
    println!("\nRPS to an isolated CPU is refused: {refused}");
    let to = SocketAddr::new(network.right_v4, PORT).to_string();
    let _reader = agent(&noisy, &network.right, QUIET, &["tcp-sink", &to])?;
    let words = ["tcp-paced", &to, &rate(20_000).to_string(), "0"];
    let _sender = agent(&noisy, &network.left, OTHER_CPU, &words)?;
    let mut followed = Followed::start_with(&often("cgroup"))?;
    wait_for(&mut followed, |snapshot| {
        sums_hold(snapshot)?;
        let Some(intruders) = &snapshot.sections.intruders else {
            return Ok(None);
        };
        let why = intruders.cpus.iter().flat_map(|cpu| &cpu.why);
        ensure!(why.clone().any(|reason| reason.kind == QuietKind::Isolcpus));
        let of_noisy = intruders.intruders().into_iter();
        let found = of_noisy
            .filter(|intruder| intruder.cause == noisy.path())
            .find(|intruder| {
                intruder
                    .events
                    .iter()
                    .any(|(name, _)| *name == "RX softirq")
            });
        if let Some(found) = &found {
            println!("{:?}: {found:#?}", intruders.cpus);
        }
        Ok(found.map(|_| ()))
    })?;
    let (_, printed, _) = run_to_end(&["check"])?;
    let note = format!("CPUs that are meant to be quiet: {QUIET} (isolcpus");
    ensure!(printed.contains(&note), "{printed}");
    Ok(())
}
