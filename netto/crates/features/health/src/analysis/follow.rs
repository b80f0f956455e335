//! What came since the last reading of connections and interfaces.

use std::collections::HashMap;

use metrics_common::sections::{LinkHealth, TcpHealth};
use netto_analysis::sock_diag::TcpSocket;

/// Connections whose counts are kept.
const MOST_KEPT: usize = 65_536;

/// Counts of an interface since it is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LinkReading {
    pub(crate) index: u32,
    /// Its counts are totals.
    pub(crate) health: LinkHealth,
}

/// Follows connections by their cookies, and interfaces by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    connections: HashMap<u64, (u64, u64)>,
    links: HashMap<u32, LinkHealth>,
}

impl Follower {
    /// What sockets say now; segments since the last reading. What a connection did before it was met
    /// is no interval's.
    pub(crate) fn tcp(&mut self, sockets: &[TcpSocket]) -> TcpHealth {
        let before = std::mem::take(&mut self.connections);
        let mut health = TcpHealth::default();
        let mut times_us = Vec::new();
        for socket in sockets {
            if socket.is_listening {
                let queue = (u64::from(socket.rx_queue), u64::from(socket.tx_queue));
                let filled = |(length, limit): (u64, u64)| length as f64 / limit.max(1) as f64;
                if health
                    .accept_queue
                    .is_none_or(|fullest| filled(queue) > filled(fullest))
                {
                    health.accept_queue = Some(queue);
                }
                continue;
            }
            if socket.is_local {
                continue;
            }
            health.connections += 1;
            times_us.extend(socket.rtt_us.filter(|rtt| *rtt > 0));
            let now = (socket.sent_segments, socket.retransmitted);
            if let Some(last) = before.get(&socket.cookie) {
                health.sent_segments += now.0.saturating_sub(last.0);
                health.retransmitted += now.1.saturating_sub(last.1);
            }
            if self.connections.len() < MOST_KEPT {
                self.connections.insert(socket.cookie, now);
            }
        }
        let middle = times_us.len() / 2;
        if !times_us.is_empty() {
            let (_, median, _) = times_us.select_nth_unstable(middle);
            health.rtt_ns = Some(u64::from(*median) * 1_000);
        }
        health
    }

    /// What interfaces did since the last reading.
    pub(crate) fn links(&mut self, now: &[LinkReading]) -> Vec<LinkHealth> {
        let before = std::mem::take(&mut self.links);
        let all = now.iter().map(|reading| {
            let health = reading.health.clone();
            self.links.insert(reading.index, health.clone());
            let last = before.get(&reading.index).unwrap_or(&health).clone();
            LinkHealth {
                tx_bytes: health.tx_bytes.saturating_sub(last.tx_bytes),
                dropped: health.dropped.saturating_sub(last.dropped),
                qdisc_dropped: health.qdisc_dropped.saturating_sub(last.qdisc_dropped),
                ..health
            }
        });
        all.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(cookie: u64, rtt_us: u32, sent: u64, again: u64) -> TcpSocket {
        TcpSocket {
            cookie,
            rtt_us: Some(rtt_us),
            sent_segments: sent,
            retransmitted: again,
            ..TcpSocket::default()
        }
    }

    #[test]
    fn round_trips_have_a_median_and_segments_are_since_the_last_reading() {
        let mut follower = Follower::default();
        let local = TcpSocket {
            is_local: true,
            rtt_us: Some(1),
            ..TcpSocket::default()
        };
        let first = [
            connection(1, 100, 50, 5),
            connection(2, 300, 9, 0),
            connection(3, 900, 1, 1),
            local,
        ];
        let tcp = follower.tcp(&first);
        assert_eq!((tcp.connections, tcp.rtt_ns), (3, Some(300_000)));
        assert_eq!((tcp.sent_segments, tcp.retransmitted), (0, 0));
        let tcp = follower.tcp(&[connection(1, 100, 60, 7), connection(4, 100, 1_000, 1_000)]);
        assert_eq!((tcp.sent_segments, tcp.retransmitted), (10, 2));
        assert_eq!(follower.tcp(&[]).rtt_ns, None);
    }

    #[test]
    fn of_accept_queues_the_fullest_is_told() {
        let queue = |rx_queue, tx_queue| TcpSocket {
            is_listening: true,
            rx_queue,
            tx_queue,
            ..TcpSocket::default()
        };
        let tcp = Follower::default().tcp(&[queue(0, 4_096), queue(3, 5), queue(9, 128)]);
        assert_eq!((tcp.accept_queue, tcp.connections), (Some((3, 5)), 0));
    }

    #[test]
    fn an_interface_that_is_new_has_done_nothing_yet() {
        let mut follower = Follower::default();
        let reading = |tx_bytes| LinkReading {
            index: 2,
            health: LinkHealth {
                tx_bytes,
                backlog_bytes: Some(7),
                ..LinkHealth::default()
            },
        };
        assert_eq!(follower.links(&[reading(100)])[0].tx_bytes, 0);
        let link = &follower.links(&[reading(130)])[0];
        assert_eq!((link.tx_bytes, link.backlog_bytes), (30, Some(7)));
    }
}
