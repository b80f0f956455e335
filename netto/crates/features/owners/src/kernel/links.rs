//! Interfaces of this process's network namespace: their names, and the namespace of each one's
//! peer. Requested from the kernel by netlink, one interface at a time.

use anyhow::Context;
use netto_analysis::netlink::{Link, Message, Request};
use netto_sys::netlink::RouteSocket;
use rustc_hash::{FxHashMap, FxHashSet};

use super::pace::Pace;
use super::processes::Processes;
use crate::analysis::recent::{Recent, is_old};

/// Most interfaces kept.
const MOST_LINKS: usize = 16_384;

/// Interfaces by index, and network namespaces by their number in ours (nsid).
#[derive(Debug)]
pub struct Links {
    socket: RouteSocket,
    links: Recent<u32, CachedLink>,
    namespaces: FxHashMap<i32, Inhabited>,
    /// Namespaces, by inode, whose numbers were requested since this search of processes.
    asked: FxHashSet<u64>,
    search: u64,
}

#[derive(Debug)]
struct CachedLink {
    link: Option<Link>,
    at_ns: u64,
}

/// A network namespace with a process in it.
#[derive(Debug, Clone, Copy)]
struct Inhabited {
    inode: u64,
    pid: u32,
    at_ns: u64,
}

/// The namespace of an interface's peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// There is no peer, or it is in our network namespace.
    Ours,
    /// In the network namespace of this inode.
    In(u64),
    /// In another one, without a known process.
    Unknown,
}

impl Links {
    /// Opens a netlink socket.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Links {
            socket: socket()?,
            links: Recent::new(MOST_LINKS, |_| 1),
            namespaces: FxHashMap::default(),
            asked: FxHashSet::default(),
            search: 0,
        })
    }

    /// The interface of this index; `None` if there is none.
    pub fn link(&mut self, index: u32, now_ns: u64) -> Option<&Link> {
        let known = self.links.get(index);
        if known.is_none_or(|known| is_old(known.at_ns, now_ns)) {
            let link = match self.ask(Request::Link(index)) {
                Some(Message::Link(link)) if link.index == index => Some(link),
                // Keep the old one: the interface may have been removed since packets used it.
                _ => self.links.get(index).and_then(|known| known.link.take()),
            };
            let at_ns = now_ns;
            self.links.insert(index, CachedLink { link, at_ns });
        }
        self.links.get(index)?.link.as_ref()
    }

    /// The namespace of this interface's peer.
    pub(super) fn peer(
        &mut self,
        index: u32,
        processes: &Processes,
        now_ns: u64,
        pace: &mut Pace,
    ) -> Peer {
        let Some(nsid) = self.link(index, now_ns).and_then(|link| link.peer_nsid) else {
            return Peer::Ours;
        };
        if let Some(known) = self.namespaces.get(&nsid).copied() {
            if !is_old(known.at_ns, now_ns) {
                return Peer::In(known.inode);
            }
            // The process may have ended, and its numbers been reused.
            if self.nsid(known.pid) == Some(nsid) && processes.is_in(known.pid, known.inode) {
                let at_ns = now_ns;
                self.namespaces.insert(nsid, Inhabited { at_ns, ..known });
                return Peer::In(known.inode);
            }
            self.namespaces.remove(&nsid);
        }
        if std::mem::replace(&mut self.search, processes.searches()) != processes.searches() {
            self.asked.clear();
        }
        for (inode, pid) in processes.namespaces() {
            if self.asked.insert(inode)
                && let Some(found) = self.nsid(pid)
            {
                let at_ns = now_ns;
                self.namespaces
                    .insert(found, Inhabited { inode, pid, at_ns });
            }
            pace.step();
        }
        let found = self.namespaces.get(&nsid);
        found.map_or(Peer::Unknown, |known| Peer::In(known.inode))
    }

    /// The nsid of a process's namespace in ours.
    fn nsid(&mut self, pid: u32) -> Option<i32> {
        match self.ask(Request::NamespaceOf(pid))? {
            Message::Namespace(nsid) => nsid,
            _ => None,
        }
    }

    /// The kernel's answer; after an error the next request uses a new socket.
    fn ask(&mut self, request: Request) -> Option<Message> {
        match self.socket.ask(request) {
            Ok(message) => Some(message),
            Err(error) => {
                tracing::debug!("interfaces have no names: {error:#}");
                if let Ok(socket) = socket() {
                    self.socket = socket;
                }
                None
            }
        }
    }
}

fn socket() -> anyhow::Result<RouteSocket> {
    RouteSocket::open().context("cannot open a netlink socket to query interfaces")
}

#[cfg(test)]
mod tests {
    use super::*;
    use netto_sys::system::testing::tree;

    /// Every network namespace has it, with this index.
    const LOOPBACK: u32 = 1;

    #[test]
    fn the_loopback_interface_has_its_name_and_no_other_end() {
        let mut links = Links::new().unwrap();
        assert_eq!(links.link(LOOPBACK, 1).unwrap().name, b"lo");
        let (_dir, roots) = tree(&[]);
        let processes = Processes::new(&roots);
        let peer = links.peer(LOOPBACK, &processes, 1, &mut Pace::new());
        assert_eq!(peer, Peer::Ours);
    }

    #[test]
    fn an_interface_that_nobody_has_is_none() {
        let mut links = Links::new().unwrap();
        assert_eq!(links.link(u32::MAX >> 1, 1), None);
        assert_eq!(links.link(0, 1), None);
        // The next answer belongs to the next request.
        assert_eq!(links.link(LOOPBACK, 1).unwrap().index, LOOPBACK);
    }
}
