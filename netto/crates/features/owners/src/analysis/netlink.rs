//! The messages of netlink that ask for an interface and for the number of a network namespace,
//! and what the answers say (rtnetlink(7); `rtnl_fill_ifinfo` and `rtnl_net_fill` in the kernel).
//!
//! Only layouts are known here; who sends and receives is `kernel/links.rs`.

use super::path::shown;

const HEADER_BYTES: usize = 16;
/// `struct ifinfomsg`.
const LINK_BYTES: usize = 16;
/// `struct rtgenmsg`, padded.
const GENERAL_BYTES: usize = 4;

const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWNSID: u16 = 88;
const RTM_GETNSID: u16 = 90;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINK: u16 = 5;
const IFLA_LINKINFO: u16 = 18;
const IFLA_EXT_MASK: u16 = 29;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_INFO_KIND: u16 = 1;
const RTEXT_FILTER_SKIP_STATS: u32 = 1 << 3;
const NETNSA_NSID: u16 = 1;
const NETNSA_PID: u16 = 2;
/// The upper bits of a type say how the value is written.
const NLA_TYPE: u16 = 0x3fff;

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its number in its network namespace.
    pub index: u32,
    /// Its name, as [`shown`] does.
    pub name: String,
    /// `veth`, `bridge`, `vlan`…; empty of hardware.
    pub kind: String,
    /// Number, in its own namespace, of the interface that this one is joined to: a veth's other
    /// end, a VLAN's interface. 0 if there is none.
    pub peer: u32,
    /// Number that the namespace of this interface has for the one where `peer` is; `None` if they
    /// are the same.
    pub peer_nsid: Option<i32>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The interface that was asked for.
    Link(Link),
    /// The number of the namespace that was asked for; `None` if it has none.
    Nsid(Option<i32>),
    /// The kernel refused, with this number of an error.
    Refused(i32),
}

/// Asks for the interface of this number.
pub fn link_request(index: u32, sequence: u32) -> Vec<u8> {
    let mut body = vec![0; LINK_BYTES];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    push_attribute(&mut body, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
    request(RTM_GETLINK, sequence, &body)
}

/// Asks for the number that our namespace has for that of a process.
pub fn nsid_request(pid: u32, sequence: u32) -> Vec<u8> {
    let mut body = vec![0; GENERAL_BYTES];
    push_attribute(&mut body, NETNSA_PID, pid);
    request(RTM_GETNSID, sequence, &body)
}

fn request(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
    message.extend(((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    message.extend(0_u32.to_ne_bytes());
    message.extend(body);
    message
}

fn push_attribute(body: &mut Vec<u8>, kind: u16, value: u32) {
    body.extend(8_u16.to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value.to_ne_bytes());
}

/// The answer to the request of this sequence number among what was received at once; `None` if
/// it is not there, or is none that is known.
pub fn answer(received: &[u8], sequence: u32) -> Option<Answer> {
    let mut rest = received;
    loop {
        let length = number(rest)? as usize;
        let message = rest.get(..length)?;
        let (header, body) = message.split_at_checked(HEADER_BYTES)?;
        if number(&header[8..]) == Some(sequence) {
            return match u16::from_ne_bytes([header[4], header[5]]) {
                NLMSG_ERROR => Some(Answer::Refused(number(body)? as i32)),
                RTM_NEWLINK => Some(Answer::Link(link(body)?)),
                RTM_NEWNSID => Some(Answer::Nsid(nsid(body)?)),
                _ => None,
            };
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

fn link(body: &[u8]) -> Option<Link> {
    let (fixed, attributes) = body.split_at_checked(LINK_BYTES)?;
    let mut link = Link {
        index: number(&fixed[4..])?,
        name: String::new(),
        kind: String::new(),
        peer: 0,
        peer_nsid: None,
    };
    for (kind, value) in Attributes(attributes) {
        match kind {
            IFLA_IFNAME => link.name = name(value),
            IFLA_LINK => link.peer = number(value)?,
            IFLA_LINK_NETNSID => link.peer_nsid = assigned(number(value)?),
            IFLA_LINKINFO => {
                let kind = Attributes(value).find(|(kind, _)| *kind == IFLA_INFO_KIND);
                link.kind = kind.map(|(_, value)| name(value)).unwrap_or_default();
            }
            _ => {}
        }
    }
    Some(link)
}

fn nsid(body: &[u8]) -> Option<Option<i32>> {
    let attributes = Attributes(body.get(GENERAL_BYTES..)?);
    let (_, value) = attributes
        .into_iter()
        .find(|(kind, _)| *kind == NETNSA_NSID)?;
    number(value).map(assigned)
}

/// A namespace without a number is said to have −1.
fn assigned(nsid: u32) -> Option<i32> {
    i32::try_from(nsid).ok()
}

/// A text that a zero ends.
fn name(value: &[u8]) -> String {
    shown(value.split(|byte| *byte == 0).next().unwrap_or_default())
}

/// The number that these bytes begin with.
fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// Types and values, one after the other, as far as they are whole.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let [a, b, c, d] = *self.0.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([c, d]) & NLA_TYPE, value))
    }
}

#[cfg(test)]
mod tests;
