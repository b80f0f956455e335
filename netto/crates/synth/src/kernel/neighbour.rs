//! The Ethernet address of a neighbour: the kernel asks for it (ARP, neighbour discovery) as soon as
//! there is a packet for it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use netto_analysis::netlink::{Message, Neighbour, Request};
use netto_sys::netlink::RouteSocket;
use socket2::SockRef;

use super::Interface;

/// The service that takes whatever comes (RFC 863).
const DISCARD: u16 = 9;
/// The kernel asks three times, a second apart.
const LONGEST: Duration = Duration::from_secs(4);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

impl Interface {
    /// Resolves the address of a host on this interface's network. An empty datagram to the host makes
    /// the kernel ask for it, unless it is known.
    ///
    /// # Errors
    /// The host is not on this network, or does not answer.
    pub fn ethernet_of(&self, host: IpAddr) -> anyhow::Result<[u8; 6]> {
        let mut kernel = RouteSocket::open()?;
        let begun = Instant::now();
        let mut is_asked = false;
        while begun.elapsed() < LONGEST {
            let known = kernel.list(Request::Neighbours, |message| match message {
                Message::Neighbour(neighbour) => self.address_of(host, neighbour),
                _ => None,
            })?;
            if let Some(address) = known.first() {
                return Ok(*address);
            }
            if !is_asked {
                self.ask(host).with_context(|| {
                    format!(
                        "cannot ask for the Ethernet address of {host}: does {} have an address in \
                         its network (`ip address`)? --to-mac gives it without asking",
                        self.name
                    )
                })?;
                is_asked = true;
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        bail!(
            "nobody at {} answers for {host}; give a neighbour, or its Ethernet address with --to-mac",
            self.name
        )
    }

    fn address_of(&self, host: IpAddr, neighbour: Neighbour) -> Option<[u8; 6]> {
        let is_it =
            i64::from(neighbour.interface) == i64::from(self.index) && neighbour.address == host;
        is_it.then_some(neighbour.ethernet)
    }

    fn ask(&self, host: IpAddr) -> io::Result<()> {
        let (source, to): (IpAddr, SocketAddr) = match host {
            IpAddr::V4(host) => (Ipv4Addr::UNSPECIFIED.into(), (host, DISCARD).into()),
            IpAddr::V6(host) => {
                // A link-local address is one of this interface.
                let scope = u32::try_from(self.index).unwrap_or(0);
                let to = SocketAddrV6::new(host, DISCARD, 0, scope);
                (Ipv6Addr::UNSPECIFIED.into(), to.into())
            }
        };
        let socket = UdpSocket::bind((source, 0))?;
        SockRef::from(&socket).bind_device(Some(self.name.as_bytes()))?;
        socket.send_to(&[], to).map(drop)
    }
}
