//! The cost of owners: the same programs with and without `--owners`, and those that find the
//! sockets of packets.

use std::time::Duration;

use anyhow::Result;

use super::programs::{during, one, pair};
use super::{Options, end, forced};
use crate::kernels::Statistics;
use crate::lab::Network;
use crate::traffic;

/// Long enough for some thousands of events and samples.
const LENGTH: Duration = Duration::from_secs(1);

/// Measures.
pub fn measure(options: &Options) -> Result<()> {
    let network = Network::direct()?;
    let _statistics = Statistics::enable()?;
    for (level, with) in [("none", ""), ("process", "_owners")] {
        let mut words = forced()?.to_vec();
        words.extend(["--owners", level]);
        let daemon = options.start(Some(1_000), &words)?;
        let wait = || {
            std::thread::sleep(LENGTH);
            Ok(())
        };
        let load = traffic::udp(&network.left, &network.right, network.right_v4)?;
        let datagrams = during(&daemon, wait)?;
        drop(load);
        let load = traffic::tcp(&network.left, &network.right, network.right_v4)?;
        let bulk = during(&daemon, wait)?;
        drop(load);
        end(daemon)?;
        pair(&format!("softirq_pair_udp{with}_ns"), &datagrams, &["sirq"]);
        one(&format!("sample_tcp{with}_ns"), &bulk, "sample");
        one("socket_met_ns", &datagrams, "ready");
        one("packet_left_ns", &datagrams, "leaves");
        one("segment_met_ns", &bulk, "segment");
    }
    Ok(())
}
