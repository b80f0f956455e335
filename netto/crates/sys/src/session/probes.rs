//! A program that can be attached and detached while netto runs, and doing so.
//!
//! Loading happens once, elsewhere. A program that is loaded and not attached costs nothing.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr;
use std::sync::{Arc, Weak};

use libbpf_rs::libbpf_sys::{BPF_CGROUP_INET_INGRESS, bpf_link_create, bpf_raw_tracepoint_open};
use libbpf_rs::{Link, Object};

use crate::held_link::{HeldLink, owned};
use netto_analysis::groups::Group;

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
    Trace { _link: OwnedFd },
    Cgroup { link: Arc<HeldLink> },
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

    /// One that the kernel refuses to attach.
    #[cfg(test)]
    pub(super) fn refused() -> io::Result<Probe> {
        Probe::new(File::open("/dev/null")?, None)
    }

    /// Detaches it, if it is attached.
    pub(super) fn detach(&mut self) {
        self.link = None;
    }

    /// Its link, if it is attached and others can take the program away.
    pub(super) fn held_link(&self) -> Option<Weak<HeldLink>> {
        match self.link.as_ref()? {
            Attachment::Cgroup { link } => Some(Arc::downgrade(link)),
            Attachment::Trace { .. } | Attachment::Libbpf { .. } => None,
        }
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
            Way::Trace => Attachment::Trace {
                _link: attach_trace(program)?,
            },
            Way::Cgroup(cgroup) => Attachment::Cgroup {
                link: Arc::new(attach_cgroup(program, cgroup)?),
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
    pub(super) probe: Probe,
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

    pub(super) fn of(group: Group, role: Role, probe: Probe) -> Self {
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
}

fn attach_trace(program: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is that of a loaded program, and no name is given: a
    // program of this type knows where it belongs.
    let fd = unsafe { bpf_raw_tracepoint_open(ptr::null(), program.as_raw_fd()) };
    owned(fd)
}

fn attach_cgroup(program: &OwnedFd, cgroup: &OwnedFd) -> io::Result<HeldLink> {
    let (program, cgroup) = (program.as_raw_fd(), cgroup.as_raw_fd());
    // SAFETY: the descriptors are those of a loaded program and of a directory, and no options are
    // given, which the function allows.
    let fd = unsafe { bpf_link_create(program, cgroup, BPF_CGROUP_INET_INGRESS, ptr::null()) };
    HeldLink::new(fd)
}

fn attach_kprobe(object: &Object, name: &str, function: &str, role: Role) -> io::Result<Link> {
    let program = object.progs_mut().find(|program| program.name() == name);
    let program = program.ok_or(io::ErrorKind::NotFound)?;
    let link = program.attach_kprobe(role == Role::End, function);
    link.map_err(io::Error::other)
}
