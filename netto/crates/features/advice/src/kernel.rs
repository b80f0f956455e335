//! How the host is set up, by the kernel's files and by what devices tell.

use std::fs;
use std::path::{Path, PathBuf};

use metrics_common::sections::{InterfaceSetup, MOST_INTERRUPTS, MOST_SETUPS, Setup, SocketMemory};
use netto_sys::files::{self, parse_cpu_list, parse_cpu_mask};
use netto_sys::offloads::{Offload, Offloads};
use netto_sys::system::{Roots, interrupts_of};

/// Time between two readings.
pub(crate) const EVERY_NS: u64 = 10_000_000_000;
/// Most interfaces looked at, and most queues of each.
const MOST_INTERFACES: usize = 4_096;
const MOST_QUEUES: usize = 1_024;

/// Reads all of it now; may take milliseconds with many interfaces.
pub(crate) fn read(roots: &Roots) -> Setup {
    let network = roots.proc_root.join("sys/net");
    let setting = |name: &str| number(&network.join(name));
    let modules = roots.sys_root.join("module");
    Setup {
        interfaces: interfaces(roots),
        budget: setting("core/netdev_budget"),
        budget_usecs: setting("core/netdev_budget_usecs"),
        max_backlog: setting("core/netdev_max_backlog"),
        tracked_connections: setting("netfilter/nf_conntrack_count"),
        // Where connection tracking is built into the kernel, translation may be, too, unseen.
        has_nat: modules
            .join("nf_conntrack/refcnt")
            .exists()
            .then(|| modules.join("nf_nat").exists()),
        congestion_control: read_text(&network.join("ipv4/tcp_congestion_control")),
        default_qdisc: read_text(&network.join("core/default_qdisc")),
        tcp_rmem: three(&network.join("ipv4/tcp_rmem")),
        tcp_memory: memory(roots, "TCP:", "ipv4/tcp_mem"),
        udp_memory: memory(roots, "UDP:", "ipv4/udp_mem"),
    }
}

/// A setting of three numbers.
fn three(file: &Path) -> Option<[u64; 3]> {
    let text = read_text(file)?;
    let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
    numbers.ok()?.try_into().ok()
}

/// Memory of a protocol's sockets, by the line of `sockstat` that begins with this name.
fn memory(roots: &Roots, name: &str, limits: &str) -> Option<SocketMemory> {
    let text = read_text(&roots.proc_root.join("net/sockstat"))?;
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix(name))?;
    let mut words = line.split_whitespace().skip_while(|word| *word != "mem");
    Some(SocketMemory {
        pages: words.nth(1)?.parse().ok()?,
        limits: three(&roots.proc_root.join("sys/net").join(limits))?,
    })
}

fn number(file: &Path) -> Option<u64> {
    read_text(file)?.parse().ok()
}

fn read_text(file: &Path) -> Option<String> {
    Some(files::read(file).ok()?.trim().to_owned())
}

/// Those that are up, by the packets that they have received, without loopback.
fn interfaces(roots: &Roots) -> Vec<InterfaceSetup> {
    let folder = roots.sys_root.join("class/net");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(u64, PathBuf)> = entries
        .take(MOST_INTERFACES)
        .map(|entry| entry.path())
        .filter(|path| !path.ends_with("lo"))
        .filter_map(|path| Some((number(&path.join("statistics/rx_packets"))?, path)))
        .collect();
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let offloads = Offloads::open().ok();
    // Only as many states are read as it takes to find those that are kept.
    let is_up =
        |path: &Path| read_text(&path.join("operstate")).is_some_and(|state| state != "down");
    let up = found.iter().filter(|(_, path)| is_up(path));
    up.take(MOST_SETUPS)
        .filter_map(|(_, path)| interface(roots, path, offloads.as_ref()))
        .collect()
}

