//! Connections and interfaces of the host's network namespace: by sock_diag and rtnetlink.
//!
//! The kernel may take its time: this is for a thread that only reads.

use anyhow::Context;
use metrics_common::sections::{LinkHealth, MOST_OF_HEALTH, MissingFigure};
use netto_analysis::netlink::{Link, Message, Qdisc, Request};
use netto_analysis::sock_diag::TcpSocket;
use netto_sys::files::read_number;
use netto_sys::netlink::{RouteSocket, enter, foreign_namespace};
use netto_sys::sock_diag::tcp_sockets;
use netto_sys::system::Roots;

use crate::analysis::follow::LinkReading;

/// Time between two readings.
pub(crate) const EVERY_NS: u64 = 1_000_000_000;
/// Most sockets of each family that are looked at.
const MOST_SOCKETS: usize = 32_768;

/// What was read at once.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) sockets: Option<Vec<TcpSocket>>,
    pub(crate) links: Vec<LinkReading>,
    pub(crate) missing: Vec<MissingFigure>,
}

/// Reads all of it now, on a thread of its own.
pub(crate) fn read(roots: &Roots) -> Reading {
    let mut reading = Reading::default();
    let mut lack = |figure: &str, error: &anyhow::Error| {
        reading.missing.push(MissingFigure {
            figure: figure.to_owned(),
            reason: format!("{error:#}"),
        });
    };
    if let Err(error) = enter(foreign_namespace(roots).as_deref()) {
        lack("tcp", &error);
        lack("links", &error);
        return reading;
    }
    let sockets = tcp_sockets(MOST_SOCKETS)
        .inspect_err(|error| lack("tcp", error))
        .ok();
    let links = links(roots)
        .inspect_err(|error| lack("links", error))
        .unwrap_or_default();
    Reading {
        sockets,
        links,
        ..reading
    }
}

/// Interfaces that are up: those that have sent most, without loopback.
fn links(roots: &Roots) -> anyhow::Result<Vec<LinkReading>> {
    let mut socket = RouteSocket::open()?;
    let mut links = socket.list(Request::Links, |message| match message {
        Message::Link(link) if !link.is_loopback => Some(link),
        _ => None,
    })?;
    links.sort_by_key(|link| std::cmp::Reverse(link.counts.tx_bytes));
    links.truncate(MOST_OF_HEALTH);
    let qdiscs = socket
        .list(Request::Qdiscs, |message| match message {
            Message::Qdisc(qdisc) => Some(qdisc),
            _ => None,
        })
        .context("queueing disciplines")?;
    let qdisc_of = |link: &Link| qdiscs.iter().find(|qdisc| qdisc.interface == link.index);
    Ok(links
        .iter()
        .map(|link| reading(roots, link, qdisc_of(link)))
        .collect())
}

fn reading(roots: &Roots, link: &Link, qdisc: Option<&Qdisc>) -> LinkReading {
    let name = String::from_utf8_lossy(&link.name).into_owned();
    let speed = roots.sys_root.join("class/net").join(&name).join("speed");
    // What a virtual device says of its speed is made up; one that does not know says -1.
    let megabits = link.kind.is_none().then(|| read_number(&speed).ok());
    let counts = &link.counts;
    let dropped = [counts.rx_dropped, counts.rx_missed, counts.tx_dropped];
    LinkReading {
        index: link.index,
        health: LinkHealth {
            name,
            bits_per_second: megabits
                .flatten()
                .filter(|megabits| (1..10_000_000).contains(megabits))
                .map(|megabits| megabits * 1_000_000),
            tx_bytes: counts.tx_bytes,
            dropped: dropped
                .iter()
                .fold(0, |sum, count| sum.saturating_add(*count)),
            backlog_bytes: qdisc.map(|qdisc| qdisc.backlog_bytes.into()),
            qdisc_dropped: qdisc.map_or(0, |qdisc| qdisc.dropped.into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_sockets_or_says_why_it_tells_of_none() {
        let roots = Roots {
            proc_root: "/proc".into(),
            sys_root: "/sys".into(),
        };
        let reading = std::thread::spawn(move || read(&roots)).join().unwrap();
        let lacks_tcp = reading
            .missing
            .iter()
            .any(|missing| missing.figure == "tcp");
        assert_ne!(reading.sockets.is_some(), lacks_tcp, "{reading:?}");
        assert!(reading.links.iter().all(|link| link.health.name != "lo"));
    }
}
