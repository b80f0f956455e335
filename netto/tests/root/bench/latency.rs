//! What latencies cost: instructions of each program for each packet, of all packets and of one in
//! so many; and of the programs of another object, such as netstacklat's, of the same packets.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use libbpf_rs::{Link, Object, ObjectBuilder};

use super::programs::{All, during, one};
use super::{Options, end, forced};
use crate::kernels::{self, Statistics};
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
    for (suffix, more) in [
        ("", &["--latency-points", POINTS][..]),
        ("_with_waits", &[]),
        (
            "_by_interface",
            &["--latency-points", POINTS, "--latency-group", "interface"],
        ),
        (
            "_one_in_64",
            &["--latency-points", POINTS, "--latency-one-in", "64"],
        ),
    ] {
        let mut words = forced()?.to_vec();
        words.push("--latency");
        words.extend(more);
        let daemon = options.start(1_000, &words)?;
        let beside = options.beside.as_deref().filter(|_| suffix.is_empty());
        let beside = beside.map(Beside::attach).transpose()?;
        let wait = || {
            std::thread::sleep(LENGTH);
            Ok(())
        };
        let load = traffic::udp(&network.left, &network.right, network.right_v4)?;
        tell(&DATAGRAMS, suffix, &during(&daemon, wait)?);
        drop(load);
        let load = traffic::tcp(&network.left, &network.right, network.right_v4)?;
        tell(&SEGMENTS, suffix, &during(&daemon, wait)?);
        drop(load);
        if let Some(beside) = beside {
            beside.tell()?;
        }
        end(daemon)?;
    }
    Ok(())
}

fn tell(points: &[(&str, &str)], suffix: &str, programs: &All) {
    for (point, program) in points {
        one(&format!("{point}{suffix}_ns"), programs, program);
    }
}

/// Programs of somebody else's at the same time.
struct Beside {
    // Dropped before the programs that they hold.
    _links: Vec<Link>,
    _object: Object,
}

impl Beside {
    fn attach(file: &Path) -> Result<Self> {
        let object = ObjectBuilder::default().open_file(file)?.load()?;
        let links = object.progs_mut().map(|program| program.attach());
        let links = links.collect::<libbpf_rs::Result<_>>();
        let links = links.with_context(|| format!("cannot attach {}", file.display()))?;
        Ok(Beside {
            _links: links,
            _object: object,
        })
    }

    /// What a run of each takes.
    fn tell(self) -> Result<()> {
        for (name, program) in kernels::programs(std::process::id())? {
            if program.runs > 0 {
                let ns = program.run_time_ns as f64 / program.runs as f64;
                println!("{name}: {ns:.0} ns for each of {} runs", program.runs);
            }
        }
        Ok(())
    }
}
