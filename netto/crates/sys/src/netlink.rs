//! An rtnetlink socket: requests interfaces and ids of network namespaces from the kernel.
//!
//! The kernel answers under the lock of all network configuration (RTNL), which other processes may
//! hold for seconds: call this only on a thread that may block.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use netto_analysis::netlink::{Message, Request, messages};
use nix::sched::{CloneFlags, setns};
use socket2::{Domain, Protocol, Socket, Type};

use super::files;
use super::system::Roots;

/// Largest datagram; those of the kernel have at most 32 KiB.
const DATAGRAM_BYTES: usize = 64 << 10;
/// Timeout of an answer.
const LONGEST: Duration = Duration::from_secs(10);
/// Most datagrams of an answer.
const MOST_DATAGRAMS: usize = 10_000;
/// Most attempts for a list that changes during its dump.
const MOST_DUMPS: usize = 4;

/// Sends requests and reads answers, on a socket of the network namespace of the thread that opened
/// it. After an error, the next answer may belong to an earlier request: the socket is reopened.
#[derive(Debug)]
pub struct RouteSocket<S = Socket> {
    socket: S,
    sequence: u32,
    buffer: Vec<u8>,
}

impl RouteSocket {
    /// Opens it.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn open() -> anyhow::Result<Self> {
        let socket = open().context("the kernel refuses a netlink socket")?;
        socket.set_read_timeout(Some(LONGEST))?;
        Ok(RouteSocket::over(socket))
    }
}

impl<S: Read + Write> RouteSocket<S> {
    fn over(socket: S) -> Self {
        RouteSocket {
            socket,
            sequence: 0,
            buffer: vec![0; DATAGRAM_BYTES],
        }
    }

    /// The single message that answers a request.
    ///
    /// # Errors
    /// If there is no answer, or it is damaged.
    pub fn ask(&mut self, request: Request) -> anyhow::Result<Message> {
        let mut answer = None;
        self.exchange(request, |message| {
            answer = Some(message);
            true
        })?;
        answer.context("the kernel does not answer about its interfaces")
    }

    /// Lists all entries. A list that changed during its dump may lack existing entries, and is
    /// requested again.
    ///
    /// # Errors
    /// If the kernel refuses, the list is damaged, or it changes during every attempt.
    pub fn list<T>(
        &mut self,
        request: Request,
        taken: impl Fn(Message) -> Option<T>,
    ) -> anyhow::Result<Vec<T>> {
        for _ in 0..MOST_DUMPS {
            let (mut list, mut refusal) = (Vec::new(), None);
            let is_interrupted = self.exchange(request, |message| match message {
                Message::Done => true,
                Message::Refused(number) => {
                    refusal = Some(number);
                    true
                }
                message => {
                    list.extend(taken(message));
                    false
                }
            })?;
            if let Some(number) = refusal {
                bail!("the kernel refuses to list its interfaces (error {number})");
            }
            if !is_interrupted {
                return Ok(list);
            }
        }
        bail!("interfaces change faster than the kernel can list them")
    }

    /// Sends a request and calls `hand_over` with the messages that answer it, until `is_last`.
    /// Returns whether any of them was interrupted.
    fn exchange(
        &mut self,
        request: Request,
        mut is_last: impl FnMut(Message) -> bool,
    ) -> anyhow::Result<bool> {
        self.sequence = self.sequence.wrapping_add(1);
        self.socket
            .write_all(&request.encode(self.sequence))
            .context("cannot ask the kernel for its interfaces")?;
        let mut is_interrupted = false;
        for _ in 0..MOST_DATAGRAMS {
            let length = self
                .socket
                .read(&mut self.buffer)
                .context("the kernel does not answer about its interfaces")?;
            for received in messages(&self.buffer[..length]) {
                let received = received.context("the kernel")?;
                if received.sequence != self.sequence {
                    continue;
                }
                is_interrupted |= received.is_interrupted;
                if is_last(received.message) {
                    return Ok(is_interrupted);
                }
            }
        }
        bail!("the kernel's answer about interfaces does not end")
    }
}

/// The host's network namespace, if this process is in another one. Without permission to compare,
/// they are taken to be the same.
pub fn foreign_namespace(roots: &Roots) -> Option<PathBuf> {
    let of_init = roots.proc_root.join("1/ns/net");
    let identity = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let own_namespace = identity(Path::new("/proc/self/ns/net"));
    match (identity(&of_init), own_namespace) {
        (Some(host), Some(own_namespace)) if host != own_namespace => Some(of_init),
        _ => None,
    }
}

/// Moves this thread into a network namespace, if one is given.
///
/// # Errors
/// If that is not allowed.
pub fn enter(namespace: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = namespace else {
        return Ok(());
    };
    let file = files::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    setns(file, CloneFlags::CLONE_NEWNET).context(
        "cannot enter the host's network namespace; run netto there, or with CAP_SYS_ADMIN",
    )
}

/// Reports when interfaces are added, removed or renamed.
#[derive(Debug)]
pub struct LinkChanges(Socket);

