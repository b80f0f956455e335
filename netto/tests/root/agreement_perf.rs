//! netto with its defaults agrees with an independent sampler, `perf record` at 997 Hz, on what each component
//! takes of the same host at the same time.
//!
//! Both have the same rules of what a stack shows, so that what differs is how stacks are taken: how many there
//! are, by which clock, and what netto makes of them. All components of all loads are held together: a family-wise
//! 5 %, by Šidák's bound (Z. Šidák, *Rectangular confidence regions*, JASA 62, 1967).

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStdout, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use metrics_common::component::{children, index_of_source};
use metrics_common::{COMPONENTS, Info, Kind, Snapshot, Source, confidence};
use netto_analysis::classify::{Classifier, SampleOwner};
use netto_estimate::quantile::NORMAL;

use crate::child::{self, Owned};
use crate::follow::Followed;
use crate::lab::Network;
use crate::traffic;
use crate::trial::{NotOnThisKernel, tests};

tests! {
    agreement::the_defaults_agree_with_perf_at_997_hz ["ip", "nft", "bridge", "perf"];
}

/// What a user has who gives no option.
const DEFAULTS: &[&str] = &[
    "--max-overhead",
    "1",
    "--sampler",
    "auto",
    "--user-period",
    "500",
];
/// Samples a second of each CPU that `perf record -F 997` takes of a CPU that is never idle: the kernel makes one
/// period of the rate.
const PERF_HZ: f64 = 997.0;
/// Until the plan fits the load.
const SETTLE: Duration = Duration::from_secs(15);
const MEASURED: Duration = Duration::from_secs(60);
/// Components with less of the host's CPU time are left out.
const LEAST: f64 = 0.02;
/// Of all comparisons together.
const FAMILY_WISE: f64 = 0.05;
/// The load changes while other tests compile, and the windows' ends differ by an interval: relative.
const AROUND: f64 = 0.01;

/// Softirqs by their functions.
const ACTIONS: [(&str, Source); 9] = [
    ("net_rx_action", Source::NET_RX),
    ("net_tx_action", Source::NET_TX),
    ("run_timer_softirq", Source::TIMER),
    ("hrtimer_run_softirq", Source::HRTIMER),
    ("tasklet_action", Source::TASKLET),
    ("tasklet_hi_action", Source::HI),
    ("blk_done_softirq", Source::BLOCK),
    ("sched_balance_softirq", Source::SCHED),
    ("rcu_core_si", Source::RCU),
];

fn the_defaults_agree_with_perf_at_997_hz() -> Result<()> {
    let mut rows = Vec::new();
    let bridged = bridged()?;
    let direct = Network::direct()?;
    rows.extend(compare("TCP", || {
        let load = traffic::tcp(&direct.left, &direct.right, direct.right_v4)?;
        Ok(Vec::from(load))
    })?);
    rows.extend(compare("small UDP", || {
        let load = traffic::udp(&direct.left, &direct.right, direct.right_v4)?;
        Ok(Vec::from(load))
    })?);
    drop(direct);
    rows.extend(compare("bridge with nft and conntrack", || {
        let load = traffic::udp(&bridged.left, &bridged.right, bridged.right_v4)?;
        Ok(Vec::from(load))
    })?);
    judge(&rows)
}

/// A bridge whose packets are tracked, and pass rules of both kinds.
fn bridged() -> Result<Network> {
    let bridged = Network::bridged()?;
    let middle = bridged.middle.as_ref().context("a bridge")?;
    middle
        .sysctl("net/bridge/bridge-nf-call-iptables", "1")
        .map_err(|_| NotOnThisKernel("needs CONFIG_BRIDGE_NETFILTER".to_owned()))?;
    middle.nft(
        "table inet tracked {
            chain c { type filter hook forward priority 0; policy accept; ct state established counter; }
        }
        table bridge ports {
            chain c { type filter hook forward priority 0; policy accept; ether type ip counter; }
        }",
    )?;
    Ok(bridged)
}

/// A share by both, with the distance to the nearer bound of each 95 % interval.
struct Compared {
    load: &'static str,
    slug: &'static str,
    netto: [f64; 3],
    perf: f64,
    perf_half: f64,
}

impl Compared {
    /// How far both are apart, in joint half-widths of 95 %.
    fn half_widths(&self) -> f64 {
        let [low, estimate, high] = self.netto;
        let toward = if self.perf < estimate {
            estimate - low
        } else {
            high - estimate
        };
        (self.perf - estimate).abs() / toward.hypot(self.perf_half).hypot(AROUND * self.perf)
    }
}

