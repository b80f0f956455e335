//! Names of whoever is known by number: control groups, processes, interfaces. It asks the kernel
//! within a bounded part of the time; what is not known yet has a name later.

use std::collections::HashMap;
use std::sync::Arc;

use metrics_common::{Owner, OwnerKind};

use super::analysis::allowance::Allowance;
use super::analysis::path::{names, shown};
use super::analysis::register::{Process, Register, Who};
use super::analysis::verdict::Socket;
use super::kernel::cgroups::Cgroups;
use super::kernel::links::Links;
use super::kernel::pods::Pods;
use super::kernel::processes::{self, Processes};
use super::kernel::slice::Slice;
use netto_sys::system::Roots;

/// See the head of this file.
#[derive(Debug)]
pub struct Naming {
    /// Or why there are none.
    pub cgroups: Result<Cgroups, String>,
    processes: Processes,
    pods: Pods,
    /// Or why interfaces have numbers only.
    links: anyhow::Result<Links>,
    allowance: Allowance,
    /// By path: what stood in `irq.pressure` last.
    pressure_ns: HashMap<String, u64>,
}

impl Naming {
    /// Begins; nothing is asked for yet.
    pub fn new(roots: &Roots, now_ns: u64) -> Naming {
        Naming {
            cgroups: Cgroups::new(roots),
            processes: Processes::new(roots),
            pods: Pods::new(roots),
            links: Links::new(),
            allowance: Allowance::new(now_ns),
            pressure_ns: HashMap::new(),
        }
    }

    /// Looks for names that were asked for, while there is time.
    pub fn refresh(&mut self, now_ns: u64) {
        let mut slice = Slice::from(&mut self.allowance);
        if let Ok(cgroups) = &mut self.cgroups {
            cgroups.refresh(now_ns, &mut slice);
        }
        self.processes
            .refresh(now_ns, self.cgroups.as_ref().ok(), &mut slice);
        self.pods.refresh(now_ns, &mut slice);
        slice.end(&mut self.allowance);
    }

    /// Why processes of some sockets are not known, if so.
    pub fn refused(&self) -> Option<&str> {
        self.processes.refused()
    }

    /// The process that holds a socket, if it is known by now.
    pub fn holder(&mut self, socket: Socket, now_ns: u64) -> Option<Arc<processes::Process>> {
        if socket.inode == 0 {
            return None;
        }
        let mut slice = Slice::of(0);
        let group = match &mut self.cgroups {
            Ok(cgroups) => cgroups.path(socket.cgroup, &mut slice).map(<[u8]>::to_vec),
            Err(_) => None,
        };
        self.processes
            .socket(socket.inode, group.as_deref(), now_ns)
    }

    /// Everything that is known of somebody.
    pub fn owner(&mut self, who: Who, register: &Register, now_ns: u64) -> Owner {
        match who {
            Who::Nobody => Owner::single(OwnerKind::Nobody),
            Who::Other => Owner::single(OwnerKind::Other),
            Who::Idle => Owner::single(OwnerKind::Idle),
            Who::Kernel => Owner::single(OwnerKind::Kernel),
            Who::Cgroup(id) => self.group(id),
            Who::Process { pid, started_cs } => {
                let Process { cgroup, comm } = register.of_process(who);
                let end = comm.iter().position(|byte| *byte == 0);
                Owner {
                    kind: OwnerKind::Process,
                    pid,
                    started_ns: started_cs * 10_000_000,
                    comm: shown(&comm[..end.unwrap_or(comm.len())]),
                    ..match self.cgroups {
                        Ok(_) => self.group(cgroup),
                        Err(_) => Owner::single(OwnerKind::Process),
                    }
                }
            }
            Who::Interface { netns, from, to } => self.interface(netns, from, to, now_ns),
        }
    }

    fn group(&mut self, id: u64) -> Owner {
        let mut slice = Slice::from(&mut self.allowance);
        let path = match &mut self.cgroups {
            Ok(cgroups) => cgroups.path(id, &mut slice).map(<[u8]>::to_vec),
            Err(_) => None,
        };
        slice.end(&mut self.allowance);
        Owner {
            id,
            ..self.of_path(OwnerKind::Cgroup, path.as_deref())
        }
    }

    fn of_path(&mut self, kind: OwnerKind, path: Option<&[u8]>) -> Owner {
        let mut owner = Owner::single(kind);
        let Some(path) = path else {
            return owner;
        };
        let names = names(path);
        owner.cgroup = shown(path);
        owner.container = names.container;
        owner.runtime = names.runtime.to_owned();
        owner.unit = names.unit;
        owner.pod.clone_from(&names.pod_uid);
        if !names.pod_uid.is_empty()
            && let Some(pod) = self.pods.pod(&names.pod_uid)
        {
            owner.pod.clone_from(&pod.name);
            owner.namespace.clone_from(&pod.namespace);
        }
        owner
    }

