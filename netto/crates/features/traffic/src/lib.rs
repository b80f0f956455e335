//! Work done: packets of each CPU, of the host's interfaces, and of its protocols, which the kernel
//! counts anyway; messages of sockets and polls, which probes count.

use metrics_common::sections::Rows;
use metrics_common::{Interfaces, ProtocolCount, Sections, Traffic};

use self::analysis::follow::Follower;
use self::analysis::protocols;
use self::analysis::softnet::{self, Softnet};
use self::analysis::stillness::Stillness;
use self::counter::WorkCounter;
use self::kernel::{Devices, LinkReader, ProtocolFiles};
use netto_feature::instruments::{Feature, Instrument};
use netto_pipeline::options::FeatureOptions;
use netto_platform::{Platform, Tick};
use netto_questions::api::Api;
use netto_sys::reopenable::ReopenableFile;

pub mod analysis;
mod counter;
pub mod demo;
mod kernel;
pub mod metrics;
mod tables;

/// The form of its section in the API.
pub const API: Api = Api::SECTION;

/// CPU time is measured without it.
pub const FEATURE: Feature = Feature {
    api: API,
    metrics: metrics::METRICS,
    demo: demo::generator,
    tables: tables::TABLES,
    ..Feature::new("traffic", start)
};

/// State kept from interval to interval.
struct Work {
    softnet_file: Option<ReopenableFile>,
    softnet: Softnet,
    protocol_files: Option<ProtocolFiles>,
    protocols: protocols::Counts,
    stillness: Stillness,
    links: Option<LinkReader>,
    follower: Follower,
    devices: Devices,
    counter: Option<WorkCounter>,
}

