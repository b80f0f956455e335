//! Resolves the names of numbered owners: control groups, processes, interfaces. Unknown ones are
//! requested from a thread that may wait for the kernel (`kernel/search.rs`); this end never waits,
//! and names arrive later.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::Context;
use metrics_common::{Owner, OwnerKind};
use rustc_hash::FxHashSet;

use super::analysis::owner_table::{OwnerId, OwnerTable, Process};
use super::analysis::path::names;
use super::analysis::pods::{Pod, number_of};
use super::analysis::recent::{Recent, is_old};
use super::analysis::verdict::Socket;
use super::kernel::cgroups::Cgroups;
use super::kernel::processes;
use super::kernel::search::Search;
use super::question::{Answer, Interface, MOST_ASKED, Question, Subject};
use netto_analysis::escapes::shown;
use netto_sys::system::Roots;

/// Most bytes of all paths with their overhead: some 50,000 paths.
const MOST_PATH_BYTES: usize = 8 << 20;
const PATH_BYTES: usize = 64;
/// Most sockets, interfaces and pods kept. A kubelet runs some hundreds of pods.
const MOST_HOLDERS: usize = 65_536;
const MOST_INTERFACES: usize = 16_384;
const MOST_PODS: usize = 4096;
/// An answer, and its time.
#[derive(Debug)]
struct Timed<T> {
    value: T,
    at_ns: u64,
}

/// A name, and the path of its control group, if there is one.
type Named = (String, Option<Vec<u8>>);

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct OwnerResolver {
    /// The hierarchy, or why there is none.
    pub(crate) cgroups: Result<Cgroups, String>,
    questions: SyncSender<Question>,
    answers: Receiver<Answer>,
    /// Pending requests.
    asked: FxHashSet<Subject>,
    /// `None`: searched for and gone.
    paths: Recent<u64, Option<Box<[u8]>>>,
    holders: Recent<u64, Timed<Option<Arc<processes::Process>>>>,
    interfaces: Recent<Interface, Timed<Named>>,
    pods: Recent<u128, Timed<Option<Pod>>>,
    refused: Option<String>,
    /// By path: the last value of `irq.pressure`.
    pressure_ns: HashMap<String, u64>,
}

impl OwnerResolver {
    /// Starts the thread, which ends with this.
    ///
    /// # Errors
    /// If the operating system cannot start a thread.
    pub(crate) fn start(roots: &Roots) -> anyhow::Result<OwnerResolver> {
        let cgroups = Cgroups::new(roots);
        let (questions, asked) = sync_channel(MOST_ASKED);
        let (answer, answers) = sync_channel(MOST_ASKED);
        let (roots, hierarchy) = (roots.clone(), cgroups.as_ref().ok().cloned());
        std::thread::Builder::new()
            .name("owners".to_owned())
            .spawn(move || Search::new(&roots, hierarchy).run(&asked, &answer))
            .context("cannot start a thread")?;
        Ok(OwnerResolver::over(cgroups, questions, answers))
    }

    fn over(
        cgroups: Result<Cgroups, String>,
        questions: SyncSender<Question>,
        answers: Receiver<Answer>,
    ) -> Self {
        OwnerResolver {
            cgroups,
            questions,
            answers,
            asked: FxHashSet::default(),
            paths: Recent::new(MOST_PATH_BYTES, |path| {
                PATH_BYTES + path.as_ref().map_or(0, |path| path.len())
            }),
            holders: Recent::new(MOST_HOLDERS, |_| 1),
            interfaces: Recent::new(MOST_INTERFACES, |_| 1),
            pods: Recent::new(MOST_PODS, |_| 1),
            refused: None,
            pressure_ns: HashMap::new(),
        }
    }

