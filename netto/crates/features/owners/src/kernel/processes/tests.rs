//! A made-up `/proc`.

use std::os::unix::fs::symlink;

use super::*;
use crate::analysis::recent::BELIEVED_NS;
use netto_sys::system::testing::tree;

/// A made-up `/proc`, in which this process' own network namespace has the number 1.
pub(in crate::kernel) fn host() -> (tempfile::TempDir, Roots) {
    let (dir, roots) = tree(&[("proc/self/ns/other", "")]);
    symlink("net:[1]", roots.proc_root.join("self/ns/net")).unwrap();
    (dir, roots)
}

/// Puts a process there that holds these sockets.
pub(in crate::kernel) fn put(
    roots: &Roots,
    pid: u32,
    group: &str,
    namespace: u64,
    sockets: &[u64],
) {
    let folder = roots.proc_root.join(pid.to_string());
    fs::create_dir_all(folder.join("fd")).unwrap();
    fs::create_dir_all(folder.join("ns")).unwrap();
    let stat = format!(
        "{pid} (p {pid}) S 1 {pid} {pid} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {} 0",
        pid * 2
    );
    fs::write(folder.join("stat"), stat).unwrap();
    fs::write(folder.join("cgroup"), format!("0::{group}\n")).unwrap();
    symlink(format!("net:[{namespace}]"), folder.join("ns/net")).unwrap();
    symlink("/dev/null", folder.join("fd/0")).unwrap();
    for (number, socket) in (1..).zip(sockets) {
        symlink(
            format!("socket:[{socket}]"),
            folder.join(format!("fd/{number}")),
        )
        .unwrap();
    }
}

/// Lets a process hold this TAP interface.
pub(in crate::kernel) fn put_tap(roots: &Roots, pid: u32, name: &str) {
    let folder = roots.proc_root.join(pid.to_string());
    fs::create_dir_all(folder.join("fdinfo")).unwrap();
    symlink("/dev/net/tun", folder.join("fd/9")).unwrap();
    fs::write(folder.join("fdinfo/9"), format!("pos:\t0\niff:\t{name}\n")).unwrap();
}

const SOCKETS: Sought = Sought::SOCKETS;
const NAMESPACES: Sought = Sought {
    sockets: false,
    namespaces: true,
    taps: false,
};

fn pid_of(processes: &mut Processes, socket: u64, now_ns: u64) -> Option<u32> {
    let found = processes.holder(socket, now_ns)?;
    Some(found.process.pid)
}

fn group_of(processes: &mut Processes, namespace: u64, now_ns: u64) -> Option<Vec<u8>> {
    let found = processes.inhabitant(namespace, now_ns)?;
    Some(found.process.cgroup.clone())
}

#[test]
fn a_socket_belongs_to_the_first_of_those_that_hold_it() {
    let (_dir, roots) = host();
    put(&roots, 30, "/web.service", 1, &[700, 701]);
    put(&roots, 200, "/web.service", 1, &[700]);
    let mut processes = Processes::new(&roots);
    processes.search(SOCKETS, 1, &mut Pace::new());
    let found = processes.holder(700, 1).unwrap();
    let expected = Process {
        pid: 30,
        started_ns: 60 * tick_ns(),
        comm: b"p 30".to_vec(),
        cgroup: b"/web.service".to_vec(),
    };
    assert_eq!((&*found.process, found.at_ns), (&expected, 1));
    assert_eq!(pid_of(&mut processes, 701, 1), Some(30));
    assert_eq!(pid_of(&mut processes, 702, 1), None);
    assert_eq!(processes.refused(), None);
}

#[test]
fn a_number_that_came_back_is_no_longer_taken_for_what_it_was() {
    let (_dir, roots) = host();
    put(&roots, 30, "/old", 1, &[700]);
    let mut processes = Processes::new(&roots);
    processes.look_at(&[30], SOCKETS, 1, &mut Pace::new());
    fs::remove_dir_all(roots.proc_root.join("30")).unwrap();
    put(&roots, 30, "/new", 1, &[]);
    put(&roots, 31, "/new", 1, &[700]);
    let believed = pid_of(&mut processes, 700, BELIEVED_NS);
    assert_eq!(believed, Some(30), "believed until then");
    let later = 1 + BELIEVED_NS;
    assert_eq!(pid_of(&mut processes, 700, later), None);
    assert_eq!(processes.last_holder(700), Some(30));
    processes.search(SOCKETS, later, &mut Pace::new());
    assert_eq!(pid_of(&mut processes, 700, later), Some(31));
    // And one that has ended is forgotten.
    fs::remove_dir_all(roots.proc_root.join("31")).unwrap();
    let later = later + BELIEVED_NS;
    processes.search(SOCKETS, later, &mut Pace::new());
    assert_eq!(pid_of(&mut processes, 700, later), None);
}

