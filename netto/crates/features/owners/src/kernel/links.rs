//! Interfaces of this process' network namespace: what they are called, and in which namespace the
//! other end of one is. Asked of the kernel by netlink, one interface at a time.
//!
//! An answer lies in the socket when the request has been sent, so that nothing is waited for.

use std::io::{self, Read};

use anyhow::Context;
use rustc_hash::{FxHashMap, FxHashSet};
use socket2::{Domain, Protocol, Socket, Type};

use super::processes::Processes;
use super::slice::Slice;
use crate::analysis::netlink::{self, Answer, Link};
use crate::analysis::recent::Recent;

/// So many interfaces are known.
const MOST_LINKS: usize = 16_384;
/// An interface, and a namespace's number, are believed for so long, nanoseconds.
const BELIEVED_NS: u64 = 10_000_000_000;
/// No answer is longer; that of a plain interface has some 800 bytes.
const MOST_BYTES: usize = 64 << 10;
/// Answers to earlier requests that are passed over.
const MOST_ANSWERS: usize = 8;

/// Interfaces by number, and network namespaces by the number that ours has for each.
#[derive(Debug)]
pub struct Links {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
    links: Recent<u32, Known>,
    namespaces: FxHashMap<i32, Inhabited>,
    /// Namespaces, by inode, whose numbers were asked for since processes were searched last, and
    /// whether these are all.
    asked: FxHashSet<u64>,
    is_all_asked: bool,
    search: u64,
}

#[derive(Debug)]
struct Known {
    link: Option<Link>,
    at_ns: u64,
}

/// A network namespace with somebody in it.
#[derive(Debug)]
struct Inhabited {
    inode: u64,
    pid: u32,
    at_ns: u64,
}

impl Links {
    /// Opens a socket of netlink's.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn new() -> anyhow::Result<Self> {
        let domain = Domain::from(libc::AF_NETLINK);
        let protocol = Protocol::from(libc::NETLINK_ROUTE);
        let socket = Socket::new(domain, Type::RAW, Some(protocol))
            .and_then(|socket| socket.set_nonblocking(true).map(|()| socket))
            .context("cannot open a socket of netlink's to ask for interfaces")?;
        Ok(Links {
            socket,
            sequence: 0,
            buffer: vec![0; MOST_BYTES],
            links: Recent::new(MOST_LINKS, |_| 1),
            namespaces: FxHashMap::default(),
            asked: FxHashSet::default(),
            is_all_asked: false,
            search: 0,
        })
    }

    /// The interface of this number; `None` if there is none.
    pub fn link(&mut self, index: u32, now_ns: u64) -> Option<&Link> {
        let known = self.links.get(index);
        if known.is_none_or(|known| is_old(known.at_ns, now_ns)) {
            let answer = self.ask(|sequence| netlink::link_request(index, sequence));
            let link = match answer {
                Ok(Answer::Link(link)) if link.index == index => Some(link),
                // What was is better than nothing: it may have gone since packets went there.
                _ => self.links.get(index).and_then(|known| known.link.take()),
            };
            let at_ns = now_ns;
            self.links.insert(index, Known { link, at_ns });
        }
        self.links.get(index)?.link.as_ref()
    }

    /// Inode of the network namespace in which the other end of this interface is. `None` if it
    /// is in ours or has none, or nobody is known who is in there: then it is looked for among
    /// the processes, and may be known later.
    pub fn peer_namespace(
        &mut self,
        index: u32,
        processes: &mut Processes,
        now_ns: u64,
        slice: &mut Slice,
    ) -> Option<u64> {
        let nsid = self.link(index, now_ns)?.peer_nsid?;
        if let Some(known) = self.namespaces.get(&nsid) {
            let (inode, pid, at_ns) = (known.inode, known.pid, known.at_ns);
            if !is_old(at_ns, now_ns) {
                return Some(inode);
            }
            // It may have ended, and its numbers be another's by now.
            if self.nsid(pid) == Some(nsid) && processes.is_in(pid, inode) {
                self.namespaces.insert(
                    nsid,
                    Inhabited {
                        inode,
                        pid,
                        at_ns: now_ns,
                    },
                );
                return Some(inode);
            }
            self.namespaces.remove(&nsid);
            processes.want_namespaces();
        }
        if self.search != processes.searches_of_all() {
            self.search = processes.searches_of_all();
            self.asked.clear();
            self.is_all_asked = false;
        }
        if !self.is_all_asked {
            for (inode, pid) in processes.namespaces() {
                if !slice.goes_on() {
                    return None;
                }
                if self.asked.insert(inode)
                    && let Some(found) = self.nsid(pid)
                {
                    let at_ns = now_ns;
                    self.namespaces
                        .insert(found, Inhabited { inode, pid, at_ns });
                }
            }
            self.is_all_asked = true;
        }
        let found = self
            .namespaces
            .get(&nsid)
            .filter(|known| !is_old(known.at_ns, now_ns));
        if found.is_none() {
            processes.want_namespaces();
        }
        found.map(|known| known.inode)
    }

    /// Number that our namespace has for a process'.
    fn nsid(&mut self, pid: u32) -> Option<i32> {
        match self.ask(|sequence| netlink::nsid_request(pid, sequence)) {
            Ok(Answer::Nsid(nsid)) => nsid,
            _ => None,
        }
    }

    fn ask(&mut self, request: impl FnOnce(u32) -> Vec<u8>) -> io::Result<Answer> {
        self.sequence = self.sequence.wrapping_add(1);
        self.socket.send(&request(self.sequence))?;
        for _ in 0..MOST_ANSWERS {
            let length = self.socket.read(&mut self.buffer)?;
            let received = self.buffer.get(..length).unwrap_or_default();
            if let Some(answer) = netlink::answer(received, self.sequence) {
                return Ok(answer);
            }
        }
        Err(io::ErrorKind::InvalidData.into())
    }
}

fn is_old(at_ns: u64, now_ns: u64) -> bool {
    now_ns.saturating_sub(at_ns) >= BELIEVED_NS
}

#[cfg(test)]
mod tests {
    use super::*;
    use netto_sys::system::testing::tree;

    /// Every network namespace has it, with this number.
    const LOOPBACK: u32 = 1;

    #[test]
    fn the_loopback_interface_has_its_name_and_no_other_end() {
        let mut links = Links::new().unwrap();
        assert_eq!(links.link(LOOPBACK, 1).unwrap().name, "lo");
        let (_dir, roots) = tree(&[]);
        let mut processes = Processes::new(&roots);
        let slice = &mut Slice::endless();
        assert_eq!(
            links.peer_namespace(LOOPBACK, &mut processes, 1, slice),
            None
        );
    }

    #[test]
    fn an_interface_that_nobody_has_is_none() {
        let mut links = Links::new().unwrap();
        assert_eq!(links.link(u32::MAX >> 1, 1), None);
        assert_eq!(links.link(0, 1), None);
        // And the next answer is that to the next request.
        assert_eq!(links.link(LOOPBACK, 1).unwrap().index, LOOPBACK);
    }
}
