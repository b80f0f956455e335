//! The resolver's thread: it takes requests, searches for the answers in a small share of one CPU's
//! time, and may wait for the kernel meanwhile.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use netto_analysis::escapes::shown;
use netto_analysis::netlink::Link;
use netto_sys::cgroups::Handles;
use netto_sys::system::{Roots, monotonic_ns};
use rustc_hash::FxHashSet;

use super::cgroups::Cgroups;
use super::links::{Links, Peer};
use super::pace::Pace;
use super::pods::Pods;
use super::processes::{Processes, Sought};
use crate::analysis::process::InterfaceName;
use crate::question::{Answer, Interface, MOST_ASKED, Question, Subject};

/// Time between two walks through all groups, nanoseconds.
const GROUPS_PAUSE_NS: u64 = 1_000_000_000;
/// Time between two searches of all processes, and two readings of the kubelet's folder.
const PAUSE_NS: u64 = 10_000_000_000;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Search {
    cgroups: Option<Cgroups>,
    /// `Some` if the kernel allows it: then only the first walk is needed.
    handles: Option<Handles>,
    processes: Processes,
    pods: Pods,
    /// `None`: interfaces are shown by index only.
    links: Option<Links>,
    pace: Pace,
    /// Unanswered requests.
    groups: Waiting<FxHashSet<u64>>,
    wanted_pods: Waiting<FxHashSet<u128>>,
    /// Sockets, with the group in which the holder is likely, and interfaces, none of which has
    /// been searched for yet.
    new_holders: Vec<(u64, Option<Box<[u8]>>)>,
    new_interfaces: FxHashSet<Interface>,
    /// Sockets that need a search of all processes.
    holders: FxHashSet<u64>,
    interfaces: FxHashSet<Interface>,
    /// Whether one of them is a TUN or TAP interface whose holder is not known.
    are_taps_wanted: bool,
    /// Earliest time of the next search of all processes, CLOCK_MONOTONIC.
    processes_from_ns: u64,
    is_refusal_told: bool,
}

/// Requests that wait for a rate-limited operation.
#[derive(Debug, Default)]
struct Waiting<T> {
    wanted: T,
    /// Earliest time of the operation, CLOCK_MONOTONIC.
    from_ns: u64,
}

impl Search {
    /// Nothing read yet.
    pub(crate) fn new(roots: &Roots, cgroups: Option<Cgroups>) -> Self {
        let links = Links::new();
        let links = links.inspect_err(|error| tracing::warn!("{error:#}"));
        Search {
            handles: cgroups.as_ref().and_then(Cgroups::handles),
            cgroups,
            processes: Processes::new(roots),
            pods: Pods::new(roots),
            links: links.ok(),
            pace: Pace::new(),
            groups: Waiting::default(),
            wanted_pods: Waiting::default(),
            new_holders: Vec::new(),
            new_interfaces: FxHashSet::default(),
            holders: FxHashSet::default(),
            interfaces: FxHashSet::default(),
            are_taps_wanted: false,
            processes_from_ns: 0,
            is_refusal_told: false,
        }
    }

