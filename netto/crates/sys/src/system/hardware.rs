//! Hardware in `/sys`: CPUs, their memory nodes, and network devices.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Context;

use super::Roots;
use crate::files::{excerpt, parse_cpu_list, read, read_number};
use crate::reopenable::ReopenableFile;

/// The list of online CPUs, kept open.
#[derive(Debug)]
pub struct OnlineList(ReopenableFile);

impl OnlineList {
    /// The CPUs that are online now.
    ///
    /// # Errors
    /// If it cannot be read, or is not a list of CPUs; with the file's name.
    pub fn cpus(&self) -> anyhow::Result<Vec<u32>> {
        let text = self.0.text()?;
        parse_cpu_list(text.trim()).with_context(|| {
            format!(
                "{}: {:?} is no list of CPUs",
                self.0.path().display(),
                excerpt(&text)
            )
        })
    }
}

impl Roots {
    /// Numbers of the online CPUs, ascending.
    pub fn online_cpus(&self) -> anyhow::Result<Vec<u32>> {
        self.online_list()?.cpus()
    }

    /// Opens the list of online CPUs, which is read at every interval.
    ///
    /// # Errors
    /// The operating system's, with the file's name.
    pub fn online_list(&self) -> anyhow::Result<OnlineList> {
        let path = self.sys_root.join("devices/system/cpu/online");
        ReopenableFile::open(&path).map(OnlineList)
    }

    /// Interrupts of all network devices.
    pub fn nic_interrupts(&self) -> BTreeSet<u32> {
        let interfaces = fs::read_dir(self.sys_root.join("class/net"));
        let interfaces = interfaces.into_iter().flatten().flatten();
        interfaces
            .flat_map(|interface| interrupts_of(&interface.path()))
            .collect()
    }

    /// NUMA node of each possible CPU; empty if there is only one, or they are unknown.
    pub fn numa_nodes(&self, possible_cpus: usize) -> Vec<u32> {
        let mut nodes = vec![0; possible_cpus];
        let mut highest = 0;
        for entry in fs::read_dir(self.sys_root.join("devices/system/node"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = entry.file_name();
            let Some(node) = name
                .to_str()
                .and_then(|name| name.strip_prefix("node")?.parse().ok())
            else {
                continue;
            };
            let list = read(&entry.path().join("cpulist")).unwrap_or_default();
            for cpu in parse_cpu_list(list.trim()).unwrap_or_default() {
                if let Some(of_cpu) = nodes.get_mut(cpu as usize) {
                    *of_cpu = node;
                    highest = highest.max(node);
                }
            }
        }
        if highest == 0 { Vec::new() } else { nodes }
    }
}

/// Interrupts of a network interface, by its folder: message-signalled ones and the legacy line, of the
/// device itself or (virtio) of its bus device.
pub fn interrupts_of(interface: &Path) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let Ok(device) = fs::canonicalize(interface.join("device")) else {
        return found;
    };
    for device in [Some(device.as_path()), device.parent()]
        .into_iter()
        .flatten()
    {
        let signalled = fs::read_dir(device.join("msi_irqs"));
        let signalled = signalled.into_iter().flatten().flatten();
        found.extend(signalled.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()));
        let line = read_number(&device.join("irq")).ok().filter(|irq| *irq > 0);
        found.extend(line.map(|irq| irq as u32));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::testing::tree;

    /// A made-up host with two NUMA nodes.
    #[test]
    fn each_cpu_knows_its_numa_node_where_there_are_several() {
        let node = "sys/devices/system/node";
        let (_dir, roots) = tree(&[
            (&format!("{node}/node0/cpulist"), "0-1,4\n"),
            (&format!("{node}/node1/cpulist"), "2-3,5\n"),
            (&format!("{node}/possible"), "0-1\n"),
        ]);
        assert_eq!(roots.numa_nodes(6), [0, 0, 1, 1, 0, 1]);
        let (_dir, roots) = tree(&[(&format!("{node}/node0/cpulist"), "0-3\n")]);
        assert_eq!(roots.numa_nodes(4), Vec::<u32>::new());
    }

    /// A made-up server with a plain NIC, a virtio NIC and a bridge, which has no device.
    #[test]
    fn interrupts_of_network_devices_are_found_also_behind_virtio() {
        let (dir, roots) = tree(&[
            ("sys/devices/pci0/0000:01/msi_irqs/60", "msix\n"),
            ("sys/devices/pci0/0000:01/msi_irqs/61", "msix\n"),
            ("sys/devices/pci0/0000:01/irq", "0\n"),
            ("sys/devices/pci0/0000:02/irq", "11\n"),
            ("sys/devices/pci0/0000:02/virtio3/features", "0\n"),
            ("sys/devices/virtual/net/br0/address", "x\n"),
            ("sys/class/net/eth0/address", "x\n"),
            ("sys/class/net/eth1/address", "x\n"),
            ("sys/class/net/br0/address", "x\n"),
        ]);
        let sys = dir.path().join("sys");
        for (name, device) in [("eth0", "pci0/0000:01"), ("eth1", "pci0/0000:02/virtio3")] {
            std::os::unix::fs::symlink(
                sys.join("devices").join(device),
                sys.join(format!("class/net/{name}/device")),
            )
            .unwrap();
        }
        assert_eq!(
            roots.nic_interrupts().into_iter().collect::<Vec<_>>(),
            [11, 60, 61]
        );
    }
}
