//! The sweep of `sweep.rs` with its cost: netto's share of each CPU at each rate, from the time
//! left over with and without it; the cost that it reports; and the correctness of its figures.
//! Prints a row for each step.

use anyhow::{Context, Result, ensure};
use metrics_common::Snapshot;
use metrics_common::sections::OwnPart;

use super::{Options, SETTLE, figure};
use crate::cpus::LeftOver;
use crate::follow::Followed;
use crate::sweep::{BURN_NS, Figure, Pace, SweepSetup, Switches, Truth, Ways, seen};

/// Packets a second up to the most (0), and back.
const RATES: [u64; 17] = [
    100, 300, 1_000, 3_000, 10_000, 20_000, 40_000, 70_000, 0, 70_000, 40_000, 20_000, 10_000,
    3_000, 1_000, 300, 100,
];

/// The results of a step, per second; lists are by CPU.
struct Step {
    packets_hz: f64,
    left: Vec<f64>,
    netto: Option<ReportedStep>,
}

/// The values that netto reported for a step.
struct ReportedStep {
    figure: Figure,
    way: String,
    /// Share of each CPU that it says it took.
    claimed: Option<Vec<f64>>,
    /// And its process alone.
    of_process: Option<Vec<f64>>,
}

/// One sweep, netto beside it or not.
struct Walk {
    /// Left over per second when nothing is sent and netto is not there.
    idle: Vec<f64>,
    steps: Vec<Step>,
    /// The event that has switched most often, and how often.
    switches: Option<(String, u64)>,
}

/// Measures, and prints a table.
pub fn measure(options: &Options) -> Result<()> {
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let mut cpu = 0;
    for pair in 0..options.rounds {
        for turn in 0..2 {
            let has_netto = pair % 2 != turn;
            eprintln!(
                "bench: sweep {} of {}",
                2 * pair + turn + 1,
                2 * options.rounds
            );
            let setup = SweepSetup::new(BURN_NS)?;
            cpu = setup.cpu;
            let walk = walk(&setup, options, has_netto)?;
            if has_netto { &mut with } else { &mut without }.push(walk);
        }
    }
    report(cpu, &without, &with)
}

fn walk(setup: &SweepSetup, options: &Options, has_netto: bool) -> Result<Walk> {
    let pace = Pace {
        settle: options.step.mul_f64(0.3),
        measured: options.step.mul_f64(0.7),
    };
    let left = LeftOver::begin()?;
    let idle = rates(&setup.watch(pace, Some(&left))?);
    let mut netto = if has_netto {
        let words = options.with_defaults(vec!["--user-period", "500"]);
        let daemon = Followed::with_usual_log(&words)?;
        let switches = Switches::from(&daemon.info);
        std::thread::sleep(SETTLE);
        Some((daemon, switches))
    } else {
        None
    };
    let mut truths = Vec::new();
    for per_second in RATES {
        truths.push(setup.step(per_second, pace, Some(&left))?);
    }
    // The log is read afterwards: its snapshots come some seconds late.
    let mut steps = Vec::new();
    for truth in &truths {
        let reported = match &mut netto {
            Some((daemon, switches)) => {
                let sum = seen(daemon, switches, truth)?;
                Some(ReportedStep {
                    figure: Figure::of(&daemon.info, &sum, truth)?,
                    way: Ways::of(&daemon.info).way("rx_softirq").to_owned(),
                    claimed: claimed(&sum, &OwnPart::ALL),
                    of_process: claimed(&sum, &[OwnPart::Daemon]),
                })
            }
            None => None,
        };
        steps.push(Step {
            packets_hz: truth.burnt.packets as f64 / truth.seconds(),
            left: rates(truth),
            netto: reported,
        });
    }
    let switches = netto.map(|(_, switches)| {
        let (slug, count) = switches.most();
        (slug.to_owned(), count)
    });
    // The process is gone with `netto`; its programs may take a moment.
    std::thread::sleep(2 * SETTLE);
    Ok(Walk {
        idle,
        steps,
        switches,
    })
}

fn rates(truth: &Truth) -> Vec<f64> {
    truth
        .left
        .iter()
        .map(|steps| steps / truth.seconds())
        .collect()
}

/// The share of each CPU's time that netto reports of these parts; `None` if none is known.
fn claimed(sum: &Snapshot, parts: &[OwnPart]) -> Option<Vec<f64>> {
    let own_cost = sum.sections.own.as_ref()?;
    let rows = || parts.iter().filter_map(|part| own_cost.part_ns(*part));
    rows().next()?;
    let of_cpu = |cpu: usize| rows().map(|row| row[cpu]).sum::<u64>();
    let ratio = |cpu| of_cpu(cpu) as f64 / sum.interval_ns as f64;
    Some((0..sum.cpus.len()).map(ratio).collect())
}