fn interface(roots: &Roots, path: &Path, offloads: Option<&Offloads>) -> Option<InterfaceSetup> {
    // A name that is not UTF-8 cannot be typed.
    let name = path.file_name()?.to_str()?;
    let queues = fs::read_dir(path.join("queues")).into_iter().flatten();
    let queues = queues.flatten().map(|entry| entry.path());
    let is_rx = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("rx-"))
    };
    let queues: Vec<PathBuf> = queues.filter(is_rx).take(MOST_QUEUES).collect();
    let masks = queues
        .iter()
        .filter_map(|queue| read_text(&queue.join("rps_cpus")));
    let mut rps_cpus: Vec<u32> = masks
        .filter_map(|mask| parse_cpu_mask(&mask))
        .flatten()
        .collect();
    rps_cpus.sort_unstable();
    rps_cpus.dedup();
    let interrupts = interrupts_of(path).into_iter().filter_map(|interrupt| {
        let folder = roots.proc_root.join(format!("irq/{interrupt}"));
        let files = ["effective_affinity_list", "smp_affinity_list"];
        let list = files.iter().find_map(|file| {
            let text = read_text(&folder.join(file))?;
            parse_cpu_list(&text)
        })?;
        Some((interrupt, list))
    });
    let tells = |offload| offloads.and_then(|offloads| offloads.of(name, offload));
    Some(InterfaceSetup {
        name: name.to_owned(),
        rx_queues: queues.len() as u32,
        rps_cpus,
        interrupts: interrupts.take(MOST_INTERRUPTS).collect(),
        gro: tells(Offload::Gro),
        tso: tells(Offload::Tso),
        tx_checksums: tells(Offload::TxChecksums),
    })
}

#[cfg(test)]
mod tests {
    use netto_sys::system::testing::tree;

    use super::*;

    #[test]
    fn interfaces_stand_with_queues_rps_and_interrupts_and_those_that_are_down_do_not() {
        let (dir, roots) = tree(&[
            ("sys/class/net/eth0/operstate", "up\n"),
            ("sys/class/net/eth0/statistics/rx_packets", "10\n"),
            ("sys/class/net/eth0/queues/rx-0/rps_cpus", "0,00000006\n"),
            ("sys/class/net/eth0/queues/rx-1/rps_cpus", "1,00000000\n"),
            ("sys/class/net/eth0/queues/tx-0/xps_cpus", "0\n"),
            ("sys/devices/eth0/msi_irqs/40", ""),
            ("sys/devices/eth0/msi_irqs/41", ""),
            ("proc/irq/40/effective_affinity_list", "\n"),
            ("proc/irq/40/smp_affinity_list", "0-1\n"),
            ("proc/irq/41/effective_affinity_list", "3\n"),
            ("sys/class/net/busy/operstate", "unknown\n"),
            ("sys/class/net/busy/statistics/rx_packets", "11\n"),
            ("sys/class/net/off/operstate", "down\n"),
            ("sys/class/net/off/statistics/rx_packets", "12\n"),
            ("sys/class/net/lo/operstate", "unknown\n"),
            ("sys/class/net/lo/statistics/rx_packets", "13\n"),
            ("sys/module/nf_conntrack/refcnt", "1\n"),
            ("proc/sys/net/core/netdev_budget", "300\n"),
            ("proc/sys/net/core/netdev_max_backlog", "x\n"),
            ("proc/sys/net/netfilter/nf_conntrack_count", "7\n"),
            ("proc/sys/net/ipv4/tcp_congestion_control", "bbr\n"),
            ("proc/sys/net/core/default_qdisc", "pfifo_fast\n"),
            ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
            ("proc/sys/net/ipv4/tcp_mem", "10\t20\t30\n"),
            ("proc/sys/net/ipv4/udp_mem", "10\t20\n"),
            (
                "proc/net/sockstat",
                "sockets: used 65\nTCP: inuse 42 orphan 0 tw 152 alloc 42 mem 270\nUDP: inuse 0 mem 52\n",
            ),
        ]);
        let device = dir.path().join("sys/class/net/eth0/device");
        std::os::unix::fs::symlink(dir.path().join("sys/devices/eth0"), device).unwrap();
        let setup = read(&roots);
        let names: Vec<&str> = setup
            .interfaces
            .iter()
            .map(|interface| &*interface.name)
            .collect();
        assert_eq!(names, ["busy", "eth0"]);
        let eth0 = &setup.interfaces[1];
        assert_eq!((eth0.rx_queues, &*eth0.rps_cpus), (2, &[1, 2, 32][..]));
        assert_eq!(eth0.interrupts, [(40, vec![0, 1]), (41, vec![3])]);
        assert_eq!((setup.budget, setup.max_backlog), (Some(300), None));
        assert_eq!(
            (setup.tracked_connections, setup.has_nat),
            (Some(7), Some(false))
        );
        assert_eq!(setup.congestion_control.as_deref(), Some("bbr"));
        assert_eq!(setup.default_qdisc.as_deref(), Some("pfifo_fast"));
        assert_eq!(setup.tcp_rmem, Some([4_096, 131_072, 6_291_456]));
        let tcp = SocketMemory {
            pages: 270,
            limits: [10, 20, 30],
        };
        assert_eq!((setup.tcp_memory, setup.udp_memory), (Some(tcp), None));
        assert_eq!(read(&tree(&[]).1), Setup::default());
    }
}
