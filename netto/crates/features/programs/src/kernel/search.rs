//! Where programs are attached: their links, and the programs of the host's interfaces and control
//! groups. A thread of its own asks, because the kernel may answer late, and only about programs that
//! have samples.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use anyhow::Context;
use libbpf_rs::libbpf_sys::{
    BPF_CGROUP_GETSOCKOPT, BPF_CGROUP_INET_EGRESS, BPF_CGROUP_INET_INGRESS,
    BPF_CGROUP_INET_SOCK_CREATE, BPF_CGROUP_INET_SOCK_RELEASE, BPF_CGROUP_INET4_BIND,
    BPF_CGROUP_INET4_CONNECT, BPF_CGROUP_INET4_POST_BIND, BPF_CGROUP_INET6_BIND,
    BPF_CGROUP_INET6_CONNECT, BPF_CGROUP_INET6_POST_BIND, BPF_CGROUP_SETSOCKOPT,
    BPF_CGROUP_SOCK_OPS, BPF_CGROUP_UDP4_RECVMSG, BPF_CGROUP_UDP4_SENDMSG, BPF_CGROUP_UDP6_RECVMSG,
    BPF_CGROUP_UDP6_SENDMSG,
};
use libbpf_rs::query::{LinkInfo, LinkInfoIter, LinkTypeInfo, PerfEventType};
use metrics_common::sections::Attachment;
use netto_analysis::netlink::{Link, Message, Request};
use netto_sys::btf;
use netto_sys::cgroups::{self, Handles};
use netto_sys::netlink::{RouteSocket, enter, foreign_namespace};
use netto_sys::programs::{self, attach_name, attached};
use netto_sys::system::{self, Roots};

/// Time between two searches: for a program that was not looked for yet, and otherwise; and at
/// least so many times what the last one took.
const NEW_NS: u64 = 1_000_000_000;
const EVERY_NS: u64 = 10_000_000_000;
const PAUSE: u64 = 20;
/// So many links that end while they are listed do not end the list.
const MOST_GONE: usize = 8;
/// So many control groups are asked for programs without a link, those nearest to the root.
const MOST_GROUPS: usize = 1_000;
/// The kernel itself, as the object of a function.
const VMLINUX: u32 = 1;

/// The places of each program that was looked for.
pub(crate) type Attachments = BTreeMap<u32, Vec<Attachment>>;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Search {
    roots: Roots,
    found: Attachments,
    running: Option<Receiver<(Attachments, u64)>>,
    /// Earliest times of the next search, CLOCK_MONOTONIC.
    new_from_ns: u64,
    from_ns: u64,
}

impl Search {
    pub(crate) fn new(roots: Roots) -> Self {
        Search {
            roots,
            found: Attachments::new(),
            running: None,
            new_from_ns: 0,
            from_ns: 0,
        }
    }

    /// The places known now; looks for those of these programs now and then. Never waits.
    pub(crate) fn poll(&mut self, now_ns: u64, programs: &[u32]) -> &Attachments {
        if let Some(running) = &self.running {
            let took_ns = match running.try_recv() {
                Ok((found, took_ns)) => {
                    self.found = found;
                    Some(took_ns)
                }
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(0),
            };
            if let Some(took_ns) = took_ns {
                self.running = None;
                self.new_from_ns = now_ns + NEW_NS.max(PAUSE * took_ns);
                self.from_ns = now_ns + EVERY_NS.max(PAUSE * took_ns);
            }
        }
        let is_new = programs.iter().any(|id| !self.found.contains_key(id));
        let from_ns = if is_new {
            self.new_from_ns
        } else {
            self.from_ns
        };
        if self.running.is_none() && !programs.is_empty() && now_ns >= from_ns {
            self.start(programs);
        }
        &self.found
    }

    fn start(&mut self, programs: &[u32]) {
        let before = |id: &u32| self.found.get(id).cloned().unwrap_or_default();
        let before: Attachments = programs.iter().map(|id| (*id, before(id))).collect();
        let roots = self.roots.clone();
        let (done, running) = channel();
        let thread = std::thread::Builder::new().name("attachments".to_owned());
        let started = thread.spawn(move || {
            let found = search(&roots, &before);
            // If the receiver is gone, the daemon ends.
            let _ = done.send((found, system::thread_cpu_ns()));
        });
        match started {
            Ok(_) => self.running = Some(running),
            Err(error) => tracing::debug!("cannot look where programs are attached: {error}"),
        }
    }
}

/// The host's interfaces; none if the kernel does not list them.
struct Interfaces {
    socket: Option<RouteSocket>,
    links: Vec<Link>,
}

