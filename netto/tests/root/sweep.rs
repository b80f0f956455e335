//! Packets from few to as many as there can be and back, each of a known cost: netto's figures
//! hold at every pace, also where it changes its way of measuring.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::MapHandle;
use metrics_common::component::index_of;
use metrics_common::{Availability, Info, KindName, Snapshot, confidence};

use crate::burn::{self, Burnt};
use crate::child::Owned;
use crate::cpus::{self, LeftOver};
use crate::follow::Followed;
use crate::lab::Network;
use crate::lab_itself::needs_kernel;
use crate::traffic;
use crate::trial::tests;

tests! {
    sweep::figures_hold_from_few_packets_to_the_most_and_back ["ip"];
    sweep::where_the_budget_leaves_few_samples_intervals_say_so ["ip"];
}

/// Time of each packet in the burning program.
pub const BURN_NS: u64 = 5_000;
/// The part that the program's time belongs to.
const PART: &str = "tc_classify";
/// Packets per second of each step; 0: as many as possible.
const STEPS: [u64; 7] = [300, 3_000, 20_000, 0, 20_000, 3_000, 300];
/// The same where few samples a second are all that is known.
const STEPS_OF_FEW_SAMPLES: [u64; 4] = [3_000, 20_000, 3_000, 3_000];
const PACE: Pace = Pace {
    settle: Duration::from_millis(700),
    // Two intervals, which have up to two seconds.
    measured: Duration::from_millis(4200),
};
/// By how many half-widths of its 95 % interval a figure may be off: six standard deviations,
/// as for each of many steps.
const HALF_WIDTHS: f64 = 3.0;
/// What calls the program, and the ends of its own that it does not see, are in netto's figure:
/// some hundred nanoseconds of each packet.
const AROUND: f64 = 0.08;
/// Up and down, a way of measuring may be left and taken again, and once more by chance.
pub const MOST_SWITCHES_OF_AN_EVENT: u64 = 4;

/// How long a step is.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Until the step's own pace has taken hold.
    pub settle: Duration,
    /// After that.
    pub measured: Duration,
}

/// The network and the program, with whom each step takes its turn.
pub struct SweepSetup {
    network: Network,
    _program: Owned,
    sums: MapHandle,
    /// The CPU of the sender, and so of the softirqs.
    pub cpu: usize,
}

/// The true values of a step, measured without netto.
pub struct Truth {
    /// When it was measured.
    pub from: SystemTime,
    /// When it was measured.
    pub to: SystemTime,
    /// The program's time.
    pub burnt: Burnt,
    /// Idle time, by CPU, nanoseconds.
    pub left: Vec<f64>,
}

impl Truth {
    /// Length of the measurement, seconds.
    pub fn seconds(&self) -> f64 {
        self.to
            .duration_since(self.from)
            .map_or(f64::NAN, |length| length.as_secs_f64())
    }
}

impl SweepSetup {
    /// Sets all up; packets take so long in the program.
    pub fn new(burn_ns: u64) -> Result<Self> {
        needs_kernel(6, 6, "tcx")?;
        let network = Network::direct()?;
        let program = traffic::agent(&network.right, &["burn", "lan", &burn_ns.to_string()])?;
        let sums = burn::sums()?;
        Ok(SweepSetup {
            network,
            _program: program,
            sums,
            cpu: cpus::count()? - 1,
        })
    }

    /// Sends at one rate, and returns the true values.
    pub fn step(&self, per_second: u64, pace: Pace, left: Option<&LeftOver>) -> Result<Truth> {
        let to = std::net::SocketAddr::new(self.network.nobody_v4, 9).to_string();
        let (rate, cpu) = (per_second.to_string(), self.cpu.to_string());
        let _sender = traffic::agent(&self.network.left, &["udp-paced", &to, &rate, &cpu])?;
        let truth = self.watch(pace, left)?;
        ensure!(
            truth.burnt.packets > 0,
            "no packet came to the program that burns time"
        );
        Ok(truth)
    }

    /// Measures without sending.
    pub fn watch(&self, pace: Pace, left: Option<&LeftOver>) -> Result<Truth> {
        let left_ns = || left.map_or_else(Vec::new, LeftOver::left_ns);
        std::thread::sleep(pace.settle);
        let (from, burnt, left_before) = (SystemTime::now(), burn::read(&self.sums)?, left_ns());
        std::thread::sleep(pace.measured);
        let (to, burnt_after, left_after) = (SystemTime::now(), burn::read(&self.sums)?, left_ns());
        Ok(Truth {
            from,
            to,
            burnt: burnt_after.since(burnt),
            left: left_after
                .iter()
                .zip(&left_before)
                .map(|(after, before)| (after - before) as f64)
                .collect(),
        })
    }
}

/// netto's figure for the known time.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// Share of a CPU by netto.
    pub by_netto: f64,
    /// The bounds of its 95 % interval.
    pub low: f64,
    /// The bounds of its 95 % interval.
    pub high: f64,
    /// Share of a CPU in truth.
    pub truth: f64,
}

