//! What netto itself costs, and the end of each interval for the budget that holds it. It is asked
//! last, so that it sees all of the interval's analysis.

use metrics_common::component::{index_of, index_of_source};
use metrics_common::{Cost, Modes, OwnCost, OwnPart, Sections, Source};

use netto_analysis::groups::Group;
use netto_feature::instruments::Instrument;
use netto_platform::overhead::{Found, Taken};
use netto_platform::{Ground, Tick};
use netto_sys::system;

mod api;
pub mod demo;
pub mod metrics;

pub use api::API;

/// It can do nothing that fails.
pub const IS_ESSENTIAL: bool = false;

/// Figures are estimates: steps of ten microseconds are few bytes on the wire.
const ROUNDED_TO_NS: u64 = 10_000;

/// See the head of this file; what lasts is the ground's.
struct Own;

/// Begins.
///
/// # Errors
/// None.
pub fn start(_: &mut Ground) -> anyhow::Result<Box<dyn Instrument>> {
    Ok(Box::new(Own))
}

impl Instrument for Own {
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        let cost = sections.cost.as_ref();
        let busy_ratio = sections.modes.as_ref().map(busy_ratios);
        let found = Found {
            interval_ns: tick.interval_ns,
            cpus: tick.cpus,
            network_ns: cost.and_then(|cost| cost.cpu_ns(index_of("network")?)),
            calls_ns: calls_ns(cost),
            busy_ratio: busy_ratio.as_deref(),
        };
        let taken = tick.ground.keep_to_budget(&found, tick.now_ns);
        sections.own = Some(OwnCost {
            user_ns: taken.process.0,
            system_ns: taken.process.1,
            resident_bytes: system::own_resident_bytes(),
            analysis_ns: system::monotonic_ns().saturating_sub(tick.now_ns),
            sampling_hz: taken.sampling_hz.clone(),
            costliest: taken.costliest,
            taken_ns: rows(taken),
            instruments: std::mem::take(&mut tick.analysis),
        });
        Ok(())
    }
}

/// The time of what each group of probes sees, where it is known: socket calls, and the softirqs
/// in which most sockets are met.
fn calls_ns(cost: Option<&Cost>) -> [Option<&[u64]>; Group::ALL.len()] {
    let mut rows = [None; Group::ALL.len()];
    let met_in = [(Group::Owners, Source::NET_RX)];
    for (group, source) in Group::CALLS.into_iter().chain(met_in) {
        let row = index_of_source(source);
        rows[group as usize] = cost.zip(row).and_then(|(cost, row)| cost.cpu_ns(row));
    }
    rows
}

/// Share of the time that each CPU did anything.
fn busy_ratios(modes: &Modes) -> Vec<f64> {
    let ratio = |cpu: &metrics_common::CpuModes| {
        let all_ns: u64 = cpu.values().iter().sum();
        1.0 - (cpu.idle_ns + cpu.iowait_ns) as f64 / all_ns.max(1) as f64
    };
    modes.cpus.iter().map(ratio).collect()
}

/// By part, in the order of [`OwnPart::ALL`].
fn rows(taken: Taken) -> Vec<Option<Vec<u64>>> {
    let Taken {
        groups: [softirqs, sends, receives, local_ipc, switches, owners],
        interrupts,
        sampler,
        daemon,
        counters: [drops, traffic, latency],
        ..
    } = taken;
    let rounded = |mut row: Vec<u64>| {
        row.iter_mut().for_each(|ns| *ns -= *ns % ROUNDED_TO_NS);
        row
    };
    let rows: [_; OwnPart::ALL.len()] = [
        softirqs,
        sends,
        receives,
        local_ipc,
        switches,
        interrupts,
        sampler,
        Some(daemon),
        owners,
        drops,
        traffic,
        latency,
    ];
    rows.map(|row| row.map(rounded)).into()
}
