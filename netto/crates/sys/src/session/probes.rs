//! The programs that can be attached and detached while netto runs, and doing so.
//!
//! Loading happens once, elsewhere. A program that is loaded and not attached costs nothing.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use libbpf_rs::libbpf_sys::{BPF_CGROUP_INET_INGRESS, bpf_link_create, bpf_raw_tracepoint_open};
use libbpf_rs::{Link, Object};

use netto_analysis::groups::{Group, GroupSet};

/// Where in what it times a program stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It begins a kind.
    Begin,
    /// It ends one: useless, but harmless without the beginning.
    End,
}

/// By which means a program is attached.
#[derive(Debug)]
pub(crate) enum Way {
    /// The program says itself where it belongs: BTF tracepoints, fentry, fexit.
    Trace,
    /// At packets that come in for sockets of this control group.
    Cgroup(OwnedFd),
    /// A kprobe or kretprobe on a function, by this program of an object that is never unloaded.
    Kprobe {
        object: &'static Object,
        program: &'static str,
        function: &'static str,
    },
}

/// A program that is loaded, and whether it is attached. Dropping it detaches the program.
#[derive(Debug)]
pub struct Probe {
    program: OwnedFd,
    way: Way,
    link: Option<Attachment>,
}

#[derive(Debug)]
enum Attachment {
    Descriptor { _link: OwnedFd },
    Libbpf { _link: Link },
}

impl Probe {
    /// A program at a BTF tracepoint or function, or at packets of a control group, not yet attached.
    /// Its object may be dropped.
    ///
    /// # Errors
    /// The process can have no more descriptors.
    pub fn new(program: impl AsFd, cgroup: Option<&File>) -> io::Result<Probe> {
        Ok(Probe {
            program: program.as_fd().try_clone_to_owned()?,
            way: match cgroup {
                Some(cgroup) => Way::Cgroup(cgroup.try_clone()?.into()),
                None => Way::Trace,
            },
            link: None,
        })
    }

    /// Attaches it, if it is not.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn attach(&mut self) -> io::Result<()> {
        self.attach_as(Role::Begin)
    }

    fn attach_as(&mut self, role: Role) -> io::Result<()> {
        if self.link.is_some() {
            return Ok(());
        }
        let program = &self.program;
        self.link = Some(match &self.way {
            Way::Trace => Attachment::Descriptor {
                _link: attach_trace(program)?,
            },
            Way::Cgroup(cgroup) => Attachment::Descriptor {
                _link: attach_cgroup(program, cgroup)?,
            },
            Way::Kprobe {
                object,
                program,
                function,
            } => Attachment::Libbpf {
                _link: attach_kprobe(object, program, function, role)?,
            },
        });
        Ok(())
    }
}

/// A probe of a group.
pub(crate) struct Member {
    pub(crate) group: Group,
    pub(crate) role: Role,
    /// Whether it tells interrupts from what they interrupt, which other devices' cause as well.
    pub(crate) is_of_interrupts: bool,
    probe: Probe,
}

impl Member {
    /// A program that is loaded and not attached.
    pub(crate) fn new(group: Group, role: Role, way: Way, program: OwnedFd) -> Self {
        let probe = Probe {
            program,
            way,
            link: None,
        };
        Member::of(group, role, probe)
    }

    fn of(group: Group, role: Role, probe: Probe) -> Self {
        Member {
            group,
            role,
            is_of_interrupts: false,
            probe,
        }
    }

    pub(crate) fn program(&self) -> &OwnedFd {
        &self.probe.program
    }

    /// Attaches it, if it is not.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn attach(&mut self) -> io::Result<()> {
        self.probe.attach_as(self.role)
    }

    /// Detaches it, if it is attached.
    fn detach(&mut self) {
        self.probe.link = None;
    }
}

fn attach_trace(program: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is that of a loaded program, and no name is given: a
    // program of this type knows where it belongs.
    let fd = unsafe { bpf_raw_tracepoint_open(ptr::null(), program.as_raw_fd()) };
    owned(fd)
}

fn attach_cgroup(program: &OwnedFd, cgroup: &OwnedFd) -> io::Result<OwnedFd> {
    let (program, cgroup) = (program.as_raw_fd(), cgroup.as_raw_fd());
    // SAFETY: the descriptors are those of a loaded program and of a directory, and no options are
    // given, which the function allows.
    let fd = unsafe { bpf_link_create(program, cgroup, BPF_CGROUP_INET_INGRESS, ptr::null()) };
    owned(fd)
}

/// The descriptor that a function of libbpf has just returned, or the error that it encodes.
fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn attach_kprobe(object: &Object, name: &str, function: &str, role: Role) -> io::Result<Link> {
    let program = object.progs_mut().find(|program| program.name() == name);
    let program = program.ok_or(io::ErrorKind::NotFound)?;
    let link = program.attach_kprobe(role == Role::End, function);
    link.map_err(io::Error::other)
}

impl std::fmt::Debug for ProbeSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProbeSet")
            .field("probes", &self.probes.len())
            .finish_non_exhaustive()
    }
}

/// All programs of a session that can come and go.
#[derive(Default)]
pub(crate) struct ProbeSet {
    /// Kprobes look whether their return is waited for, and so must come before the kretprobes.
    pub(crate) begins_come_first: bool,
    pub(crate) probes: Vec<Member>,
}

impl ProbeSet {
    /// Attaches every program of these groups: what ends a kind before what begins it, for a
    /// beginning without an end would charge its task for ever.
    ///
    /// # Errors
    /// The kernel's refusal; programs of the group that were attached before it stay.
    pub(crate) fn attach(&mut self, groups: GroupSet) -> io::Result<()> {
        let [first, then] = if self.begins_come_first {
            [Role::Begin, Role::End]
        } else {
            [Role::End, Role::Begin]
        };
        for role in [first, then] {
            for probe in self.of(groups, role) {
                probe.attach()?;
            }
        }
        Ok(())
    }

    /// Takes over a feature's probes.
    pub(crate) fn add(&mut self, group: Group, probes: Vec<Probe>) {
        let members = probes.into_iter();
        self.probes
            .extend(members.map(|probe| Member::of(group, Role::Begin, probe)));
    }

    /// Drops the probes of a group, which detaches them.
    pub(crate) fn remove(&mut self, group: Group) {
        self.probes.retain(|probe| probe.group != group);
    }

    /// Detaches what begins a kind, or what ends it.
    pub(crate) fn detach(&mut self, groups: GroupSet, role: Role) {
        self.of(groups, role).for_each(Member::detach);
    }

    fn of(&mut self, groups: GroupSet, role: Role) -> impl Iterator<Item = &mut Member> {
        let probes = self.probes.iter_mut();
        probes.filter(move |probe| groups.has(probe.group) && probe.role == role)
    }
}