impl Interfaces {
    fn read(roots: &Roots) -> Self {
        let read = || {
            // Only this thread enters it, and ends after the search.
            enter(foreign_namespace(roots).as_deref())?;
            let mut socket = RouteSocket::open()?;
            let links = socket.list(Request::Links, |message| match message {
                Message::Link(link) => Some(link),
                _ => None,
            })?;
            anyhow::Ok((socket, links))
        };
        match read().context("programs of interfaces are not known") {
            Ok((socket, links)) => Interfaces {
                socket: Some(socket),
                links,
            },
            Err(error) => {
                tracing::debug!("{error:#}");
                Interfaces {
                    socket: None,
                    links: Vec::new(),
                }
            }
        }
    }

    /// A link names its interface by a number of the interface's own network namespace.
    fn named(&self, index: u32, is_its: impl Fn(&Link) -> bool) -> String {
        let mut links = self.links.iter();
        match links.find(|link| link.index == index && is_its(link)) {
            Some(link) => name_of(link),
            None => format!("interface {index} of another network namespace"),
        }
    }

    /// The programs of traffic control's filters, by their interfaces.
    fn filters(&mut self) -> Vec<(u32, Attachment)> {
        let mut found = Vec::new();
        let Some(socket) = &mut self.socket else {
            return found;
        };
        for link in &self.links {
            for (are_egress, hook) in [(false, "tc_ingress"), (true, "tc_egress")] {
                let request = Request::Filters {
                    interface: link.index,
                    are_egress,
                };
                let programs = socket.list(request, |message| match message {
                    Message::Filter(program) => Some(program),
                    _ => None,
                });
                // An interface that is gone has no filters.
                let programs = programs.unwrap_or_default().into_iter();
                found.extend(programs.map(|program| (program, attachment(hook, name_of(link)))));
            }
        }
        found
    }
}

fn name_of(link: &Link) -> String {
    String::from_utf8_lossy(&link.name).into_owned()
}

fn attachment(hook: &str, target: impl Into<String>) -> Attachment {
    Attachment {
        hook: hook.to_owned(),
        target: target.into(),
    }
}

/// Looks for these programs, of which this was found before.
fn search(roots: &Roots, before: &Attachments) -> Attachments {
    let mut interfaces = Interfaces::read(roots);
    let mount = cgroups::mount(roots).ok().flatten();
    let handles = mount.as_deref().and_then(Handles::new);
    let group = |id: u64| {
        let path = handles.as_ref().zip(mount.as_deref());
        let path = path.and_then(|(handles, mount)| handles.path(id, mount));
        path.map_or(format!("number {id}"), |path| {
            String::from_utf8_lossy(&path).into_owned()
        })
    };
    let mut found: Attachments = before.keys().map(|id| (*id, Vec::new())).collect();
    let mut add = |program: u32, place: Attachment| {
        if let Some(places) = found.get_mut(&program) {
            places.push(place);
        }
    };
    for link in links().filter(|link| before.contains_key(&link.prog_id)) {
        let (program, known) = (link.prog_id, &before[&link.prog_id]);
        add(program, place_of(link, known, &interfaces, group));
    }
    for link in &interfaces.links {
        for program in &link.xdp_programs {
            add(*program, attachment("xdp", name_of(link)));
        }
    }
    if found.values().any(Vec::is_empty) {
        for (program, place) in interfaces.filters() {
            if let Some(places) = found.get_mut(&program) {
                places.push(place);
            }
        }
    }
    let unplaced = found.iter().filter(|(_, places)| places.is_empty());
    let kinds = unplaced.filter_map(|(id, _)| Some(programs::read(*id).ok()??.kind));
    let ways: BTreeSet<u32> = kinds.flat_map(ways).copied().collect();
    if let Some(mount) = mount.filter(|_| !ways.is_empty()) {
        for (program, place) in at_groups(&mount, &ways) {
            if let Some(places) = found.get_mut(&program) {
                places.push(place);
            }
        }
    }
    for places in found.values_mut() {
        places.sort_unstable();
        places.dedup();
    }
    found
}

/// The ways in which programs of a type are attached to control groups.
fn ways(kind: &str) -> &'static [u32] {
    match kind {
        "cgroup_skb" => &[BPF_CGROUP_INET_INGRESS, BPF_CGROUP_INET_EGRESS],
        "cgroup_sock" => &[
            BPF_CGROUP_INET_SOCK_CREATE,
            BPF_CGROUP_INET_SOCK_RELEASE,
            BPF_CGROUP_INET4_POST_BIND,
            BPF_CGROUP_INET6_POST_BIND,
        ],
        "cgroup_sock_addr" => &[
            BPF_CGROUP_INET4_BIND,
            BPF_CGROUP_INET6_BIND,
            BPF_CGROUP_INET4_CONNECT,
            BPF_CGROUP_INET6_CONNECT,
            BPF_CGROUP_UDP4_SENDMSG,
            BPF_CGROUP_UDP6_SENDMSG,
            BPF_CGROUP_UDP4_RECVMSG,
            BPF_CGROUP_UDP6_RECVMSG,
        ],
        "cgroup_sockopt" => &[BPF_CGROUP_GETSOCKOPT, BPF_CGROUP_SETSOCKOPT],
        "sock_ops" => &[BPF_CGROUP_SOCK_OPS],
        _ => &[],
    }
}

