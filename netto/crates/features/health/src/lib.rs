//! The host's health, and a score of it: how long a read and a write of this host's data may be
//! expected to take, for software and people who choose between hosts.
//!
//! Requests of block devices and reads of files are met by probes; connections, queues and drives are
//! asked on threads of their own, which the tick never waits for. What is not known is absent, and has a
//! reason. docs/SCORE.md says what each figure means and costs.

use std::collections::HashMap;

use anyhow::bail;
use metrics_common::Sections;
use metrics_common::sections::{
    DriveHealth, GroupReads, Health, LinkHealth, MOST_OF_HEALTH, MissingFigure, TcpHealth,
};
use netto_feature::instruments::{Feature, Instrument};
use netto_pipeline::options::FeatureOptions;
use netto_platform::background::Background;
use netto_platform::overhead::{Counting, Limit, ProbeGroup, RegisteredGroup};
use netto_platform::{Platform, Tick};
use netto_sys::privileges::Capability;

use self::agent::{Agent, Answers};
use self::analysis::devices::{Follower as DeviceFollower, Listed, Timings, parse};
use self::analysis::follow::Follower;
use self::analysis::groups::largest;
use self::analysis::places::{Places, Wanted};
use self::analysis::pressure::{Totals, since};
use self::api::Orca;
use self::kernel::devices::Devices;
use self::kernel::files::Files;
use self::kernel::groups::Names;
use self::kernel::{Probes, drives, network};
use self::options::Request;
use self::recent::Recent;

mod agent;
mod analysis;
mod api;
mod demo;
mod kernel;
mod metrics;
mod options;
mod recent;
mod terminal;

#[cfg(feature = "schema")]
pub use api::SCHEMAS;

/// CPU time is measured without it, and only who asks for it has it.
pub const FEATURE: Feature = Feature {
    is_asked_for: |options| options.of::<Request>(NAME).is_some(),
    turned_off: TURNED_OFF,
    capabilities: |options| match options.of::<Request>(NAME) {
        Some(request) if request.asks_ata => &[Capability::CAP_SYS_RAWIO],
        _ => &[],
    },
    options: Some(options::OPTIONS),
    command: Some(terminal::COMMAND),
    metrics: metrics::METRICS,
    api: api::API,
    demo: demo::generator,
    ..Feature::new(NAME, start)
};

const NAME: &str = "health";
const TURNED_OFF: &str = "not enabled; --health measures what a host's score depends on";
/// The topics of its notes.
const ABSENT: &str = "health devices";
const PLACES: &str = "health places";

/// Its probes.
const GROUP: ProbeGroup = ProbeGroup {
    name: NAME,
    label: "requests of block devices and reads of files",
    // A look into the page cache, as docs/SCORE.md has it; what runs take on this host is learned.
    event_ns: 110.0,
    limit: Limit::Windows { most: 0.25 },
    note_while_off: "Times of block devices and reads of files are estimated: meeting them all would \
                     cost too much, so they are met in a part of each second, which stands for the \
                     whole.",
};
/// The time that load balancers are told of: they are to see a change within seconds.
const TOLD_NS: u64 = 3_000_000_000;
/// Lookups in a shorter time than this say nothing of the rest.
const LEAST_COUNTED_NS: u64 = 1_000_000;

/// State kept from interval to interval.
struct Watcher {
    request: Request,
    probes: Option<(Probes, RegisteredGroup)>,
    /// What the kernel refuses for good.
    refused: Vec<MissingFigure>,
    files: Files,
    devices: Devices,
    /// Of the programs' records.
    places: Places,
    statistics: DeviceFollower,
    pressure: HashMap<&'static str, Totals>,
    /// Lookups per nanosecond in the newest time in which they were counted.
    lookups_rate: f64,
    group_names: Names,
    networks: Background<network::Reading>,
    follower: Follower,
    links: Vec<LinkHealth>,
    tcp: Option<TcpHealth>,
    network_missing: Vec<MissingFigure>,
    drive_readings: Background<drives::Reading>,
    drives: drives::Reading,
    /// Whoever asks, and what it is told of.
    agent: Option<(Agent, Recent)>,
}

fn missing(figure: &str, reason: impl Into<String>) -> MissingFigure {
    MissingFigure {
        figure: figure.to_owned(),
        reason: reason.into(),
    }
}

