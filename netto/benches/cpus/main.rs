//! What an interval costs netto itself, on hosts of one CPU to a thousand, with made-up readings.
//! Needs no root.
//!
//! Prints a line for each step and number of CPUs: name, CPUs, and the median and the middle half
//! of its microseconds of CPU time; then a line for each step with its slope, microseconds for each further CPU.
//! With `--plot PATH` it draws them there (SVG). With `--ticks N --cpus K` it makes N
//! idle intervals of K CPUs and prints nothing, for tools that count instructions;
//! with `--busy` every CPU has networking and stacks.

mod host;
mod plot;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use metrics_common::codec;
use metrics_common::history::History;
use netto_demo::Settings;
use netto_metrics::Totals;
use netto_metrics::prometheus::{Form, PrometheusLogger};
use netto_pipeline::metrics_collector::{Deliver, Published};
use netto_pipeline::supervisor::Supervisor;
use netto_pipeline::trace_analyzer::SnapshotSource;
use netto_sys::system;

use self::host::{Host, Load};

/// Of the hosts.
const CPUS: [u32; 6] = [1, 4, 16, 64, 256, 1024];
/// Of each step on each host.
const TIMES: usize = 15;

/// A step on one host.
struct Figure {
    step: &'static str,
    cpus: u32,
    /// Microseconds: median, and the bounds of the middle half.
    us: [f64; 3],
}

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1)
    };
    if let Some(ticks) = value("--ticks") {
        let cpus = value("--cpus").context("of how many CPUs?")?.parse()?;
        let load = match words.iter().any(|word| word == "--busy") {
            true => Load::Busy,
            false => Load::Idle,
        };
        return count(ticks.parse()?, cpus, load);
    }
    let mut figures = Vec::new();
    for cpus in CPUS {
        figures.extend(of_host(cpus)?);
    }
    for Figure { step, cpus, us } in &figures {
        println!("{step} {cpus} {:.1} {:.1} {:.1}", us[0], us[1], us[2]);
    }
    let slopes = slopes(&figures);
    for (step, slope_us) in &slopes {
        println!("slope_{step} {slope_us:.3}");
    }
    match value("--plot") {
        Some(path) => plot::draw(Path::new(path), &figures, &slopes),
        None => Ok(()),
    }
}

/// Everything that is done in an interval without a reader: it is measured, kept, and added up.
fn count(ticks: u64, cpus: u32, load: Load) -> anyhow::Result<()> {
    let mut host = Host::new(cpus, load);
    let mut history = History::new(&host.info());
    let mut totals = Totals::of(&netto::features::metrics());
    for _ in 0..ticks {
        let snapshot = host.tick()?;
        history.push(&snapshot);
        totals.add(&snapshot);
        black_box(&snapshot);
    }
    Ok(())
}

/// All steps on a host with so many CPUs.
fn of_host(cpus: u32) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let mut note = |step, us| figures.push(Figure { step, cpus, us });
    for (step, load) in [("idle_tick", Load::Idle), ("busy_tick", Load::Busy)] {
        let mut host = Host::new(cpus, load);
        note(step, times(|| host.tick().map(drop))?);
    }
    // Every CPU of the made-up host works.
    let made_up = netto_demo::demo(Settings {
        cpus,
        seed: 1,
        period: Duration::from_millis(500),
        frequency_hz: 1000,
        has_owners: false,
        has_latency: false,
    });
    let (info, mut source, mut past) = (Arc::new(made_up.info), made_up.source, made_up.past);
    let mut snapshots = Vec::new();
    for _ in 0..2 * TIMES {
        snapshots.push(Arc::new(source.next_snapshot()?));
    }
    let mut each = snapshots.iter();
    let mut next = || each.next().context("too few snapshots");
    note(
        "history",
        times(|| next().map(|snapshot| past.push(snapshot)))?,
    );
    let encode = || {
        black_box(codec::encode_snapshot(&snapshots[0])?);
        Ok(())
    };
    note("encode", times(encode)?);
    let mut totals = Totals::of(&netto::features::metrics());
    let add = || {
        totals.add(&snapshots[0]);
        Ok(())
    };
    note("totals", times(add)?);
    let scrapes = actix::System::new().block_on(async {
        let (supervisor, _failures) = Supervisor::new();
        let exported = (netto::features::metrics(), false);
        let (logger, metrics) =
            PrometheusLogger::launch(info.clone(), Default::default(), exported, &supervisor);
        let mut us = Vec::new();
        for snapshot in &snapshots[..TIMES] {
            let published = Published::new(snapshot.clone(), info.clone());
            logger.send(Deliver(Arc::new(published))).await?;
            // It is made on a thread of the runtime's.
            let begun_ns = own_cpu_ns();
            let page = metrics.page(Form::Text).await.map_err(anyhow::Error::msg)?;
            us.push((own_cpu_ns() - begun_ns) as f64 / 1e3);
            black_box(page);
        }
        supervisor.begin_end();
        anyhow::Ok(us)
    })?;
    note("metrics", quartiles(scrapes));
    Ok(figures)
}

/// The CPU time that it takes, microseconds; the first time does not count.
fn times(mut step: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<[f64; 3]> {
    step()?;
    let mut us = Vec::new();
    for _ in 0..TIMES {
        let begun_ns = system::thread_cpu_ns();
        step()?;
        us.push((system::thread_cpu_ns() - begun_ns) as f64 / 1e3);
    }
    Ok(quartiles(us))
}

/// CPU time of the process so far, nanoseconds.
fn own_cpu_ns() -> u64 {
    let (user_ns, system_ns) = system::own_cpu_ns();
    user_ns + system_ns
}

fn quartiles(mut us: Vec<f64>) -> [f64; 3] {
    us.sort_by(f64::total_cmp);
    [2, 1, 3].map(|quarter| us[(us.len() - 1) * quarter / 4])
}

/// By step: how much each further CPU costs, microseconds, from the smallest host to the largest.
fn slopes(figures: &[Figure]) -> Vec<(&'static str, f64)> {
    let of = |step: &'static str| {
        let mut own = figures.iter().filter(|figure| figure.step == step);
        let (first, last) = (own.next()?, own.next_back()?);
        let cpus = f64::from(last.cpus - first.cpus);
        Some((step, (last.us[0] - first.us[0]) / cpus))
    };
    let first = figures.iter().take_while(|figure| figure.cpus == CPUS[0]);
    first.filter_map(|figure| of(figure.step)).collect()
}