fn judge(rows: &[Compared]) -> Result<()> {
    let each = 1.0 - (1.0 - FAMILY_WISE).powf(1.0 / rows.len() as f64);
    let is_apart = |row: &&Compared| two_sided(NORMAL * row.half_widths()) < each;
    println!("\n{} components, each at {:.2} %", rows.len(), 100.0 * each);
    println!("| load | component | netto | perf | half-widths apart |\n|---|---|---|---|---|");
    for row in rows {
        let [low, estimate, high] = row.netto.map(|share| 100.0 * share);
        println!(
            "| {} | `{}` | {estimate:.1} ({low:.1}–{high:.1}) % | {:.1} ± {:.1} % | {:.2} |",
            row.load,
            row.slug,
            100.0 * row.perf,
            100.0 * row.perf_half,
            row.half_widths()
        );
    }
    let apart: Vec<String> = rows
        .iter()
        .filter(is_apart)
        .map(|row| format!("{} of {}", row.slug, row.load))
        .collect();
    ensure!(apart.is_empty(), "not within the joint interval: {apart:?}");
    Ok(())
}

/// How often chance alone is so many standard deviations off, either way (M. Abramowitz and I. A. Stegun, *Handbook
/// of Mathematical Functions*, 7.1.26).
fn two_sided(deviations: f64) -> f64 {
    const TERMS: [f64; 5] = [
        0.254_829_592,
        -0.284_496_736,
        1.421_413_741,
        -1.453_152_027,
        1.061_405_429,
    ];
    let x = deviations / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let sum = TERMS.iter().rev().fold(0.0, |sum, term| t * (term + sum));
    sum * (-x * x).exp()
}

/// Lets both measure a load: events as shares of the host's CPU time, parts as shares of their event.
fn compare(name: &'static str, load: impl Fn() -> Result<Vec<Owned>>) -> Result<Vec<Compared>> {
    let folder = tempfile::tempdir()?;
    let recorded = folder.path().join("perf.data");
    let mut netto = Followed::start_with(DEFAULTS)?;
    let _load = load()?;
    std::thread::sleep(SETTLE);
    // Perf takes a while to begin and to end.
    let mut perf = record(&recorded, MEASURED + Duration::from_secs(3))?;
    std::thread::sleep(Duration::from_secs(1));
    let from = SystemTime::now();
    std::thread::sleep(MEASURED);
    let sum = netto.between(from, SystemTime::now())?;
    let taken: u64 = sum.cost().stacks_taken.iter().sum();
    let rates = sum
        .sections
        .own
        .as_ref()
        .and_then(|cost| cost.sampling_hz.clone());
    println!(
        "\n{name}: {taken} stacks, {:?} a second at the end",
        rates.unwrap_or_default()
    );
    ensure!(perf.wait()?.success(), "perf: {}", perf.stderr());
    let to_ns = sum.time_unix_ns;
    let mut samples = Sampled::read(&recorded, [to_ns - sum.interval_ns, to_ns])?;
    let of_time = PERF_HZ * sum.capacity_ns() as f64 / 1e9;
    println!("perf: {} samples of {of_time:.0}", samples.all);
    // Some kernels take no samples of the idle task (docs/KERNELS.md): shares are of time, not of samples.
    samples.all = of_time;
    Ok(both(name, &netto.info, &sum, &samples))
}

fn record(to: &Path, length: Duration) -> Result<Owned> {
    let mut command = child::mortal("perf");
    let words = "record -q -a -F 997 -g --kernel-callchains -k CLOCK_REALTIME -e cpu-clock -o";
    command.args(words.split(' ')).arg(to);
    Owned::start(command.args(["--", "sleep", &length.as_secs().to_string()]))
}

/// Shares by both of each event and part that has enough.
fn both(load: &'static str, info: &Info, sum: &Snapshot, samples: &Sampled) -> Vec<Compared> {
    let capacity = sum.capacity_ns() as f64;
    let mut found = Vec::new();
    for (row, component) in COMPONENTS.iter().enumerate() {
        let Some(ns) = sum.total_ns(row) else {
            continue;
        };
        let of_event = matches!(component.kind, Kind::Sampled(_) | Kind::Remainder);
        let whole = COMPONENTS
            .iter()
            .position(|whole| of_event && Some(whole.slug) == component.parent);
        let whole_ns = whole.map_or(capacity, |whole| sum.total_ns(whole).unwrap_or(0) as f64);
        let of_whole = whole.map_or(samples.all, |whole| samples.rows[whole]);
        let is_large = (ns as f64 / capacity).max(samples.rows[row] / samples.all) >= LEAST;
        if component.kind == Kind::Sum || !is_large || of_whole <= 0.0 {
            continue;
        }
        let (low, high) = confidence::of_component(info, sum, row).unwrap_or((ns, ns));
        let perf = samples.rows[row] / of_whole;
        // Samples miss the begin and the end of a softirq, and netto times it.
        let unseen = match component.kind {
            Kind::Timed(Source::Softirq(_), _) => confidence::UNSEEN_OF_SOFTIRQS * perf,
            _ => 0.0,
        };
        found.push(Compared {
            load,
            slug: component.slug,
            netto: [low, ns, high].map(|ns| ns as f64 / whole_ns),
            perf,
            perf_half: (NORMAL * (perf * (1.0 - perf) / of_whole).sqrt()).hypot(unseen),
        });
    }
    found
}