/// Starts without connections, links and drives, which are read later.
fn start(platform: &mut Platform, options: &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>> {
    let Some(request) = options.of::<Request>(NAME).cloned() else {
        bail!(TURNED_OFF);
    };
    let agent = request.agent.map(Agent::start).transpose()?;
    let agent = agent.map(|agent| (agent, Recent::default()));
    let mut refused = Vec::new();
    let probes = Probes::start(platform.readers.possible_cpus);
    let probes = probes.and_then(|(probes, hooks)| {
        let group = platform.overhead.register(GROUP, hooks)?;
        Ok((probes, group))
    });
    let probes = match probes {
        Ok((mut probes, group)) => {
            if let Some(reason) = probes.without_lookups.take() {
                refused.push(missing("page_cache", reason));
            }
            Some((probes, group))
        }
        Err(error) => {
            let reason = format!("{error:#}");
            refused.push(missing("page_cache", reason.clone()));
            refused.push(missing("service_time", reason));
            None
        }
    };
    let note = refused.first().map(|missing| {
        format!(
            "The score is by fewer figures: {} is not measured: {}.",
            missing.figure, missing.reason
        )
    });
    platform.tell(NAME, note);
    let roots = &platform.roots;
    let mut watcher = Watcher {
        devices: Devices::new(roots, &request.devices),
        places: Places::default(),
        request,
        probes,
        refused,
        files: Files::open(roots),
        statistics: DeviceFollower::default(),
        pressure: HashMap::new(),
        lookups_rate: 0.0,
        group_names: Names::new(roots),
        networks: Background::new("connections", network::EVERY_NS),
        follower: Follower::default(),
        links: Vec::new(),
        tcp: None,
        network_missing: vec![
            missing("tcp", "not looked at yet"),
            missing("links", "not looked at yet"),
        ],
        drive_readings: Background::new("drives", drives::EVERY_NS),
        drives: drives::Reading::default(),
        agent,
    };
    // Devices that are there are timed from the first interval on.
    if let Ok(text) = watcher.files.disks() {
        let listed = parse(&text);
        watcher.devices.learn(&listed);
        watcher.place(&listed, None);
    }
    Ok(Box::new(watcher))
}

/// What probes have met in an interval; nothing of it is known while there are none.
#[derive(Default)]
struct Probed {
    timings: Option<Timings>,
    /// For the whole interval.
    lookups: Option<u64>,
    groups: Vec<GroupReads>,
}

impl Watcher {
    fn probed(&mut self, tick: &mut Tick<'_>) -> Probed {
        let Some((probes, group)) = &mut self.probes else {
            return Probed::default();
        };
        let grown = probes.since_the_last(tick.cpus);
        let counting = tick.platform.overhead.count(group, grown.runs);
        let devices = grown.timings.devices.iter();
        let chosen = devices.filter(|(number, _)| self.devices.has_chosen_files(**number));
        let mut lookups: u64 = chosen.map(|(_, device)| device.lookups).sum();
        if self.request.devices.is_empty() {
            lookups += grown.timings.other_lookups;
        }
        let (counted_ns, all_ns) = match counting {
            Counting::Whole => (tick.interval_ns, tick.interval_ns),
            Counting::Part(estimated) => (estimated.counted_ns, estimated.ns),
        };
        if counted_ns >= LEAST_COUNTED_NS {
            self.lookups_rate = lookups as f64 / counted_ns as f64;
        }
        if counted_ns < all_ns {
            lookups = (self.lookups_rate * all_ns as f64) as u64;
        }
        let factor = match counted_ns {
            LEAST_COUNTED_NS.. => all_ns as f64 / counted_ns as f64,
            _ => 0.0,
        };
        let names = &mut self.group_names;
        let groups = largest(grown.groups, grown.other_reads, factor, |group| {
            names.of(group)
        });
        let is_known = self
            .refused
            .iter()
            .all(|missing| missing.figure != "page_cache");
        Probed {
            timings: Some(grown.timings),
            lookups: is_known.then_some(lookups),
            groups,
        }
    }

    /// Gives devices the places of the programs' records. Returns how many want one and have none.
    fn place(&mut self, listed: &[Listed], timings: Option<&Timings>) -> usize {
        let Some((probes, _)) = &self.probes else {
            return 0;
        };
        let mut wanted = Vec::new();
        for device in listed {
            if !self.devices.is_wanted(device) {
                continue;
            }
            let is_active = match timings.map(|all| all.devices.get(&device.number)) {
                // Of one that is wanted for its files alone nothing is known until it has a place.
                Some(None) if self.devices.class(device).is_none() => true,
                Some(Some(counted)) if counted.lookups > 0 => true,
                _ => self.statistics.is_active(device),
            };
            wanted.push(Wanted {
                number: device.number,
                is_active,
            });
        }
        let without = self.places.arrange(&wanted);
        probes.place(&self.places);
        without.len()
    }

    /// Takes what was read on other threads, and has it read again when it is time.
    fn take_readings(&mut self, tick: &Tick<'_>) {
        let roots = tick.platform.roots.clone();
        let newest = self
            .networks
            .poll(tick.now_ns, move || network::read(&roots));
        match newest {
            Some(reading) => {
                self.tcp = reading.sockets.map(|sockets| self.follower.tcp(&sockets));
                self.links = self.follower.links(&reading.links);
                self.network_missing = reading.missing;
            }
            // What came is of the interval in which it was read; states last.
            None => {
                if let Some(tcp) = &mut self.tcp {
                    (tcp.sent_segments, tcp.retransmitted) = (0, 0);
                }
                for link in &mut self.links {
                    (link.tx_bytes, link.dropped, link.qdisc_dropped) = (0, 0, 0);
                }
            }
        }
        let roots = tick.platform.roots.clone();
        let asks_ata = self.request.asks_ata;
        let newest = self
            .drive_readings
            .poll(tick.now_ns, move || drives::read_all(&roots, asks_ata));
        if let Some(newest) = newest {
            self.drives = newest;
        }
    }

    /// Of drives, only those that the score is about, where it is about some.
    fn chosen_drives(&self) -> Vec<DriveHealth> {
        let chosen = &self.request.devices;
        // A namespace of an NVMe drive begins with the drive's name.
        let is_chosen = |drive: &&DriveHealth| {
            chosen.is_empty()
                || chosen
                    .iter()
                    .any(|name| name.starts_with(drive.name.as_str()))
        };
        self.drives
            .drives
            .iter()
            .filter(is_chosen)
            .cloned()
            .collect()
    }
}

impl Instrument for Watcher {
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        self.take_readings(tick);
        let probed = self.probed(tick);
        let mut lacks = self.refused.clone();
        let devices = match self.files.disks() {
            Ok(text) => {
                let listed = parse(&text);
                self.devices.learn(&listed);
                let absent: Vec<&str> = self.devices.absent(&listed).collect();
                let names = absent.join(", ");
                let note = format!("The score is without {names}: there is no such block device.");
                let note = (!absent.is_empty()).then_some(note);
                tick.platform.tell(ABSENT, note);
                lacks.extend(
                    absent
                        .into_iter()
                        .map(|name| missing("block", format!("there is no device {name}"))),
                );
                let without_place = self.place(&listed, probed.timings.as_ref());
                let devices = &self.devices;
                let devices = self
                    .statistics
                    .advance(&listed, probed.timings.as_ref(), |device| {
                        devices.class(device)
                    });
                let note = (without_place > 0).then(|| {
                    let untimed = self.statistics.untimed_requests;
                    format!(
                        "{without_place} devices have no place among the {} that are told apart: {untimed} \
                         of their requests were not timed",
                        abi::HEALTH_DEVICES
                    )
                });
                lacks.extend(note.map(|reason| missing("service_time", reason)));
                let note = (without_place > 0).then(|| {
                    format!(
                        "Requests of some block devices are not timed, and reads of files on them not \
                         counted: more than {} devices are in use.",
                        abi::HEALTH_DEVICES
                    )
                });
                tick.platform.tell_quietly(PLACES, note);
                devices
            }
            Err(reason) => {
                lacks.push(missing("block", reason));
                Vec::new()
            }
        };
        let pressure = self.files.pressure();
        if pressure.is_empty() {
            lacks.push(missing(
                "pressure",
                "this kernel does not tell of it (CONFIG_PSI, psi=1)",
            ));
        }
        let pressure = pressure.into_iter().map(|(resource, now)| {
            let before = self.pressure.insert(resource, now).unwrap_or(now);
            since(resource, now, before)
        });
        let pressure = pressure.collect();
        lacks.extend(
            self.network_missing
                .iter()
                .chain(&self.drives.missing)
                .cloned(),
        );
        lacks.truncate(MOST_OF_HEALTH);
        let cpu_ratio = sections.modes.as_ref().and_then(|modes| {
            let (busy, all) = (modes.host.busy_ns(), modes.host.total_ns());
            (all > 0).then(|| busy as f64 / all as f64)
        });
        let health = Health {
            measured_ns: tick.interval_ns,
            reference_ns: self.request.reference_us.map(|us| us * 1_000),
            devices,
            cache_lookups: probed.lookups,
            groups: probed.groups,
            pressure,
            tcp: self.tcp,
            links: self.links.clone(),
            drives: self.chosen_drives(),
            cpu_ratio,
            memory_ratio: self.files.memory_ratio(),
            missing: lacks,
        };
        if let Some((agent, recent)) = &mut self.agent {
            recent.push_health(&health);
            if let Some((health, score)) = recent.score(TOLD_NS) {
                agent.tell(Answers::of(&score, &Orca::of(&health, &score)));
            }
        }
        sections.health = Some(health);
        Ok(())
    }
}

/// What the programs and this crate agree on; see `build.rs`.
#[allow(dead_code, reason = "some words are the programs' own")]
mod abi {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

netto_sys::skeleton!(health_skel, "/health.skel.rs");