    /// Answers until the sender is dropped.
    pub(crate) fn run(mut self, questions: &Receiver<Question>, answers: &SyncSender<Answer>) {
        let mut is_wanted = true;
        let mut tell = |answer| is_wanted &= answers.send(answer).is_ok();
        // A group that is removed before the first request has a name, too.
        self.walk(monotonic_ns(), &mut tell);
        while is_wanted {
            let first = match self.next_ns() {
                None => questions.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at_ns) => {
                    let wait_ns = at_ns.saturating_sub(monotonic_ns());
                    questions.recv_timeout(Duration::from_nanos(wait_ns))
                }
            };
            if first == Err(RecvTimeoutError::Disconnected) {
                return;
            }
            let now_ns = monotonic_ns();
            for question in first
                .into_iter()
                .chain(questions.try_iter().take(MOST_ASKED))
            {
                self.take(question, &mut |answer| {
                    is_wanted &= answers.send(answer).is_ok()
                });
            }
            self.answer(now_ns, &mut |answer| {
                is_wanted &= answers.send(answer).is_ok()
            });
            self.pace.step();
        }
    }

    /// The earliest time of an operation with pending requests.
    fn next_ns(&self) -> Option<u64> {
        let groups = (!self.groups.wanted.is_empty()).then_some(self.groups.from_ns);
        let pods = (!self.wanted_pods.wanted.is_empty()).then_some(self.wanted_pods.from_ns);
        let searches = !self.holders.is_empty() || !self.interfaces.is_empty();
        let processes = searches.then_some(self.processes_from_ns);
        [groups, pods, processes].into_iter().flatten().min()
    }

    /// Takes a request, and answers at once if the answer is known.
    fn take(&mut self, question: Question, tell: &mut dyn FnMut(Answer)) {
        match question.asked {
            Subject::Group(id) => match (&self.cgroups, &self.handles) {
                (Some(cgroups), Some(handles)) => {
                    let path = cgroups.path(handles, id);
                    tell(Answer::Group(id, path.map(Vec::into_boxed_slice)));
                }
                _ => {
                    self.groups.wanted.insert(id);
                }
            },
            Subject::Pod(uid) => {
                self.wanted_pods.wanted.insert(uid);
            }
            Subject::Holder(socket) => self.new_holders.push((socket, question.group)),
            Subject::Interface(interface) => {
                self.new_interfaces.insert(interface);
            }
        }
    }

    /// Runs the operations that are due; those that wait for the RTNL lock come last.
    fn answer(&mut self, now_ns: u64, tell: &mut dyn FnMut(Answer)) {
        if !self.groups.wanted.is_empty() && now_ns >= self.groups.from_ns {
            self.walk(now_ns, tell);
        }
        if !self.wanted_pods.wanted.is_empty() && now_ns >= self.wanted_pods.from_ns {
            self.read_pods(now_ns, tell);
        }
        self.look_for_holders(now_ns, tell);
        for interface in std::mem::take(&mut self.new_interfaces) {
            let is_all = self.tell_interface(interface, now_ns, tell);
            if !is_all && self.interfaces.len() < MOST_ASKED {
                self.interfaces.insert(interface);
            }
        }
        let sought = Sought {
            sockets: !self.holders.is_empty(),
            namespaces: !self.interfaces.is_empty(),
            taps: self.are_taps_wanted,
        };
        if (sought.sockets || sought.namespaces) && now_ns >= self.processes_from_ns {
            let begun_ns = monotonic_ns();
            self.processes.search(sought, now_ns, &mut self.pace);
            // It may have taken long.
            let took_ns = monotonic_ns().saturating_sub(begun_ns);
            self.processes_from_ns = now_ns.saturating_add(took_ns + PAUSE_NS);
            self.tell_holders(now_ns, true, tell);
            for interface in std::mem::take(&mut self.interfaces) {
                self.tell_interface(interface, now_ns, tell);
            }
            self.are_taps_wanted = false;
        }
        if let Some(refused) = self.processes.refused().filter(|_| !self.is_refusal_told) {
            self.is_refusal_told = true;
            tell(Answer::Refused(refused.to_owned()));
        }
    }

    fn walk(&mut self, now_ns: u64, tell: &mut dyn FnMut(Answer)) {
        let wanted = &mut self.groups.wanted;
        if let Some(cgroups) = &self.cgroups {
            cgroups.walk(&mut self.pace, |id, path| {
                wanted.remove(&id);
                tell(Answer::Group(id, Some(path.into())));
            });
        }
        wanted.drain().for_each(|id| tell(Answer::Group(id, None)));
        self.groups.from_ns = now_ns.saturating_add(GROUPS_PAUSE_NS);
    }

    fn read_pods(&mut self, now_ns: u64, tell: &mut dyn FnMut(Answer)) {
        let wanted = &mut self.wanted_pods.wanted;
        self.pods.read(&mut self.pace, |uid, pod| {
            if wanted.remove(&uid) {
                tell(Answer::Pod(uid, Some(pod)));
            }
        });
        wanted.drain().for_each(|uid| tell(Answer::Pod(uid, None)));
        self.wanted_pods.from_ns = now_ns.saturating_add(PAUSE_NS);
    }

    /// Searches likely processes: earlier holders of a socket, and those of its group.
    fn look_for_holders(&mut self, now_ns: u64, tell: &mut dyn FnMut(Answer)) {
        let new = std::mem::take(&mut self.new_holders);
        self.holders.extend(new.iter().map(|(socket, _)| *socket));
        self.tell_holders(now_ns, false, tell);
        let mut pids = Vec::new();
        let mut groups = FxHashSet::default();
        for (socket, group) in new {
            match (self.processes.last_holder(socket), group) {
                _ if !self.holders.contains(&socket) => {}
                (Some(pid), _) => pids.push(pid),
                (None, Some(group)) => {
                    groups.insert(group);
                }
                (None, None) => {}
            }
        }
        if let Some(cgroups) = &self.cgroups {
            pids.extend(groups.iter().flat_map(|group| cgroups.processes(group)));
        }
        pids.sort_unstable();
        pids.dedup();
        if !pids.is_empty() {
            let pace = &mut self.pace;
            self.processes.look_at(&pids, Sought::SOCKETS, now_ns, pace);
            self.tell_holders(now_ns, false, tell);
        }
    }

    /// Answers for known holders; `are_all`: the other sockets have none.
    fn tell_holders(&mut self, now_ns: u64, are_all: bool, tell: &mut dyn FnMut(Answer)) {
        let processes = &mut self.processes;
        self.holders.retain(|socket| {
            let found = processes.holder(*socket, now_ns);
            if found.is_none() && !are_all {
                return true;
            }
            let at_ns = found.as_ref().map_or(now_ns, |found| found.at_ns);
            let process = found.map(|found| found.process);
            tell(Answer::Holder {
                socket: *socket,
                process,
                at_ns,
            });
            false
        });
    }

    /// Answers with the known data of an interface; returns whether that is final.
    fn tell_interface(
        &mut self,
        interface: Interface,
        now_ns: u64,
        tell: &mut dyn FnMut(Answer),
    ) -> bool {
        let (name, group, is_all) = self.interface(interface, now_ns);
        tell(Answer::Interface {
            interface,
            name,
            group,
            at_ns: now_ns,
        });
        is_all
    }

    /// Packets that leave the host's namespace by a veth belong to the namespace at its other end, those
    /// that leave it by TUN or TAP to the process that reads them, and so do those that come from there.
    /// Returns the name of an interface, the group of a process in that namespace or of that process, and
    /// whether that is final.
    fn interface(&mut self, asked: Interface, now_ns: u64) -> (String, Option<Vec<u8>>, bool) {
        let is_ours = self.processes.is_own(asked.netns);
        let links = &mut self.links;
        let name = asked.name(|index| {
            let link = links.as_mut().filter(|_| is_ours)?.link(index, now_ns)?;
            Some(shown(&link.name))
        });
        let mut inhabited = (!is_ours).then_some(asked.netns);
        let mut holder = None;
        let mut is_all = true;
        if let (true, Some(links)) = (is_ours, links) {
            for index in [asked.to, asked.from]
                .into_iter()
                .filter(|index| *index != 0)
            {
                let pace = &mut self.pace;
                let link = links.link(index, now_ns);
                let is_tap = |link: &&Link| link.kind.as_deref() == Some("tun");
                if let Some(tap) = link.filter(is_tap) {
                    let tap = InterfaceName::new(&tap.name);
                    let behind = tap.and_then(|tap| self.processes.behind_tap(tap, now_ns, pace));
                    self.are_taps_wanted |= behind.is_none();
                    is_all &= behind.is_some();
                    holder = holder.or(behind.filter(|_| inhabited.is_none()));
                    continue;
                }
                match links.peer(index, &self.processes, now_ns, pace) {
                    Peer::Ours => {}
                    Peer::In(netns) if holder.is_none() => {
                        inhabited = inhabited.or(Some(netns));
                    }
                    Peer::In(_) => {}
                    Peer::Unknown => is_all = false,
                }
            }
        }
        let inhabitant = inhabited.and_then(|netns| self.processes.inhabitant(netns, now_ns));
        is_all &= inhabitant.is_some() || inhabited.is_none();
        let found = holder.or(inhabitant);
        (
            name,
            found.map(|found| found.process.cgroup.clone()),
            is_all,
        )
    }
}

#[cfg(test)]
mod tests;
