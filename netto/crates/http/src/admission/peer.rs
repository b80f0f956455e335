//! Who a client is: a peer in its blocks of addresses, and its standing.

use std::net::{IpAddr, Ipv6Addr};

/// The smallest unit of fairness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Peer {
    /// A user of this host, whichever of its addresses is used.
    User(u32),
    /// An IPv4 address, or an IPv6 network, since an IPv6 host has many addresses.
    Network(u128),
}

/// From the widest block to the peer itself.
pub(super) const LEVELS: usize = 3;

impl Peer {
    /// Who is at this address; `user` is known of the host's own users only.
    pub fn new(address: IpAddr, user: Option<u32>) -> Peer {
        if let Some(user) = user {
            return Peer::User(user);
        }
        Peer::Network(match address.to_canonical() {
            // All of 127.0.0.0/8 is this host.
            address if address.is_loopback() => u128::from(Ipv6Addr::LOCALHOST),
            IpAddr::V4(address) => u128::from(address.to_ipv6_mapped()),
            IpAddr::V6(address) => u128::from(address) >> 64 << 64,
        })
    }

    /// The blocks that it is in. A user is a block.
    pub(super) fn blocks(self) -> [Peer; LEVELS] {
        match self {
            Peer::Network(bits) if !self.is_local() => {
                let is_v4 = bits >> 32 == 0xffff;
                let lengths = if is_v4 { [120, 120, 128] } else { [48, 56, 64] };
                lengths.map(|length: u32| Peer::Network(bits & (u128::MAX << (128 - length))))
            }
            _ => [self; LEVELS],
        }
    }

    /// Whether it is a user of this host, or one that the kernel does not name.
    pub(super) fn is_local(self) -> bool {
        let unnamed = Peer::Network(u128::from(Ipv6Addr::LOCALHOST));
        matches!(self, Peer::User(_)) || self == unnamed
    }
}

/// For whom some is kept, in the order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    Stranger,
    /// Was admitted before: got an answer, by the right password if there is one.
    Known,
    /// A user of this host.
    Local,
}