/// The programs that control groups have in these ways.
fn at_groups(mount: &Path, ways: &BTreeSet<u32>) -> Vec<(u32, Attachment)> {
    let mut waiting = VecDeque::from([mount.to_path_buf()]);
    let mut found = Vec::new();
    for _ in 0..MOST_GROUPS {
        let Some(folder) = waiting.pop_front() else {
            break;
        };
        // Groups that are gone have no programs.
        let Ok(group) = File::open(&folder) else {
            continue;
        };
        let path = folder.strip_prefix(mount).unwrap_or(&folder);
        for &way in ways {
            let programs = attached(group.as_raw_fd() as u32, way).into_iter();
            let place = || attachment(attach_name(way), format!("/{}", path.display()));
            found.extend(programs.map(|program| (program, place())));
        }
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        waiting.extend(below.map(|entry| entry.path()));
    }
    found
}

/// All links. The iterator ends at one that ends meanwhile, and goes on when it is asked again.
fn links() -> impl Iterator<Item = LinkInfo> {
    let mut all = LinkInfoIter::default();
    std::iter::from_fn(move || (0..MOST_GONE).find_map(|_| all.next()))
}

fn place_of(
    link: LinkInfo,
    known: &[Attachment],
    interfaces: &Interfaces,
    group: impl Fn(u64) -> String,
) -> Attachment {
    let program = link.prog_id;
    let at_interface = |index: u32, way: u32| {
        let is_its = |link: &Link| attached(link.index, way).contains(&program);
        attachment(attach_name(way), interfaces.named(index, is_its))
    };
    match link.info {
        LinkTypeInfo::Xdp(info) => {
            let is_its = |link: &Link| link.xdp_programs.contains(&program);
            attachment("xdp", interfaces.named(info.ifindex, is_its))
        }
        LinkTypeInfo::Tcx(info) => at_interface(info.ifindex, info.attach_type as u32),
        LinkTypeInfo::Netkit(info) => at_interface(info.ifindex, info.attach_type as u32),
        LinkTypeInfo::Cgroup(info) => {
            attachment(attach_name(info.attach_type as u32), group(info.cgroup_id))
        }
        LinkTypeInfo::RawTracepoint(info) => attachment("tracepoint", info.name),
        LinkTypeInfo::Tracing(info) => {
            let hook = attach_name(info.attach_type as u32);
            // Finding a function's name takes milliseconds.
            let before = known.iter().find(|before| before.hook == hook);
            match before {
                Some(before) => before.clone(),
                None if info.target_obj_id == VMLINUX => {
                    let function = btf::function(info.target_btf_id).ok().flatten();
                    attachment(hook, function.unwrap_or_default())
                }
                None => attachment(hook, ""),
            }
        }
        LinkTypeInfo::Netfilter(info) => {
            let family = match info.protocol_family {
                2 => "ipv4",
                10 => "ipv6",
                _ => "other",
            };
            let hooks = ["prerouting", "input", "forward", "output", "postrouting"];
            let hook = hooks.get(info.hooknum as usize).unwrap_or(&"other");
            attachment("netfilter", format!("{family} {hook}"))
        }
        LinkTypeInfo::NetNs(info) => attachment(
            attach_name(info.attach_type as u32),
            format!("network namespace {}", info.ino),
        ),
        LinkTypeInfo::PerfEvent(info) => match info.event_type {
            PerfEventType::Tracepoint { name, .. } => {
                attachment("tracepoint", text(name.as_deref()))
            }
            PerfEventType::Kprobe { func_name, .. } => {
                attachment("kprobe", text(func_name.as_deref()))
            }
            _ => attachment("perf_event", ""),
        },
        LinkTypeInfo::KprobeMulti(info) => {
            attachment("kprobe_multi", format!("{} functions", info.count))
        }
        LinkTypeInfo::StructOps(info) => attachment("struct_ops", format!("map {}", info.map_id)),
        LinkTypeInfo::SockMap(info) => attachment(
            attach_name(info.attach_type as u32),
            format!("map {}", info.map_id),
        ),
        _ => attachment("link", format!("number {}", link.id)),
    }
}

fn text(name: Option<&OsStr>) -> String {
    name.map_or(String::new(), |name| name.to_string_lossy().into_owned())
}
