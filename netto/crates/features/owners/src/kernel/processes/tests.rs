//! A made-up `/proc`.

use std::os::unix::fs::symlink;

use super::*;
use netto_sys::system::testing::tree;
use netto_sys::system::tick_ns;

/// A made-up `/proc`, in which this process' own network namespace has the number 1.
fn host() -> (tempfile::TempDir, Roots) {
    let (dir, roots) = tree(&[("proc/self/ns/other", "")]);
    symlink("net:[1]", roots.proc_root.join("self/ns/net")).unwrap();
    (dir, roots)
}

/// Puts a process there that holds these sockets.
fn put(roots: &Roots, pid: u32, group: &str, namespace: u64, sockets: &[u64]) {
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

fn pid_of(processes: &mut Processes, socket: u64, now_ns: u64) -> Option<u32> {
    processes
        .socket(socket, None, now_ns)
        .map(|process| process.pid)
}

fn refresh(processes: &mut Processes, now_ns: u64) {
    processes.refresh(now_ns, None, &mut Slice::endless());
}

#[test]
fn a_socket_belongs_to_the_first_of_those_that_hold_it() {
    let (_dir, roots) = host();
    put(&roots, 30, "/web.service", 1, &[700, 701]);
    put(&roots, 200, "/web.service", 1, &[700]);
    let mut processes = Processes::new(&roots);
    assert_eq!(processes.socket(700, None, 1), None);
    refresh(&mut processes, 1);
    let found = processes.socket(700, None, 1).unwrap();
    let expected = Process {
        pid: 30,
        started_ns: 60 * tick_ns(),
        comm: b"p 30".to_vec(),
        cgroup: b"/web.service".to_vec(),
    };
    assert_eq!(*found, expected);
    assert_eq!(pid_of(&mut processes, 701, 1), Some(30));
    assert_eq!(processes.refused(), None);
}

#[test]
fn a_search_goes_on_where_its_time_was_over() {
    let (_dir, roots) = host();
    for pid in 1..20 {
        put(&roots, pid, "/", 1, &[u64::from(pid) + 100, 500]);
    }
    let mut processes = Processes::new(&roots);
    assert_eq!(pid_of(&mut processes, 119, 1), None);
    let mut pieces = 0;
    while pid_of(&mut processes, 119, 1).is_none() {
        processes.refresh(1, None, &mut Slice::of_steps(3));
        pieces += 1;
        assert!(pieces < 1000);
    }
    assert!(pieces > 19, "{pieces}");
    assert_eq!(pid_of(&mut processes, 500, 1), Some(1));
}

#[test]
fn what_nobody_holds_is_unknown_and_searched_for_at_most_now_and_then() {
    let (_dir, roots) = host();
    let mut processes = Processes::new(&roots);
    for now_ns in 1..100 {
        assert_eq!(pid_of(&mut processes, 700, now_ns), None);
        refresh(&mut processes, now_ns);
    }
    assert_eq!(processes.searches_of_all(), 1);
    put(&roots, 30, "/", 1, &[700]);
    refresh(&mut processes, PAUSE_NS + 1);
    assert_eq!(pid_of(&mut processes, 700, PAUSE_NS + 1), Some(30));
}

#[test]
fn nobody_asks_and_nothing_is_read() {
    let (_dir, roots) = host();
    let mut processes = Processes::new(&roots);
    refresh(&mut processes, 1);
    assert_eq!((processes.searches_of_all(), processes.searches), (0, 0));
}

#[test]
fn a_known_group_is_looked_into_instead_of_all_processes() {
    let (dir, roots) = host();
    put(&roots, 30, "/web", 1, &[700]);
    put(&roots, 31, "/other", 1, &[701]);
    let group = dir.path().join("sys/fs/cgroup/web");
    fs::create_dir_all(&group).unwrap();
    fs::write(group.join("cgroup.procs"), "30\n").unwrap();
    let mount = dir.path().join("sys/fs/cgroup");
    let line = format!("41 31 0:38 / {} rw - cgroup2 cgroup2 rw\n", mount.display());
    fs::write(roots.proc_root.join("self/mountinfo"), line).unwrap();
    let groups = Cgroups::new(&roots).unwrap();
    let mut processes = Processes::new(&roots);
    assert_eq!(processes.socket(700, Some(b"/web"), 1), None);
    processes.refresh(1, Some(&groups), &mut Slice::endless());
    assert_eq!(pid_of(&mut processes, 700, 1), Some(30));
    assert_eq!(processes.searches_of_all(), 0);
    // One that is not where it was said to be is looked for everywhere.
    assert_eq!(processes.socket(701, Some(b"/web"), 1), None);
    processes.refresh(1, Some(&groups), &mut Slice::endless());
    assert_eq!(pid_of(&mut processes, 701, 1), Some(31));
    assert_eq!(processes.searches_of_all(), 1);
}

#[test]
fn a_number_that_came_back_is_no_longer_taken_for_what_it_was() {
    let (_dir, roots) = host();
    put(&roots, 30, "/old", 1, &[700]);
    let mut processes = Processes::new(&roots);
    let _ = pid_of(&mut processes, 700, 1);
    refresh(&mut processes, 1);
    fs::remove_dir_all(roots.proc_root.join("30")).unwrap();
    put(&roots, 30, "/new", 1, &[]);
    put(&roots, 31, "/new", 1, &[700]);
    let now_ns = 1 + BELIEVED_NS + PAUSE_NS;
    assert_eq!(
        pid_of(&mut processes, 700, BELIEVED_NS),
        Some(30),
        "believed until then"
    );
    let _ = pid_of(&mut processes, 700, now_ns);
    refresh(&mut processes, now_ns);
    assert_eq!(pid_of(&mut processes, 700, now_ns), Some(31));
    // And one that has ended is forgotten.
    fs::remove_dir_all(roots.proc_root.join("31")).unwrap();
    let now_ns = now_ns + BELIEVED_NS + PAUSE_NS;
    let _ = pid_of(&mut processes, 700, now_ns);
    refresh(&mut processes, now_ns);
    assert_eq!(pid_of(&mut processes, 700, now_ns), None);
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
    assert_eq!(processes.namespace(2, 1), None);
    refresh(&mut processes, 1);
    assert_eq!(processes.namespace(2, 1).unwrap().cgroup, b"/web-1");
    assert_eq!(processes.namespace(3, 1).unwrap().pid, 50);
    assert_eq!(processes.namespace(1, 1), None, "this process' own");
    let mut all: Vec<(u64, u32)> = processes.namespaces().collect();
    all.sort_unstable();
    assert_eq!(all, [(2, 30), (3, 50)]);
    assert!(processes.is_in(30, 2) && !processes.is_in(30, 3));
}

#[test]
fn a_namespace_whose_process_has_ended_is_looked_for_again() {
    let (_dir, roots) = host();
    put(&roots, 30, "/web-1", 2, &[]);
    let mut processes = Processes::new(&roots);
    let _ = processes.namespace(2, 1);
    refresh(&mut processes, 1);
    let later = 1 + BELIEVED_NS;
    assert_eq!(processes.namespace(2, later).unwrap().pid, 30);
    fs::remove_dir_all(roots.proc_root.join("30")).unwrap();
    put(&roots, 30, "/web-2", 7, &[]);
    let later = later + BELIEVED_NS + PAUSE_NS;
    assert_eq!(processes.namespace(2, later), None);
    refresh(&mut processes, later);
    assert_eq!(processes.namespace(2, later), None);
    assert_eq!(processes.namespace(7, later).unwrap().cgroup, b"/web-2");
}

#[test]
fn what_is_looked_for_at_once_is_bounded() {
    let (_dir, roots) = host();
    let mut processes = Processes::new(&roots);
    for socket in 0..100_000 {
        let group = format!("/{socket}");
        let _ = processes.socket(socket, Some(group.as_bytes()), 1);
    }
    assert_eq!(processes.wanted.len(), MOST_WANTED);
    assert!(processes.near_groups.len() <= MOST_WANTED);
}