    /// Takes the answers since the last call.
    pub(crate) fn take_answers(&mut self, now_ns: u64) {
        self.holders.forget_old(now_ns, |holder| holder.at_ns);
        self.interfaces
            .forget_old(now_ns, |interface| interface.at_ns);
        for answer in self.answers.try_iter() {
            match answer {
                Answer::Group(id, path) => {
                    self.asked.remove(&Subject::Group(id));
                    match path {
                        Some(path) => learn(&mut self.paths, id, &path),
                        None if self.paths.peek(id).is_none() => self.paths.insert(id, None),
                        None => {}
                    }
                }
                Answer::Pod(uid, value) => {
                    self.asked.remove(&Subject::Pod(uid));
                    // The name of a pod outlives its folder.
                    let before = self.pods.get(uid).and_then(|known| known.value.take());
                    let value = value.or(before);
                    let at_ns = now_ns;
                    self.pods.insert(uid, Timed { value, at_ns });
                }
                Answer::Holder {
                    socket,
                    process,
                    at_ns,
                } => {
                    self.asked.remove(&Subject::Holder(socket));
                    let value = process;
                    self.holders.insert(socket, Timed { value, at_ns });
                }
                Answer::Interface {
                    interface,
                    name,
                    group,
                    at_ns,
                } => {
                    self.asked.remove(&Subject::Interface(interface));
                    let value = (name, group);
                    self.interfaces.insert(interface, Timed { value, at_ns });
                }
                Answer::Refused(reason) => self.refused = Some(reason),
            }
        }
    }

    /// Sends a request, unless it is pending or too many are: callers repeat it while they need the
    /// answer.
    fn ask(&mut self, asked: Subject, group: Option<&[u8]>) {
        if self.asked.len() < MOST_ASKED && self.asked.insert(asked) {
            let group = group.map(Into::into);
            if self.questions.try_send(Question { asked, group }).is_err() {
                self.asked.remove(&asked);
            }
        }
    }

    /// Records that a group of this number was created, with this path.
    pub(crate) fn learn(&mut self, id: u64, path: &[u8]) {
        learn(&mut self.paths, id, path);
    }

    /// Path of a group from the root of the hierarchy, as bytes: `/` is the root itself. `None` if
    /// it is not known, or not yet.
    fn path(&mut self, id: u64) -> Option<Vec<u8>> {
        if self.cgroups.is_err() || id == 0 {
            return None;
        }
        if self.paths.peek(id).is_none() {
            self.ask(Subject::Group(id), None);
        }
        self.paths.get(id)?.as_deref().map(<[u8]>::to_vec)
    }

    /// Why processes of some sockets are not known, if so.
    pub(crate) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// The process that holds a socket, if already known.
    pub(crate) fn holder(
        &mut self,
        socket: Socket,
        now_ns: u64,
    ) -> Option<Arc<processes::Process>> {
        if socket.inode == 0 {
            return None;
        }
        let known = self.holders.get(socket.inode);
        let is_old = known
            .as_ref()
            .is_none_or(|known| is_old(known.at_ns, now_ns));
        let process = known.and_then(|known| known.value.clone());
        if is_old {
            let group = self.path(socket.cgroup);
            self.ask(Subject::Holder(socket.inode), group.as_deref());
        }
        process
    }

    /// All known details of an owner.
    pub(crate) fn owner(&mut self, who: OwnerId, register: &OwnerTable, now_ns: u64) -> Owner {
        match who {
            OwnerId::Nobody => Owner::single(OwnerKind::Nobody),
            OwnerId::Other => Owner::single(OwnerKind::Other),
            OwnerId::Unknown => Owner::single(OwnerKind::Unknown),
            OwnerId::Idle => Owner::single(OwnerKind::Idle),
            OwnerId::Kernel => Owner::single(OwnerKind::Kernel),
            OwnerId::Cgroup(id) => self.group(id, now_ns),
            OwnerId::Process { pid, started_cs } => {
                let Process { cgroup, comm } = register.of_process(who);
                let end = comm.iter().position(|byte| *byte == 0);
                Owner {
                    kind: OwnerKind::Process,
                    pid,
                    started_ns: started_cs * 10_000_000,
                    comm: shown(&comm[..end.unwrap_or(comm.len())]),
                    ..match self.cgroups {
                        Ok(_) => self.group(cgroup, now_ns),
                        Err(_) => Owner::single(OwnerKind::Process),
                    }
                }
            }
            OwnerId::Interface { netns, from, to } => {
                self.interface(Interface { netns, from, to }, now_ns)
            }
        }
    }

