//! What work was done: packets of each CPU, of the host's interfaces, and of its protocols, which
//! the kernel counts anyway; messages of sockets and polls, which are counted by probes.

use metrics_common::sections::Rows;
use metrics_common::{Interfaces, ProtocolCount, Sections, Traffic};

use self::analysis::follow::Follower;
use self::analysis::softnet::{self, Softnet};
use self::analysis::{links::Link, protocols};
use self::counter::WorkCounter;
use self::kernel::{Devices, LinkReader, ProtocolFiles};
use netto_feature::instruments::{Entry, Instrument};
use netto_pipeline::options::FeatureOptions;
use netto_platform::{Ground, Tick};
use netto_sys::kept::KeptFile;

pub mod analysis;
mod counter;
mod kernel;

/// CPU time is measured without it.
pub const ENTRY: Entry = Entry::new("traffic", start);

/// What is kept from interval to interval.
struct Work {
    softnet_file: Option<KeptFile>,
    softnet: Softnet,
    protocol_files: Option<ProtocolFiles>,
    protocols: protocols::Counts,
    links: Option<LinkReader>,
    follower: Follower,
    devices: Devices,
    counter: Option<WorkCounter>,
}

/// Begins with what the counters say now.
///
/// # Errors
/// If none of them can be read.
fn start(ground: &mut Ground, _: &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>> {
    let counter = WorkCounter::start(ground);
    let roots = &ground.roots;
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
    let told = (!reasons.is_empty()).then(|| format!("Of traffic, {}.", reasons.join("; ")));
    ground.tell("traffic", told);
    let mut work = Work {
        softnet_file,
        softnet: Softnet::default(),
        protocol_files,
        protocols: protocols::Counts::default(),
        links,
        follower: Follower::default(),
        devices,
        counter,
    };
    let online: Vec<u32> = ground.stat.cpus.iter().map(|(cpu, _)| *cpu).collect();
    work.softnet(&online, 0);
    work.protocols();
    let asked = work.ask_for_links();
    if let Ok(Some(links)) = asked.and_then(|()| work.links()) {
        work.interfaces(links);
    }
    Ok(Box::new(work))
}

impl Work {
    /// A file that cannot be read now is read at a later interval.
    fn softnet(&mut self, cpus: &[u32], interval_ns: u64) -> Rows<u64> {
        let text = self.softnet_file.as_ref().map(KeptFile::text);
        match text {
            Some(Ok(text)) => {
                let now = softnet::parse(&text, cpus);
                self.softnet.advance(now, cpus, interval_ns)
            }
            _ => Vec::new(),
        }
    }

    fn protocols(&mut self) -> Vec<Option<u64>> {
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

    fn links(&mut self) -> anyhow::Result<Option<Vec<Link>>> {
        self.links.as_mut().map_or(Ok(None), LinkReader::answer)
    }

    fn interfaces(&mut self, links: Vec<Link>) -> Interfaces {
        let devices = &mut self.devices;
        self.follower.advance(links, |link| devices.of(link))
    }
}

impl Instrument for Work {
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        // The kernel answers while the others are read.
        let asked = self.ask_for_links();
        let softnet = self.softnet(tick.cpus, tick.interval_ns);
        let protocols = self.protocols();
        let links = match asked.and_then(|()| self.links()) {
            Ok(links) => links,
            Err(error) => {
                let note = format!("Packets of interfaces are not counted any more: {error:#}.");
                tick.ground.tell("traffic", Some(note));
                self.links = None;
                None
            }
        };
        let counter = self.counter.as_mut();
        let work = counter.and_then(|counter| counter.collect(tick));
        sections.traffic = Some(Traffic {
            softnet,
            interfaces: links.map(|links| self.interfaces(links)),
            protocols,
            work,
        });
        Ok(())
    }
}

/// What the programs and this crate agree on; see `build.rs`.
#[allow(dead_code, reason = "some words are the programs' own")]
pub(crate) mod abi {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

netto_sys::skeleton!(work_skel, "/work.skel.rs");
