//! How long after its arrival a packet is at which point of the stack. Nothing of it is loaded
//! unless it is asked for; it stops for a while where it would cost too much.

use metrics_common::latency::Point;
use metrics_common::sections::{MissingPoint, PointLatency};
use metrics_common::{Latency, Sections};

use self::analysis::growth::{self, Counts};
use self::analysis::plan;
use self::groups::Groups;
use self::kernel::probes::{Probes, hookable};
use netto_analysis::latency::Request;
use netto_analysis::rest::{Rest, Turn};
use netto_feature::instruments::Instrument;
use netto_platform::overhead::Counter;
use netto_platform::{Ground, Tick};

pub mod analysis;
mod api;
pub mod demo;
mod groups;
mod kernel;
pub mod metrics;
mod terminal;

pub use api::API;
pub use terminal::View;

/// CPU time is measured without it.
pub const IS_ESSENTIAL: bool = false;

/// Of what netto may cost a CPU, the part that latencies may.
const MOST: f64 = 0.5;

/// What is kept from interval to interval.
struct Latencies {
    probes: Probes,
    request: Request,
    /// As they were last read: by CPU, and by point in the plan's order.
    before: Vec<Vec<Counts>>,
    runs_before: Vec<u64>,
    groups: Option<Groups>,
    rest: Rest,
}

/// How this kernel can measure a point, the best means first: what is hooked, or why that is not
/// possible.
pub type Ways = Vec<Result<String, String>>;

/// How this kernel can measure each point. Nothing is loaded: whether it allows the first of them
/// is told by who tries.
///
/// # Errors
/// If its type information cannot be read.
pub fn ways() -> anyhow::Result<Vec<(Point, Ways)>> {
    let found = hookable()?;
    let of = |point: &Point| (*point, plan::ways(*point, |own| found.contains(own.name)));
    Ok(Point::ALL.iter().map(of).collect())
}

/// Begins to take latencies.
///
/// # Errors
/// If nobody wants to know, or the kernel refuses all probes.
pub fn start(ground: &mut Ground) -> anyhow::Result<Box<dyn Instrument>> {
    // What another request has left behind, also where nobody asks any more.
    ground.tell("many latencies", None);
    let Some(request) = ground.latency.clone() else {
        anyhow::bail!("not asked for; --latency measures where packets wait in the stack");
    };
    let probes = Probes::start(&ground.roots, ground.readers.possible_cpus, &request)?;
    let missing = probes.plan().missing.iter();
    let missing = missing.map(|(point, reason)| format!("{point} ({reason})"));
    let missing: Vec<String> = missing.collect();
    let told = (!missing.is_empty())
        .then(|| format!("Latencies are not measured at {}.", missing.join(", ")));
    ground.tell("latency", told);
    Ok(Box::new(Latencies {
        before: Vec::new(),
        runs_before: Vec::new(),
        groups: Groups::new(&ground.roots, request.grouping),
        rest: Rest::default(),
        probes,
        request,
    }))
}

impl Latencies {
    /// The points, with what came at each on each of these CPUs.
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

    /// What the programs took of each of these CPUs, nanoseconds.
    fn taken_ns(&mut self, cpus: &[u32]) -> Vec<u64> {
        let price = self.probes.plan().means.price();
        let mut taken_ns = Vec::with_capacity(cpus.len());
        for &cpu in cpus {
            let cpu = cpu as usize;
            if self.runs_before.len() <= cpu {
                self.runs_before.resize(cpu + 1, 0);
            }
            let now = self.probes.of_cpu(cpu).runs();
            let runs = now.saturating_sub(self.runs_before[cpu]);
            self.runs_before[cpu] = now;
            taken_ns.push(growth::taken_ns(runs, self.request.one_in, price));
        }
        taken_ns
    }

    /// Whether latencies are taken in the interval to come.
    fn rest_or_go_on(&mut self, tick: &mut Tick<'_>, most_ns: u64) -> anyhow::Result<()> {
        let may_cost = MOST * tick.ground.overhead.max_ratio();
        let costs = most_ns as f64 / tick.interval_ns.max(1) as f64;
        match self.rest.turn(costs, may_cost, tick.now_ns) {
            Turn::Stop => {
                self.probes.detach();
                let note = "Latencies are taken for a moment every half minute only: there are so \
                            many packets that all would cost too much; --latency-one-in takes \
                            fewer.";
                tick.ground.tell("many latencies", Some(note.to_owned()));
            }
            Turn::Begin => self.probes.attach()?,
            Turn::Count => tick.ground.tell("many latencies", None),
            Turn::Rest => {}
        }
        Ok(())
    }
}

impl Instrument for Latencies {
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        let points = self.points(tick.cpus);
        let groups = match &mut self.groups {
            Some(groups) => groups.collect(&self.probes, &tick.ground.roots, tick.cpus),
            None => Vec::new(),
        };
        let taken_ns = self.taken_ns(tick.cpus);
        let most_ns = taken_ns.iter().copied().max().unwrap_or(0);
        tick.ground.overhead.charge(Counter::Latency, taken_ns);
        let was_taken = !self.rest.is_resting();
        self.rest_or_go_on(tick, most_ns)?;
        let missing = self.probes.plan().missing.iter();
        let missing = missing.map(|(point, reason)| MissingPoint {
            point: *point,
            reason: reason.clone(),
        });
        sections.latency = was_taken.then(|| Latency {
            one_in: self.request.one_in,
            points,
            groups,
            missing: missing.collect(),
        });
        Ok(())
    }
}

/// What the programs and this crate agree on; see `build.rs`.
#[allow(dead_code, reason = "some words are the programs' own")]
pub(crate) mod abi {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

netto_sys::skeleton!(latency_skel, "/latency.skel.rs");