    fn group(&mut self, id: u64, now_ns: u64) -> Owner {
        let path = self.path(id);
        Owner {
            id,
            ..self.of_path(OwnerKind::Cgroup, path.as_deref(), now_ns)
        }
    }

    fn of_path(&mut self, kind: OwnerKind, path: Option<&[u8]>, now_ns: u64) -> Owner {
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
        if let Some(pod) = number_of(&names.pod_uid).and_then(|uid| self.pod(uid, now_ns)) {
            owner.pod.clone_from(&pod.name);
            owner.namespace.clone_from(&pod.namespace);
        }
        owner
    }

    /// Name of a pod. One that was not found may appear later; a name never changes.
    fn pod(&mut self, uid: u128, now_ns: u64) -> Option<&Pod> {
        let known = self.pods.peek(uid);
        if known.is_none_or(|known| known.value.is_none() && is_old(known.at_ns, now_ns)) {
            self.ask(Subject::Pod(uid), None);
        }
        self.pods.get(uid)?.value.as_ref()
    }

    fn interface(&mut self, interface: Interface, now_ns: u64) -> Owner {
        let known = self.interfaces.get(interface);
        let is_old = known
            .as_ref()
            .is_none_or(|known| is_old(known.at_ns, now_ns));
        let value = known.map(|known| known.value.clone());
        if is_old {
            self.ask(Subject::Interface(interface), None);
        }
        let (name, group) = value.unwrap_or_else(|| (interface.name(|_| None), None));
        Owner {
            id: interface.netns,
            interface: name,
            ..self.of_path(OwnerKind::Interface, group.as_deref(), now_ns)
        }
    }

    /// Increase of a group's `irq.pressure` since the last call, nanoseconds; `None` the first
    /// time, and where the kernel has none.
    pub(crate) fn irq_pressure_ns(&mut self, owner: &Owner) -> Option<u64> {
        if owner.kind != OwnerKind::Cgroup || owner.cgroup.is_empty() {
            return None;
        }
        let cgroups = self.cgroups.as_ref().ok()?;
        // A path that is shown in escaped form has no file of that name.
        let now_ns = cgroups.irq_pressure_ns(owner.cgroup.as_bytes())?;
        let before_ns = self.pressure_ns.insert(owner.cgroup.clone(), now_ns)?;
        now_ns.checked_sub(before_ns)
    }

    /// Forgets the values of groups that are no longer requested.
    pub(crate) fn forget_pressure(&mut self, asked: &[Owner]) {
        if self.pressure_ns.len() > 4 * asked.len() + 64 {
            self.pressure_ns
                .retain(|path, _| asked.iter().any(|owner| owner.cgroup == *path));
        }
    }
}