/// Starts with the current counters.
///
/// # Errors
/// If none of them can be read.
fn start(platform: &mut Platform, _: &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>> {
    let counter = WorkCounter::start(platform);
    let roots = &platform.roots;
    let softnet_file = kernel::softnet(roots);
    let protocol_files = ProtocolFiles::open(roots);
    let links = LinkReader::start(roots);
    let devices = Devices::new(roots);
    let mut reasons = Vec::new();
    let mut note = |what: &str, error: &anyhow::Error| {
        reasons.push(format!("{what}: {error:#}"));
    };
    let softnet_file = softnet_file
        .inspect_err(|error| note("packets of each CPU are not counted", error))
        .ok();
    let protocol_files = protocol_files
        .inspect_err(|error| note("segments and datagrams are not counted", error))
        .ok();
    let links = links
        .inspect_err(|error| note("packets of interfaces are not counted", error))
        .ok();
    let counter = counter
        .inspect_err(|error| note("messages and polls are not counted", error))
        .ok();
    let has_files = softnet_file.is_some() || protocol_files.is_some();
    if !has_files && links.is_none() && counter.is_none() {
        anyhow::bail!(reasons.join("; "));
    }
    let note =
        (!reasons.is_empty()).then(|| format!("Traffic is incomplete: {}.", reasons.join("; ")));
    platform.tell("traffic", note);
    let mut work = Work {
        softnet_file,
        softnet: Softnet::default(),
        protocol_files,
        protocols: protocols::Counts::default(),
        stillness: Stillness::default(),
        links,
        follower: Follower::default(),
        devices,
        counter,
    };
    let online: Vec<u32> = platform.stat.cpus.iter().map(|(cpu, _)| *cpu).collect();
    work.softnet(&online, 0);
    work.protocols(false);
    // Failed readings are repeated at the end of the first interval.
    let _ = work.ask_for_links().and_then(|()| work.interfaces());
    Ok(Box::new(work))
}

impl Work {
    /// A file that cannot be read now is read at a later interval.
    fn softnet(&mut self, cpus: &[u32], interval_ns: u64) -> Rows<u64> {
        let text = self.softnet_file.as_ref().map(ReopenableFile::text);
        match text {
            Some(Ok(text)) => {
                let now = softnet::parse(&text, cpus);
                self.softnet.advance(now, cpus, interval_ns)
            }
            _ => Vec::new(),
        }
    }

    /// `is_still`: no traffic since the last reading, so the counts are unchanged.
    fn protocols(&mut self, is_still: bool) -> Vec<Option<u64>> {
        if is_still {
            return protocols::growth(&self.protocols, &self.protocols);
        }
        let texts = self.protocol_files.as_ref().map(ProtocolFiles::texts);
        let Some(Ok((snmp_and_netstat, snmp6))) = texts else {
            return vec![None; ProtocolCount::ALL.len()];
        };
        let now = protocols::parse(&snmp_and_netstat, &snmp6);
        let grown = protocols::growth(&now, &self.protocols);
        self.protocols = now;
        grown
    }

    fn ask_for_links(&mut self) -> anyhow::Result<()> {
        self.links.as_mut().map_or(Ok(()), LinkReader::ask)
    }

    /// Counts of interfaces since the last reading; `None` if the kernel does not answer in time.
    fn interfaces(&mut self) -> anyhow::Result<Option<Interfaces>> {
        let links = self.links.as_mut().map_or(Ok(None), LinkReader::answer)?;
        let devices = &mut self.devices;
        Ok(links.map(|links| self.follower.advance(links, |link| devices.of(link))))
    }
}

impl Instrument for Work {
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        // The kernel answers while the other sources are read.
        let asked = self.ask_for_links();
        let softnet = self.softnet(tick.cpus, tick.interval_ns);
        let interfaces = match asked.and_then(|()| self.interfaces()) {
            Ok(interfaces) => {
                if interfaces.is_some() {
                    tick.platform.tell("interfaces", None);
                }
                interfaces
            }
            Err(error) => {
                let note = format!("Packets of interfaces are not counted for now: {error:#}.");
                tick.platform.tell("interfaces", Some(note));
                None
            }
        };
        let is_still = self.stillness.is_still(interfaces.as_ref());
        let protocols = self.protocols(is_still);
        let counter = self.counter.as_mut();
        let work = counter.map(|counter| counter.collect(tick));
        sections.traffic = Some(Traffic {
            softnet,
            interfaces,
            protocols,
            work,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;
    use metrics_common::InterfaceCounts;
    use netto_analysis::netlink::Link;
    use netto_sys::system::testing::tree;

    use super::*;

    #[test]
    fn after_a_stall_interfaces_are_counted_again_with_what_came_meanwhile() {
        let mut readings = 0;
        let read = move || {
            readings += 1;
            if readings == 2 {
                bail!("the kernel does not answer about its interfaces");
            }
            let counts = InterfaceCounts {
                rx_packets: 10 * readings,
                ..InterfaceCounts::default()
            };
            Ok(vec![Link {
                index: 1,
                name: b"eth0".to_vec(),
                counts,
                ..Link::default()
            }])
        };
        let (_dir, roots) = tree(&[]);
        let mut work = Work {
            softnet_file: None,
            softnet: Softnet::default(),
            protocol_files: None,
            protocols: protocols::Counts::default(),
            stillness: Stillness::default(),
            links: Some(LinkReader::over(move || Ok(read)).unwrap()),
            follower: Follower::default(),
            devices: Devices::new(&roots),
            counter: None,
        };
        let mut next = || {
            let answer = |work: &mut Work| {
                work.ask_for_links().unwrap();
                work.interfaces().transpose()
            };
            let interfaces = (0..100).find_map(|_| answer(&mut work)).unwrap();
            interfaces.map(|interfaces| interfaces.named[0].counts.rx_packets)
        };
        assert_eq!(next().unwrap(), 0);
        assert!(next().is_err());
        assert_eq!(next().unwrap(), 20);
        assert_eq!(next().unwrap(), 10);
    }
}

/// Constants shared by the programs and this crate; see `build.rs`.
#[allow(dead_code, reason = "some words are the programs' own")]
pub(crate) mod abi {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

netto_sys::skeleton!(traffic_skel, "/traffic.skel.rs");