/// What netto took of a CPU in a step: the steps that were not left over, and the packets that
/// were not sent, at what these cost without it. As a share.
fn cost(cpu: usize, is_senders: bool, idle: f64, without: &Step, with: &Step) -> f64 {
    let left_over = |step: &Step| step.left[cpu] / idle;
    let missing = left_over(without) - left_over(with);
    if !is_senders || without.packets_hz <= 0.0 {
        return missing;
    }
    let packet = (1.0 - left_over(without)) / without.packets_hz;
    missing + packet * (without.packets_hz - with.packets_hz)
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn report(sending_cpu: usize, without: &[Walk], with: &[Walk]) -> Result<()> {
    let cpus = without.first().context("nothing was measured")?.idle.len();
    let idle: Vec<f64> = (0..cpus)
        .map(|cpu| {
            mean(
                &without
                    .iter()
                    .chain(with)
                    .map(|walk| walk.idle[cpu])
                    .collect::<Vec<_>>(),
            )
        })
        .collect();
    ensure!(
        idle.iter().all(|steps| *steps > 0.0),
        "a CPU had nothing left over before anything was sent: this machine is not idle"
    );
    println!(
        "\n| packets/s | netto costs the CPU of the packets | the dearest other CPU | netto says | its process | \
         the program takes | netto's figure for it | within | RX softirq by |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---|---|");
    let (mut dearest, mut outside, mut figures) = (f64::NEG_INFINITY, 0, 0);
    let mut costs_of_steps = Vec::new();
    for (index, rate) in RATES.iter().enumerate() {
        let costs: Vec<Vec<f64>> = (0..cpus)
            .map(|cpu| {
                let pairs = without.iter().zip(with);
                pairs
                    .map(|(without, with)| {
                        let (a, b) = (&without.steps[index], &with.steps[index]);
                        100.0 * cost(cpu, cpu == sending_cpu, idle[cpu], a, b)
                    })
                    .collect()
            })
            .collect();
        let cost = mean(&costs[sending_cpu]);
        costs_of_steps.push(cost);
        let others = (0..cpus)
            .filter(|cpu| *cpu != sending_cpu)
            .map(|cpu| mean(&costs[cpu]));
        let other = others.reduce(f64::max);
        dearest = dearest.max(cost).max(other.unwrap_or(cost));
        let reported: Vec<&ReportedStep> = with
            .iter()
            .filter_map(|walk| walk.steps[index].netto.as_ref())
            .collect();
        figures += reported.len();
        let held = reported
            .iter()
            .filter(|seen| seen.figure.holds(1.0))
            .count();
        outside += reported.len() - held;
        let first = reported.first().context("netto said nothing")?;
        let percent = |of: fn(&ReportedStep) -> &Option<Vec<f64>>| {
            let shares = reported
                .iter()
                .map(|seen| of(seen).as_ref()?.get(sending_cpu).copied());
            let shares: Option<Vec<f64>> = shares.collect();
            shares.map_or("–".to_owned(), |shares| {
                format!("{:.2} %", 100.0 * mean(&shares))
            })
        };
        println!(
            "| {} | {cost:.2} %{} | {} | {} | {} | {:.3} % | {:.3} % ({:.3} … {:.3}) | {held} of {} | {} |",
            match rate {
                0 => format!("{:.0}, the most", with[0].steps[index].packets_hz),
                rate => rate.to_string(),
            },
            range(&costs[sending_cpu]),
            other.map_or("–".to_owned(), |other| format!("{other:.2} %")),
            percent(|seen| &seen.claimed),
            percent(|seen| &seen.of_process),
            100.0 * first.figure.truth,
            100.0 * first.figure.by_netto,
            100.0 * first.figure.low,
            100.0 * first.figure.high,
            reported.len(),
            first.way
        );
    }
    figure("sweep_step_percent", &costs_of_steps);
    figure("sweep_dearest_step_percent", &[dearest]);
    figure(
        "sweep_outside_percent",
        &[100.0 * outside as f64 / figures as f64],
    );
    let most = with.iter().filter_map(|walk| walk.switches.as_ref());
    let (slug, count) = most
        .max_by_key(|(_, count)| *count)
        .context("nobody counted switches")?;
    println!("bench: {slug} has changed its method most often");
    figure("sweep_switches", &[*count as f64]);
    if let [first, second, ..] = without {
        let idle = (first.idle[sending_cpu] + second.idle[sending_cpu]) / 2.0;
        let noise = first
            .steps
            .iter()
            .zip(&second.steps)
            .map(|(a, b)| (100.0 * cost(sending_cpu, true, idle, a, b)).abs());
        figure("sweep_noise_points", &[noise.fold(0.0, f64::max)]);
    }
    Ok(())
}

fn range(values: &[f64]) -> String {
    let (low, high) = values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(*value), high.max(*value))
        });
    match values.len() {
        0 | 1 => String::new(),
        _ => format!(" ({low:.2} … {high:.2})"),
    }
}