#[test]
fn a_namespace_is_that_of_its_first_process_in_a_group() {
    let (_dir, roots) = host();
    put(&roots, 10, "/host.service", 1, &[]);
    put(&roots, 20, "/", 2, &[]);
    put(&roots, 30, "/web-1", 2, &[]);
    put(&roots, 40, "/later", 2, &[]);
    put(&roots, 50, "/", 3, &[]);
    let mut processes = Processes::new(&roots);
    processes.search(NAMESPACES, 1, &mut Pace::new());
    assert_eq!(group_of(&mut processes, 2, 1).unwrap(), b"/web-1");
    assert_eq!(processes.inhabitant(3, 1).unwrap().process.pid, 50);
    assert!(processes.inhabitant(1, 1).is_none(), "this process' own");
    let mut all: Vec<(u64, u32)> = processes.namespaces().collect();
    all.sort_unstable();
    assert_eq!(all, [(2, 30), (3, 50)]);
    assert!(processes.is_in(30, 2) && !processes.is_in(30, 3));
}

#[test]
fn a_namespace_whose_process_has_ended_is_not_believed() {
    let (_dir, roots) = host();
    put(&roots, 30, "/web-1", 2, &[]);
    let mut processes = Processes::new(&roots);
    processes.search(NAMESPACES, 1, &mut Pace::new());
    let later = 1 + BELIEVED_NS;
    assert_eq!(group_of(&mut processes, 2, later).unwrap(), b"/web-1");
    fs::remove_dir_all(roots.proc_root.join("30")).unwrap();
    put(&roots, 30, "/web-2", 7, &[]);
    assert!(group_of(&mut processes, 2, later + 1).is_some());
    let later = later + BELIEVED_NS;
    assert_eq!(group_of(&mut processes, 2, later), None);
    processes.search(NAMESPACES, later, &mut Pace::new());
    assert_eq!(group_of(&mut processes, 2, later), None);
    assert_eq!(group_of(&mut processes, 7, later).unwrap(), b"/web-2");
}

#[test]
fn a_tap_is_that_of_the_process_that_holds_it_in_this_network_namespace() {
    let (_dir, roots) = host();
    put(&roots, 30, "/machine", 1, &[]);
    put_tap(&roots, 30, "vnet0");
    put(&roots, 40, "/elsewhere", 2, &[]);
    put_tap(&roots, 40, "tap0");
    let mut processes = Processes::new(&roots);
    let mut search = Pace::new();
    processes.search(Sought::TAPS, 1, &mut search);
    let mut group = |name: &[u8], now_ns| {
        let name = InterfaceName::new(name)?;
        let found = processes.behind_tap(name, now_ns, &mut search)?;
        Some(found.process.cgroup.clone())
    };
    assert_eq!(group(b"vnet0", 1).unwrap(), b"/machine");
    assert_eq!(
        group(b"tap0", 1),
        None,
        "another namespace may have the same name"
    );
    // Looked at again, without a search of all.
    let later = 1 + BELIEVED_NS;
    assert_eq!(group(b"vnet0", later).unwrap(), b"/machine");
    fs::remove_dir_all(roots.proc_root.join("30")).unwrap();
    assert_eq!(group(b"vnet0", later + BELIEVED_NS), None);
}

#[test]
fn of_more_sockets_than_are_kept_some_are() {
    let (_dir, roots) = host();
    put(&roots, 30, "/", 1, &(0..500).collect::<Vec<_>>());
    let mut processes = Processes::new(&roots);
    processes.sockets = Recent::new(100, |_| 1);
    processes.search(SOCKETS, 1, &mut Pace::new());
    let known = (0..500).filter(|inode| pid_of(&mut processes, *inode, 1).is_some());
    assert!((1..=100).contains(&known.count()));
}