fn learn(paths: &mut Recent<u64, Option<Box<[u8]>>>, id: u64, path: &[u8]) {
    let is_known = |known: &Option<Box<[u8]>>| known.as_deref() == Some(path);
    if !paths.peek(id).is_some_and(is_known) {
        paths.insert(id, Some(path.into()));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::super::analysis::recent::BELIEVED_NS;
    use super::super::kernel::cgroups::testing::hierarchy;
    use super::*;
    use netto_sys::system::testing::tree;

    fn owner(kind: OwnerKind, cgroup: &str) -> Owner {
        Owner {
            cgroup: cgroup.to_owned(),
            ..Owner::single(kind)
        }
    }

    /// A group `/a`, its `irq.pressure`, and a resolver that reads it.
    fn group() -> (tempfile::TempDir, PathBuf, OwnerResolver) {
        let (dir, roots) = hierarchy(&[("/a/cgroup.procs", "")]);
        let file = dir.path().join("sys/fs/cgroup/a/irq.pressure");
        let resolver = OwnerResolver::start(&roots).unwrap();
        (dir, file, resolver)
    }

    /// This end alone, with its channels.
    fn alone() -> (OwnerResolver, Receiver<Question>, SyncSender<Answer>) {
        let (_dir, roots) = hierarchy(&[]);
        let (questions, asked) = sync_channel(MOST_ASKED);
        let (answer, answers) = sync_channel(MOST_ASKED);
        let cgroups = Cgroups::new(&roots);
        (
            OwnerResolver::over(cgroups, questions, answers),
            asked,
            answer,
        )
    }

    fn path(resolver: &mut OwnerResolver, id: u64) -> Option<String> {
        String::from_utf8(resolver.path(id)?).ok()
    }

    #[test]
    fn a_group_is_asked_for_once_and_keeps_the_name_that_was_learnt() {
        let (mut resolver, asked, answer) = alone();
        for _ in 0..3 {
            assert_eq!(path(&mut resolver, 7), None);
        }
        assert_eq!(asked.try_iter().count(), 1);
        resolver.learn(7, b"/made");
        // It was gone when it was searched for.
        answer.send(Answer::Group(7, None)).unwrap();
        resolver.take_answers(1);
        assert_eq!(path(&mut resolver, 7).as_deref(), Some("/made"));
        answer.send(Answer::Group(8, None)).unwrap();
        resolver.take_answers(1);
        assert_eq!(path(&mut resolver, 8), None);
        assert_eq!(asked.try_iter().count(), 0, "it is not looked for again");
        // Until its creation is reported.
        resolver.learn(8, b"/told");
        assert_eq!(path(&mut resolver, 8).as_deref(), Some("/told"));
    }

    #[test]
    fn a_holder_is_believed_for_a_while_and_shown_until_another_is_known() {
        let (mut resolver, asked, answer) = alone();
        let socket = Socket {
            cgroup: 7,
            inode: 700,
        };
        resolver.learn(7, b"/web");
        let pid = |resolver: &mut OwnerResolver, now_ns| {
            resolver.take_answers(now_ns);
            resolver.holder(socket, now_ns).map(|process| process.pid)
        };
        let holder = |pid, at_ns| Answer::Holder {
            socket: 700,
            process: Some(Arc::new(processes::Process {
                pid,
                started_ns: 1,
                comm: Vec::new(),
                cgroup: Vec::new(),
            })),
            at_ns,
        };
        assert_eq!(pid(&mut resolver, 1), None);
        let question = asked.try_recv().unwrap();
        assert_eq!(question.asked, Subject::Holder(700));
        assert_eq!(question.group.as_deref(), Some(&b"/web"[..]));
        answer.send(holder(30, 1)).unwrap();
        assert_eq!(pid(&mut resolver, BELIEVED_NS), Some(30));
        assert!(asked.try_recv().is_err());
        assert_eq!(pid(&mut resolver, 1 + BELIEVED_NS), Some(30));
        assert!(asked.try_recv().is_ok());
        answer.send(holder(31, 2 + BELIEVED_NS)).unwrap();
        assert_eq!(pid(&mut resolver, 2 + BELIEVED_NS), Some(31));
    }

    #[test]
    fn a_pod_keeps_its_name_and_an_interface_has_its_number_at_first() {
        let (mut resolver, asked, answer) = alone();
        let uid = "11111111-2222-3333-4444-555555555555";
        let path = format!(
            "/kubepods.slice/kubepods-pod{}.slice",
            uid.replace('-', "_")
        );
        let pod = Pod {
            namespace: "shop".to_owned(),
            name: "web-1".to_owned(),
        };
        let name = |resolver: &mut OwnerResolver, now_ns| {
            resolver.take_answers(now_ns);
            let owner = resolver.of_path(OwnerKind::Cgroup, Some(path.as_bytes()), now_ns);
            owner.pod
        };
        assert_eq!(name(&mut resolver, 1), uid);
        let uid = number_of(uid).unwrap();
        answer.send(Answer::Pod(uid, None)).unwrap();
        name(&mut resolver, 1);
        assert_eq!(asked.try_iter().count(), 1);
        name(&mut resolver, 1 + BELIEVED_NS);
        assert_eq!(asked.try_iter().count(), 1, "it may be there by now");
        answer.send(Answer::Pod(uid, Some(pod))).unwrap();
        assert_eq!(name(&mut resolver, 2), "web-1");
        answer.send(Answer::Pod(uid, None)).unwrap();
        assert_eq!(name(&mut resolver, 3 + BELIEVED_NS), "web-1");
        let interface = Interface {
            netns: 5,
            from: 3,
            to: 4,
        };
        let owner = resolver.interface(interface, 1);
        assert_eq!(owner.interface, "forwarded to interface 4");
        assert_eq!((owner.id, owner.kind), (5, OwnerKind::Interface));
    }

    #[test]
    fn nothing_is_waited_for_and_what_is_asked_is_bounded() {
        let (mut resolver, asked, _answer) = alone();
        for id in 1..20_000 {
            let _ = (path(&mut resolver, id), resolver.pod(u128::from(id), 1));
        }
        assert_eq!(resolver.asked.len(), MOST_ASKED);
        assert_eq!(asked.try_iter().count(), MOST_ASKED);
        drop(asked);
        resolver.asked.clear();
        let _ = path(&mut resolver, 1);
        assert!(resolver.asked.is_empty(), "the thread has ended");
    }

    #[test]
    fn a_hundred_thousand_groups_take_bounded_room() {
        let (mut resolver, _asked, _answer) = alone();
        for id in 1..100_000 {
            resolver.learn(id, format!("/{}/{id}", "x".repeat(200)).as_bytes());
        }
        let paths = resolver.paths.iter().flat_map(|(_, path)| path);
        let kept: usize = paths.map(|path| path.len()).sum();
        assert!(
            kept < MOST_PATH_BYTES && kept > MOST_PATH_BYTES / 2,
            "{kept}"
        );
        assert!(path(&mut resolver, 99_999).unwrap().ends_with("/99999"));
        assert_eq!(path(&mut resolver, 1), None);
    }

    #[test]
    fn what_interrupts_took_from_a_group_is_what_the_kernel_has_counted_since() {
        let (_dir, file, mut resolver) = group();
        let a = owner(OwnerKind::Cgroup, "/a");
        let mut read = |total: &str| {
            let text = format!("full avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n");
            fs::write(&file, text).unwrap();
            resolver.irq_pressure_ns(&a)
        };
        assert_eq!(read("40"), None, "since when?");
        assert_eq!(read("52"), Some(12_000));
        assert_eq!(read("52"), Some(0));
        assert_eq!(read("30"), None, "it never goes back");
        assert_eq!(read("31"), Some(1_000));
    }

    #[test]
    fn what_interrupts_took_is_never_0_where_the_kernel_does_not_say_it() {
        let (_dir, file, mut resolver) = group();
        let a = owner(OwnerKind::Cgroup, "/a");
        assert_eq!(resolver.irq_pressure_ns(&a), None);
        assert_eq!(resolver.irq_pressure_ns(&a), None);
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
            resolver.irq_pressure_ns(&a);
            fs::write(&file, text).unwrap();
            for _ in 0..2 {
                let pressure_ns = resolver.irq_pressure_ns(&a);
                assert_eq!(pressure_ns, None, "{:?}", String::from_utf8_lossy(text));
            }
        }
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert_eq!(resolver.irq_pressure_ns(&a), None);
    }

    #[test]
    fn only_a_group_that_is_shown_by_its_own_path_has_its_pressure() {
        let (_dir, file, mut resolver) = group();
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
                assert_eq!(resolver.irq_pressure_ns(&owner(kind, path)), None, "{path}");
            }
        }
        let (_dir, roots) = tree(&[]);
        let mut without = OwnerResolver::start(&roots).unwrap();
        for _ in 0..2 {
            let pressure_ns = without.irq_pressure_ns(&owner(OwnerKind::Cgroup, "/a"));
            assert_eq!(pressure_ns, None, "without control groups");
        }
    }
}