    /// Packets that leave the host's namespace by a veth are its inhabitants', and so are those
    /// that come from there.
    fn interface(&mut self, netns: u64, from: u32, to: u32, now_ns: u64) -> Owner {
        let is_ours = self.processes.is_own(netns);
        let mut slice = Slice::from(&mut self.allowance);
        let mut name_of = |index: u32| match &mut self.links {
            Ok(links) if is_ours => links.link(index, now_ns).map(|link| link.name.clone()),
            _ => None,
        };
        let mut name = |index: u32| name_of(index).unwrap_or_else(|| format!("interface {index}"));
        let interface = match (from, to) {
            (_, 0) => format!("received by {}", name(from)),
            (0, _) => format!("sent by {}", name(to)),
            _ => format!("forwarded to {}", name(to)),
        };
        let mut inhabited = None;
        if is_ours {
            for index in [to, from].into_iter().filter(|index| *index != 0) {
                if let Ok(links) = &mut self.links {
                    let processes = &mut self.processes;
                    let peer = links.peer_namespace(index, processes, now_ns, &mut slice);
                    inhabited = inhabited.or(peer);
                }
            }
        } else {
            inhabited = Some(netns);
        }
        slice.end(&mut self.allowance);
        let inhabitant = inhabited.and_then(|netns| self.processes.namespace(netns, now_ns));
        let group = inhabitant.map(|process| process.cgroup.clone());
        Owner {
            id: netns,
            interface,
            ..self.of_path(OwnerKind::Interface, group.as_deref())
        }
    }

    /// What came to a group's `irq.pressure` since it was asked for last, nanoseconds; `None` the
    /// first time, and where the kernel has none.
    pub fn irq_pressure_ns(&mut self, owner: &Owner) -> Option<u64> {
        if owner.kind != OwnerKind::Cgroup || owner.cgroup.is_empty() {
            return None;
        }
        let cgroups = self.cgroups.as_ref().ok()?;
        // A path that is shown otherwise than it is has no file of that name.
        let now_ns = cgroups.irq_pressure_ns(owner.cgroup.as_bytes())?;
        let before_ns = self.pressure_ns.insert(owner.cgroup.clone(), now_ns)?;
        now_ns.checked_sub(before_ns)
    }

    /// Forgets what stood in files of groups that nobody asks for any more.
    pub fn forget_pressure(&mut self, asked: &[Owner]) {
        if self.pressure_ns.len() > 4 * asked.len() + 64 {
            self.pressure_ns
                .retain(|path, _| asked.iter().any(|owner| owner.cgroup == *path));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::super::kernel::cgroups::testing::hierarchy;
    use super::*;
    use netto_sys::system::testing::tree;

    fn owner(kind: OwnerKind, cgroup: &str) -> Owner {
        Owner {
            cgroup: cgroup.to_owned(),
            ..Owner::single(kind)
        }
    }

    /// A group `/a`, its `irq.pressure`, and who reads that.
    fn group() -> (tempfile::TempDir, PathBuf, Naming) {
        let (dir, roots) = hierarchy(&[("/a/cgroup.procs", "")]);
        let file = dir.path().join("sys/fs/cgroup/a/irq.pressure");
        let naming = Naming::new(&roots, 0);
        (dir, file, naming)
    }

    #[test]
    fn what_interrupts_took_from_a_group_is_what_the_kernel_has_counted_since() {
        let (_dir, file, mut naming) = group();
        let a = owner(OwnerKind::Cgroup, "/a");
        let mut read = |total: &str| {
            let text = format!("full avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n");
            fs::write(&file, text).unwrap();
            naming.irq_pressure_ns(&a)
        };
        assert_eq!(read("40"), None, "since when?");
        assert_eq!(read("52"), Some(12_000));
        assert_eq!(read("52"), Some(0));
        assert_eq!(read("30"), None, "it never goes back");
        assert_eq!(read("31"), Some(1_000));
    }

    #[test]
    fn what_interrupts_took_is_never_0_where_the_kernel_does_not_say_it() {
        let (_dir, file, mut naming) = group();
        let a = owner(OwnerKind::Cgroup, "/a");
        assert_eq!(naming.irq_pressure_ns(&a), None);
        assert_eq!(naming.irq_pressure_ns(&a), None);
        let odd: [&[u8]; 8] = [
            b"",
            b"\n",
            b"full\n",
            b"full avg10=0.00 total=\n",
            b"full avg10=0.00 total=-1\n",
            b"full avg10=0.00 total=18446744073709551616\n",
            b"some avg10=0.00 avg60=0.00 avg300=0.00 total=9\n",
            b"\xff\xfe\0full total=7",
        ];
        for text in odd {
            fs::write(&file, "full total=7\n").unwrap();
            naming.irq_pressure_ns(&a);
            fs::write(&file, text).unwrap();
            for _ in 0..2 {
                let told = naming.irq_pressure_ns(&a);
                assert_eq!(told, None, "{:?}", String::from_utf8_lossy(text));
            }
        }
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert_eq!(naming.irq_pressure_ns(&a), None);
    }

    #[test]
    fn only_a_group_that_is_shown_by_its_own_path_has_its_pressure() {
        let (_dir, file, mut naming) = group();
        fs::write(&file, "full total=7\n").unwrap();
        for (kind, path) in [
            (OwnerKind::Process, "/a"),
            (OwnerKind::Interface, "/a"),
            (OwnerKind::Other, ""),
            (OwnerKind::Cgroup, ""),
            (OwnerKind::Cgroup, "/a\\xff"),
            (OwnerKind::Cgroup, "/../cgroup/a"),
        ] {
            for _ in 0..2 {
                assert_eq!(naming.irq_pressure_ns(&owner(kind, path)), None, "{path}");
            }
        }
        let (_dir, roots) = tree(&[]);
        let mut without = Naming::new(&roots, 0);
        for _ in 0..2 {
            let told = without.irq_pressure_ns(&owner(OwnerKind::Cgroup, "/a"));
            assert_eq!(told, None, "without control groups");
        }
    }
}
