//! The cost of latencies: instructions of each program per packet, for all packets and with
//! sampling.

use std::time::Duration;

use anyhow::Result;

use super::programs::{All, during, one};
use super::{Options, end, forced};
use crate::kernels::Statistics;
use crate::lab::Network;
use crate::traffic;

/// Long enough for some thousands of packets.
const LENGTH: Duration = Duration::from_secs(1);
/// Programs by their points. Names end before a number, as those of IPv4 do.
const DATAGRAMS: [(&str, &str); 4] = [
    ("ip_start", "netto_ip_v"),
    ("udp_start", "netto_udp_v"),
    ("udp_enqueued", "netto_udp_enqueued"),
    ("udp_read", "netto_udp_read"),
];
const SEGMENTS: [(&str, &str); 3] = [
    ("tcp_start", "netto_tcp_v"),
    ("tcp_enqueued", "netto_tcp_enqueued"),
    ("tcp_read", "netto_tcp_read"),
];
/// The points that netstacklat has.
const POINTS: &str = "ip-start,tcp-start,udp-start,tcp-socket-enqueued,udp-socket-enqueued,\
                      tcp-socket-read,udp-socket-read";

/// Measures.
pub fn measure(options: &Options) -> Result<()> {
    let network = Network::direct()?;
    let _statistics = Statistics::enable()?;
    for (all, more) in [
        (None, &[][..]),
        (Some("one_in_64"), &["--latency-one-in", "64"]),
    ] {
        let mut words = forced()?.to_vec();
        words.extend(["--latency", "--latency-points", POINTS]);
        words.extend(more);
        let daemon = options.start(Some(1_000), &words)?;
        let wait = || {
            std::thread::sleep(LENGTH);
            Ok(())
        };
        let load = traffic::udp(&network.left, &network.right, network.right_v4)?;
        tell(&DATAGRAMS, all, &during(&daemon, wait)?);
        drop(load);
        let load = traffic::tcp(&network.left, &network.right, network.right_v4)?;
        tell(&SEGMENTS, all, &during(&daemon, wait)?);
        drop(load);
        end(daemon)?;
    }
    Ok(())
}

/// A figure for each point, or one for all points.
fn tell(points: &[(&str, &str)], all: Option<&str>, programs: &All) {
    for (point, program) in points {
        one(&format!("{}_ns", all.unwrap_or(point)), programs, program);
    }
}