/// What perf has recorded, by component.
struct Sampled {
    /// Samples of all components and of none.
    all: f64,
    rows: Vec<f64>,
}

impl Sampled {
    /// Reads the stacks between two times.
    fn read(recorded: &Path, [from_ns, to_ns]: [u64; 2]) -> Result<Sampled> {
        let symbols = File::open("/proc/kallsyms")?;
        let mut classifier = Classifier::new(BufReader::new(symbols))?;
        let actions = Actions::read()?;
        let mut script = child::mortal("perf")
            .args(["script", "--ns", "-F", "pid,cpu,time,ip", "-i"])
            .arg(recorded)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let output = script.stdout.take().context("no output")?;
        let mut sampled = Sampled {
            all: 0.0,
            rows: vec![0.0; COMPONENTS.len()],
        };
        for_each_stack(output, |head, frames| {
            let mut words = head.split_ascii_whitespace();
            let (process, cpu) = (words.next()?, words.next()?);
            let time: f64 = words.next()?.trim_end_matches(':').parse().ok()?;
            let cpu = cpu.trim_matches(['[', ']']).parse().ok()?;
            if (from_ns as f64..to_ns as f64).contains(&(time * 1e9)) {
                sampled.add(
                    &mut classifier,
                    &actions,
                    cpu,
                    process.parse().ok()?,
                    frames,
                );
            }
            Some(())
        })?;
        ensure!(script.wait()?.success(), "perf script failed");
        ensure!(sampled.all > 0.0, "perf has recorded nothing");
        Ok(sampled)
    }

    fn add(
        &mut self,
        classifier: &mut Classifier,
        actions: &Actions,
        cpu: usize,
        process: u32,
        frames: &[u64],
    ) {
        self.all += 1.0;
        let source = actions.of(classifier, frames);
        let kind = source.map_or(0, Source::clock_kind);
        let stack = classifier.recognise(kind, frames);
        let rest = source.and_then(index_of_source);
        let owner = classifier.owner_on(cpu, process, stack);
        let owner = owner.or(rest.map(|event| SampleOwner { event, part: None }));
        let Some(SampleOwner { event, part }) = owner else {
            return;
        };
        self.rows[event] += 1.0;
        let mut parts = children(event).iter().copied();
        let remainder = parts.find(|&row| COMPONENTS[row].kind == Kind::Remainder);
        if let Some(row) = part.or(remainder) {
            self.rows[row] += 1.0;
        }
    }
}

/// Calls `take` with the line and the frames of each stack that `perf script` prints.
fn for_each_stack(
    output: ChildStdout,
    mut take: impl FnMut(&str, &[u64]) -> Option<()>,
) -> Result<()> {
    let (mut head, mut frames) = (String::new(), Vec::new());
    for line in BufReader::new(output).lines() {
        let line = line?;
        match line.trim() {
            "" => {
                if !head.is_empty() {
                    take(&head, &frames).with_context(|| format!("a line of perf's: {head}"))?;
                }
                head.clear();
                frames.clear();
            }
            text if line.starts_with('\t') => frames.push(u64::from_str_radix(text, 16)?),
            text => text.clone_into(&mut head),
        }
    }
    Ok(())
}

/// The functions of softirqs.
struct Actions(Vec<(u64, Source)>);

impl Actions {
    fn read() -> Result<Actions> {
        let text = std::fs::read_to_string("/proc/kallsyms")?;
        let of_line = |line: &str| {
            let mut words = line.split(' ');
            let start = u64::from_str_radix(words.next()?, 16).ok()?;
            let name = words.nth(1)?;
            let mut known = ACTIONS.iter();
            known
                .find(|(action, _)| *action == name)
                .map(|(_, source)| (start, *source))
        };
        Ok(Actions(text.lines().filter_map(of_line).collect()))
    }

    /// The softirq that a stack is in: the innermost, as softirqs do not interrupt each other.
    fn of(&self, classifier: &Classifier, frames: &[u64]) -> Option<Source> {
        let source = |start: u64| {
            let mut actions = self.0.iter();
            actions
                .find(|(action, _)| *action == start)
                .map(|(_, source)| *source)
        };
        let mut starts = frames.iter().map(|frame| frame + 1);
        starts.find_map(|frame| source(classifier.function_returned_to(frame)?))
    }
}
