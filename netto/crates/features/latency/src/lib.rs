//! The time from a packet's arrival to each point of the stack. Nothing is loaded unless it is
//! requested; latencies are taken in windows where all would cost too much.

use metrics_common::sections::{MissingPoint, PointLatency};
use metrics_common::{Latency, Sections};

use self::analysis::growth::{self, Counts};
use self::groups::Groups;
use self::kernel::probes::Probes;
use self::request::Request;
use netto_feature::instruments::{Feature, Instrument};
use netto_pipeline::options::FeatureOptions;
use netto_platform::overhead::{Held, Limit, ProbeGroup, RegisteredGroup};
use netto_platform::{Platform, Tick};

pub mod analysis;
mod api;
mod command;
pub mod demo;
mod groups;
mod kernel;
pub mod metrics;
mod options;
mod points;
pub mod request;
mod tables;
mod terminal;

#[cfg(feature = "schema")]
pub use api::SCHEMAS;

pub use api::API;

/// CPU time is measured without it.
pub const FEATURE: Feature = Feature {
    is_asked_for: |options| options.of::<Request>("latency").is_some(),
    turned_off: TURNED_OFF,
    options: Some(options::OPTIONS),
    command: Some(command::COMMAND),
    list: Some(points::list),
    api: API,
    metrics: metrics::METRICS,
    demo: demo::generator,
    tables: tables::TABLES,
    ..Feature::new("latency", start)
};

/// Its probes; the cost of an event follows from the request.
const TURNED_OFF: &str = "not enabled; --latency measures where packets wait in the stack";

const GROUP: ProbeGroup = ProbeGroup {
    name: "latency",
    label: "latencies",
    event_ns: 0.0,
    limit: Limit::Windows { most: 0.5 },
    note_while_off: "Latencies are taken in a part of the time, which stands for the whole: all \
                     would cost too much; --latency-one-in takes fewer.",
};

/// State kept between intervals.
struct Latencies {
    probes: Probes,
    request: Request,
    /// The last readings: by CPU, and by point in the plan's order.
    before: Vec<Vec<Counts>>,
    runs_before: Vec<u64>,
    groups: Option<Groups>,
    group: RegisteredGroup,
    held: Held<Latency>,
}

/// Starts measuring.
///
/// # Errors
/// If latencies are not requested, or the kernel refuses all probes.
fn start(platform: &mut Platform, options: &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>> {
    let Some(request) = options.of::<Request>(FEATURE.name).cloned() else {
        anyhow::bail!(TURNED_OFF);
    };
    let (probes, hooks) = Probes::start(&platform.roots, platform.readers.possible_cpus, &request)?;
    let price = probes.plan().means.price();
    let group = ProbeGroup {
        event_ns: growth::event_ns(request.one_in, price),
        ..GROUP
    };
    let group = platform.overhead.register(group, hooks)?;
    let missing = probes.plan().missing.iter();
    let missing = missing.map(|(point, reason)| format!("{point} ({reason})"));
    let missing: Vec<String> = missing.collect();
    let note = (!missing.is_empty())
        .then(|| format!("Latencies are not measured at {}.", missing.join(", ")));
    platform.tell("latency", note);
    Ok(Box::new(Latencies {
        before: Vec::new(),
        runs_before: Vec::new(),
        groups: Groups::new(&platform.roots, request.grouping),
        group,
        held: Held::default(),
        probes,
        request,
    }))
}

impl Latencies {
    /// The points, with the new counts on each of these CPUs.
    fn points(&mut self, cpus: &[u32]) -> Vec<PointLatency> {
        let planned = &self.probes.plan().points;
        let mut points: Vec<PointLatency> = planned
            .iter()
            .map(|(point, method)| PointLatency::new(*point, method, cpus.len()))
            .collect();
        for (column, &cpu) in cpus.iter().enumerate() {
            let cpu = cpu as usize;
            if self.before.len() <= cpu {
                self.before.resize(cpu + 1, Vec::new());
            }
            let before = &mut self.before[cpu];
            let record = self.probes.of_cpu(cpu);
            before.resize(points.len(), Counts::default());
            for (point, before) in points.iter_mut().zip(before) {
                let now = record.counts(point.point);
                growth::put(point, column, &now.since(before));
                *before = now;
            }
        }
        points
    }

    /// Number of latencies taken on each of these CPUs.
    fn runs(&mut self, cpus: &[u32]) -> Vec<u64> {
        let mut grown = Vec::with_capacity(cpus.len());
        for &cpu in cpus {
            let cpu = cpu as usize;
            if self.runs_before.len() <= cpu {
                self.runs_before.resize(cpu + 1, 0);
            }
            let now = self.probes.of_cpu(cpu).runs();
            grown.push(now.saturating_sub(self.runs_before[cpu]));
            self.runs_before[cpu] = now;
        }
        grown
    }
}

impl Instrument for Latencies {
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        let points = self.points(tick.cpus);
        let groups = match &mut self.groups {
            Some(groups) => groups.collect(&self.probes, &tick.platform.roots, tick.cpus),
            None => Vec::new(),
        };
        let runs = self.runs(tick.cpus);
        let overhead = &mut tick.platform.overhead;
        let counting = overhead.count(&self.group, runs);
        let missing = self.probes.plan().missing.iter();
        let missing = missing.map(|(point, reason)| MissingPoint {
            point: *point,
            reason: reason.clone(),
        });
        let latency = Latency {
            one_in: self.request.one_in,
            points,
            groups,
            missing: missing.collect(),
            estimated: None,
        };
        sections.latency = Some(self.held.next(latency, counting, tick.cpus));
        Ok(())
    }
}

/// Constants shared by the programs and this crate; see `build.rs`.
#[allow(dead_code, reason = "some words are the programs' own")]
pub(crate) mod abi {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

netto_sys::skeleton!(latency_skel, "/latency.skel.rs");