impl Figure {
    /// For a step; the snapshot's interval is longer by its ends beyond the step.
    pub fn of(info: &Info, sum: &Snapshot, truth: &Truth) -> Result<Self> {
        let row = index_of(PART).context("no such row")?;
        let by_netto_ns = sum.total_ns(row).with_context(|| format!("no {PART}"))?;
        let (low_ns, high_ns) = confidence::of_component(info, sum, row)
            .with_context(|| format!("{PART} has no interval"))?;
        let share = |ns: u64| ns as f64 / sum.interval_ns as f64;
        Ok(Figure {
            by_netto: share(by_netto_ns),
            low: share(low_ns),
            high: share(high_ns),
            truth: truth.burnt.time_ns as f64 / 1e9 / truth.seconds(),
        })
    }

    /// Whether the truth lies in the interval, made wider by so many times its half, and what is
    /// around the program.
    pub fn holds(&self, half_widths: f64) -> bool {
        let low = self.by_netto - half_widths * (self.by_netto - self.low);
        let high = self.by_netto + half_widths * (self.high - self.by_netto);
        self.truth >= low * (1.0 - AROUND) && self.truth <= high * (1.0 + AROUND)
    }
}

/// How the timed events are measured, one word for each: a change of a word is a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ways(Vec<(String, String)>);

impl Ways {
    /// As netto says.
    pub fn of(info: &Info) -> Self {
        let timed = info
            .components
            .iter()
            .filter(|row| row.kind == KindName::Timed);
        Ways(
            timed
                .map(|row| {
                    let way = match &row.availability {
                        Availability::Available { method } => method.to_string(),
                        Availability::Unavailable { .. } => "unavailable".to_owned(),
                    };
                    (row.slug.clone(), way)
                })
                .collect(),
        )
    }

    /// The way of one event.
    pub fn way(&self, slug: &str) -> &str {
        let found = self.0.iter().find(|(event, _)| event == slug);
        found.map_or("", |(_, way)| way)
    }

    /// Of how many events it differs.
    fn differences<'a>(&'a self, other: &'a Ways) -> impl Iterator<Item = &'a str> {
        let both = self.0.iter().zip(&other.0);
        both.filter(|(one, other)| one != other)
            .map(|(one, _)| one.0.as_str())
    }
}

/// Counts switches, event by event.
pub struct Switches {
    last: Ways,
    counts: std::collections::BTreeMap<String, u64>,
}

impl Switches {
    /// From here on.
    pub fn from(info: &Info) -> Self {
        Switches {
            last: Ways::of(info),
            counts: Default::default(),
        }
    }

    /// Adds netto's current methods.
    pub fn see(&mut self, info: &Info) {
        let now = Ways::of(info);
        for slug in now.differences(&self.last) {
            *self.counts.entry(slug.to_owned()).or_default() += 1;
        }
        self.last = now;
    }

    /// The event that has switched most often, and how often.
    pub fn most(&self) -> (&str, u64) {
        let most = self.counts.iter().max_by_key(|(_, count)| **count);
        most.map_or(("any event", 0), |(slug, count)| (slug, *count))
    }
}

/// Waits for netto's values of a step.
pub fn seen(daemon: &mut Followed, switches: &mut Switches, truth: &Truth) -> Result<Snapshot> {
    let unix_ns = |time: SystemTime| -> Result<u64> {
        Ok(time.duration_since(SystemTime::UNIX_EPOCH)?.as_nanos() as u64)
    };
    let (from, to) = (unix_ns(truth.from)?, unix_ns(truth.to)?);
    let mut sum: Option<Snapshot> = None;
    loop {
        let next = daemon.next()?;
        switches.see(&daemon.info);
        let (begun, ended) = (
            next.time_unix_ns.saturating_sub(next.interval_ns),
            next.time_unix_ns,
        );
        if begun >= from && ended <= to {
            match &mut sum {
                Some(sum) => sum.add(&next),
                None => sum = Some(next),
            }
        }
        if ended > to {
            break;
        }
    }
    match sum {
        Some(sum) => Ok(sum),
        None => bail!("a step is shorter than an interval of netto's"),
    }
}

fn figures_hold_from_few_packets_to_the_most_and_back() -> Result<()> {
    let switches = hold_at("1", &STEPS)?;
    let (slug, count) = switches.most();
    ensure!(
        count <= MOST_SWITCHES_OF_AN_EVENT,
        "{slug} was measured in another way {count} times"
    );
    Ok(())
}

fn where_the_budget_leaves_few_samples_intervals_say_so() -> Result<()> {
    hold_at("0.1", &STEPS_OF_FEW_SAMPLES).map(drop)
}

/// Checks figures at each step for this budget in per cent; returns the methods used.
fn hold_at(max_overhead: &str, steps: &[u64]) -> Result<Switches> {
    let setup = SweepSetup::new(BURN_NS)?;
    let mut daemon = Followed::start_with(&["--max-overhead", max_overhead])?;
    let mut switches = Switches::from(&daemon.info);
    let mut failures = Vec::new();
    for &per_second in steps {
        let truth = setup.step(per_second, PACE, None)?;
        let sum = seen(&mut daemon, &mut switches, &truth)?;
        let figure = Figure::of(&daemon.info, &sum, &truth)?;
        let message = format!(
            "{:.0} packets/s: {:.3} % of a CPU by netto ({:.3} … {:.3}), {:.3} in truth",
            truth.burnt.packets as f64 / truth.seconds(),
            100.0 * figure.by_netto,
            100.0 * figure.low,
            100.0 * figure.high,
            100.0 * figure.truth
        );
        println!("\n{message}");
        ensure!(truth.burnt.packets > 0, "no packet came through");
        if !figure.holds(HALF_WIDTHS) {
            failures.push(message);
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(switches)
}