impl LinkChanges {
    /// Starts watching, in the network namespace of this thread.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn watch() -> io::Result<Self> {
        let socket = open()?;
        socket.set_nonblocking(true)?;
        // SAFETY: all zero bytes are a valid value of this structure of numbers.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = libc::RTMGRP_LINK as u32;
        // SAFETY: the kernel reads the given length of `address`, which is its size; the socket is
        // open.
        let bound = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of_val(&address) as libc::socklen_t,
            )
        };
        match bound {
            0 => Ok(LinkChanges(socket)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Whether there was a change since the last call. An overflow of the socket (`ENOBUFS`) counts
    /// as a change.
    pub fn any(&mut self) -> bool {
        let mut any = false;
        loop {
            // Changed links are listed again, so one byte of the message is enough.
            match self.0.read(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return any,
                Err(error) if error.raw_os_error() != Some(libc::ENOBUFS) => return true,
                _ => any = true,
            }
        }
    }
}

fn open() -> io::Result<Socket> {
    let domain = Domain::from(libc::AF_NETLINK);
    let protocol = Protocol::from(libc::NETLINK_ROUTE);
    Socket::new(domain, Type::RAW, Some(protocol))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use netto_analysis::netlink::Link;

    use super::*;

    /// A kernel that gives these answers, one per request.
    struct Kernel {
        answers: VecDeque<Vec<(u16, u16, Vec<u8>)>>,
        waiting: VecDeque<Vec<u8>>,
        asked: usize,
    }

    impl Write for Kernel {
        fn write(&mut self, request: &[u8]) -> io::Result<usize> {
            self.asked += 1;
            let sequence = &request[8..12];
            for (kind, flags, body) in self.answers.pop_front().unwrap_or_default() {
                let mut message = (16 + body.len() as u32).to_ne_bytes().to_vec();
                message.extend(kind.to_ne_bytes());
                message.extend(flags.to_ne_bytes());
                message.extend(sequence);
                message.extend([0; 4]);
                message.extend(body);
                self.waiting.push_back(message);
            }
            Ok(request.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Read for Kernel {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let message = self.waiting.pop_front().ok_or(ErrorKind::WouldBlock)?;
            buffer[..message.len()].copy_from_slice(&message);
            Ok(message.len())
        }
    }

    const DONE: u16 = 3;
    const NEW_STATS: u16 = 92;
    const MULTI: u16 = 2;
    const INTERRUPTED: u16 = 0x10;

    /// A list of one interface, which may have changed during its dump.
    fn list(index: u32, is_interrupted: bool) -> Vec<(u16, u16, Vec<u8>)> {
        let flags = MULTI | if is_interrupted { INTERRUPTED } else { 0 };
        let mut counts = vec![0; 12];
        counts[4..8].copy_from_slice(&index.to_ne_bytes());
        counts.extend((4 + 8 * 24_u16).to_ne_bytes());
        counts.extend(1_u16.to_ne_bytes());
        counts.extend([0; 8 * 24]);
        vec![(NEW_STATS, MULTI, counts), (DONE, flags, vec![0; 4])]
    }

    fn indices(answers: Vec<Vec<(u16, u16, Vec<u8>)>>) -> (anyhow::Result<Vec<u32>>, usize) {
        let mut socket = RouteSocket::over(Kernel {
            answers: answers.into(),
            waiting: VecDeque::new(),
            asked: 0,
        });
        let listed = socket.list(Request::Counts, |message| match message {
            Message::Counts(index, _) => Some(index),
            _ => None,
        });
        (listed, socket.socket.asked)
    }

    #[test]
    fn a_list_that_changed_while_it_was_made_is_made_anew() {
        let (listed, asked) = indices(vec![list(1, true), list(2, false)]);
        assert_eq!((listed.unwrap(), asked), (vec![2], 2));
        let (listed, asked) = indices((0..9).map(|index| list(index, true)).collect());
        assert_eq!(asked, MOST_DUMPS);
        assert!(format!("{:#}", listed.unwrap_err()).contains("faster"));
    }

    #[test]
    fn a_refusal_and_silence_are_errors() {
        let (listed, _) = indices(vec![vec![(2, 0, (-1_i32).to_ne_bytes().to_vec())]]);
        assert!(format!("{:#}", listed.unwrap_err()).contains("(error 1)"));
        let (listed, _) = indices(Vec::new());
        assert!(format!("{:#}", listed.unwrap_err()).contains("does not answer"));
    }

    #[test]
    fn the_kernel_knows_loopback_and_counts_of_all_that_it_lists() {
        let mut socket = RouteSocket::open().unwrap();
        let link = |message| match message {
            Message::Link(link) => Some(link),
            _ => None,
        };
        let links: Vec<Link> = socket.list(Request::Links, link).unwrap();
        let loopback = links.iter().find(|link| link.is_loopback).unwrap();
        assert_eq!(loopback.name, b"lo");
        let counts = |message| match message {
            Message::Counts(index, counts) => Some((index, counts)),
            _ => None,
        };
        let counted = socket.list(Request::Counts, counts).unwrap();
        let (_, counts) = counted
            .iter()
            .find(|link| link.0 == loopback.index)
            .unwrap();
        assert!(counts.since(&loopback.counts).is_some(), "{counts:?}");
        let asked = socket.ask(Request::Link(loopback.index)).unwrap();
        assert!(matches!(asked, Message::Link(link) if link.name == b"lo"));
        let nobody = socket.ask(Request::Link(u32::MAX >> 1)).unwrap();
        assert!(matches!(nobody, Message::Refused(_)), "{nobody:?}");
        let answer = socket.ask(Request::NamespaceOf(std::process::id()));
        assert!(matches!(answer, Ok(Message::Namespace(_))), "{answer:?}");
        assert!(!LinkChanges::watch().unwrap().any());
    }
}
