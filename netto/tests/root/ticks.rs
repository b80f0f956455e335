//! Stacks sampled by the scheduler's tick, beside few by perf's clock: they show who was interrupted and
//! nothing of the interrupt, and the split that they give holds a known cost in its interval.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use metrics_common::component::index_of;
use metrics_common::{Info, Snapshot, confidence};

use crate::burners::{ProgramAccounts, program_seconds};
use crate::child::{self, Owned, eventually};
use crate::daemon::Shared;
use crate::flows::OTHER_CPU;
use crate::follow::Followed;
use crate::kernels::{Statistics, programs};
use crate::lab::Network;
use crate::lab_itself::needs_kernel;
use crate::programs::by_kernel;
use crate::traffic;
use crate::trial::{NotOnThisKernel, tests};

tests! {
    ticks::both_clocks_take_samples ["ip"];
    ticks::no_more_samples_are_taken_than_were_asked_for ["ip"];
    ticks::many_timers_of_others_detach_its_program;
    ticks::a_tc_program_has_the_share_that_the_kernel_says_it_ran ["ip"];
    ticks::they_split_the_rx_softirq_as_perfs_clock_does ["ip"];
    ticks::beside_perfs_clocks_too_sampled_softirqs_and_a_tc_program_are_within_their_intervals ["ip", "perf"]
        = || [0, 2].into_iter().try_for_each(beside_perf);
}

const SETTLE: Duration = Duration::from_secs(1);
/// Until softirqs are sampled.
const CHANGED: Duration = Duration::from_secs(8);
/// Some hundred ticks that meet the RX softirq.
const MEASURED: Duration = Duration::from_secs(10);
/// A truth may lie so many half-widths of the 95 % interval off: four standard deviations.
const HALF_WIDTHS: f64 = 2.0;
/// With a wider one the test would say nothing.
const WIDEST: f64 = 0.25;
/// By how much intervals that end at different moments may differ.
const AROUND: f64 = 0.02;
/// Packets a second, each in a softirq of its own: to time these costs more than this budget.
const DEAR: &str = "40000";
const BUDGET: &str = "0.3";
/// Cost of calling a program, relative to one that runs for microseconds.
const CALL: f64 = 0.1;

/// Threads that sleep shortly.
const SLEEPERS: usize = 4;
/// A rate that is lower than that of the ticks of any kernel.
const SELDOM_HZ: f64 = 40.0;

/// A daemon that samples by the tick; a skip if there is none.
fn by_ticks() -> Result<Followed> {
    by_ticks_and(&[])
}

fn by_ticks_and(options: &[&str]) -> Result<Followed> {
    let options = [&["--sampler", "tick"], options].concat();
    must_tick(Followed::start_with(&options))
}

fn must_tick(started: Result<Followed>) -> Result<Followed> {
    let followed = started.map_err(|error| {
        let message = format!("{error:#}");
        if message.contains("--sampler tick is not possible here") {
            NotOnThisKernel(message).into()
        } else {
            error
        }
    })?;
    ensure!(followed.info.sampler.as_deref() == Some("tick+perf"));
    Ok(followed)
}

/// Perf's events that a process holds.
fn events_of(pid: u32) -> Result<usize> {
    let mut events = 0;
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
        // A descriptor may be closed meanwhile.
        let target = std::fs::read_link(entry?.path()).unwrap_or_default();
        events += usize::from(target.to_string_lossy().contains("perf_event"));
    }
    Ok(events)
}

fn both_clocks_take_samples() -> Result<()> {
    let network = Network::direct()?;
    let perf = Shared::take()?;
    ensure!(perf.info()?.sampler.as_deref() == Some("perf"));
    ensure!(events_of(perf.process.pid())? > 0, "perf without an event");
    let mut ticks = must_tick(Followed::start_beside(&["--sampler", "tick"]))?;
    ensure!(events_of(ticks.pid())? > 0, "the tick without perf's clock");
    let _load = traffic::udp_blast(&network.left, network.nobody_v4)?;
    std::thread::sleep(SETTLE);
    ticks.catch_up()?;
    // Ticks that take one are chosen at random: an interval may have none.
    eventually(|| {
        let snapshot = ticks.next()?;
        let shared_ns = snapshot.cost().ticks_shared_ns.as_ref();
        let shared_ns = shared_ns.context("the tick takes no samples")?;
        ensure!(
            shared_ns.iter().any(|ns| *ns > 0),
            "no time rests on a tick's stack"
        );
        Ok(())
    })?;
    // As often as it says, by both, and none twice.
    let from = SystemTime::now();
    std::thread::sleep(SETTLE);
    let sum = ticks.between(from, SystemTime::now())?;
    let most = sum.capacity_ns() as f64 / 1e9 * ticks.info.frequency_hz as f64;
    let taken: u64 = sum.cost().stacks_taken.iter().sum();
    println!("\n{taken} stacks, of {most:.0} at most");
    ensure!(taken as f64 <= 1.1 * most, "{taken} stacks of {most}");
    Ok(())
}

/// Each of the kernel's timers calls the program. A thread that sleeps shortly has some thousand a second.
fn many_timers_of_others_detach_its_program() -> Result<()> {
    let _statistics = Statistics::enable()?;
    let ticks = by_ticks_and(&["--max-overhead", "0.2"])?;
    let runs_of_a_second = || -> Result<u64> {
        let runs = || Ok::<_, anyhow::Error>(programs(ticks.pid())?["netto_tick"].runs);
        let before = runs()?;
        std::thread::sleep(SETTLE);
        Ok(runs()? - before)
    };
    ensure!(runs_of_a_second()? > 0, "no timer has called it");
    let is_over = AtomicBool::new(false);
    let sleep = || {
        while !is_over.load(Relaxed) {
            std::thread::sleep(Duration::from_micros(50));
        }
    };
    std::thread::scope(|scope| {
        (0..SLEEPERS).for_each(|_| drop(scope.spawn(sleep)));
        let detached = eventually(|| {
            let runs = runs_of_a_second()?;
            ensure!(runs == 0, "{runs} timers a second still call it");
            Ok(())
        });
        is_over.store(true, Relaxed);
        detached
    })
}

fn no_more_samples_are_taken_than_were_asked_for() -> Result<()> {
    let network = Network::direct()?;
    let hz = SELDOM_HZ.to_string();
    let mut ticks = by_ticks_and(&["--frequency", &hz])?;
    let _load = traffic::udp_blast(&network.left, network.nobody_v4)?;
    std::thread::sleep(SETTLE);
    let from = SystemTime::now();
    std::thread::sleep(MEASURED / 2);
    let sum = ticks.between(from, SystemTime::now())?;
    let busiest = sum.cost().stacks_taken.iter().max().copied().unwrap_or(0);
    let due = SELDOM_HZ * sum.interval_ns as f64 / 1e9;
    let rx = index_of("rx_softirq").context("no such row")?;
    println!("\n{busiest} stacks of at most {due:.0} on the busiest CPU");
    // How much of the time is that of the program in user mode depends on the host; five standard
    // deviations more.
    let most = due + 5.0 * due.sqrt();
    ensure!(
        (due / 20.0..most).contains(&(busiest as f64)),
        "{busiest} of {due}"
    );
    let rates = sum
        .sections
        .own
        .as_ref()
        .and_then(|own_cost| own_cost.sampling_hz.clone());
    ensure!(
        rates.iter().flatten().all(|rate| *rate as f64 <= SELDOM_HZ),
        "{rates:?}"
    );
    ensure!(
        sum.total_ns(rx).is_some_and(|ns| ns > 0),
        "nothing was found"
    );
    Ok(())
}

/// A part's time and half of its stated interval, nanoseconds.
fn part(info: &Info, sum: &Snapshot, slug: &str) -> Result<(f64, f64)> {
    let row = index_of(slug).context("no such row")?;
    let time_ns = sum.total_ns(row).context("not measured")?;
    let (low, high) = confidence::of_component(info, sum, row).context("no interval")?;
    Ok((time_ns as f64, (high - low) as f64 / 2.0))
}

fn a_tc_program_has_the_share_that_the_kernel_says_it_ran() -> Result<()> {
    const PART: &str = "tc_classify";
    needs_kernel(6, 6, "tcx")?;
    let network = Network::direct()?;
    let _accounts = ProgramAccounts::open()?;
    let _program = traffic::agent(&network.right, &["attach", "tcx", "lan"])?;
    let mut ticks = by_ticks()?;
    let _traffic = traffic::udp_blast(&network.left, network.nobody_v4)?;
    std::thread::sleep(SETTLE);
    let (from, ran) = (SystemTime::now(), program_seconds());
    std::thread::sleep(MEASURED);
    let (to, ran) = (SystemTime::now(), program_seconds() - ran);
    let sum = ticks.between(from, to)?;
    let (time_ns, half_ns) = part(&ticks.info, &sum, PART)?;
    let ran_ns = ran * 1e9;
    println!(
        "\n{PART}: {:.0} ± {:.0} ms by ticks, {:.0} ms by the kernel's account",
        time_ns / 1e6,
        half_ns / 1e6,
        ran_ns / 1e6
    );
    ensure!(half_ns < WIDEST * time_ns, "too few ticks have met it");
    let off_ns = HALF_WIDTHS * half_ns;
    ensure!(
        time_ns > ran_ns - off_ns && time_ns < (1.0 + CALL) * ran_ns + off_ns,
        "{PART}: {time_ns} ± {half_ns} ns, {ran_ns} ns in truth"
    );
    Ok(())
}

/// A clock of perf's on each CPU, until dropped.
fn perf_clock() -> Result<Owned> {
    let mut command = child::mortal("perf");
    let words = "record -a -F 999 -e cpu-clock -o /dev/null";
    Owned::start(command.args(words.split(' ')))
}

/// A time by ticks with its interval, and the truth; nanoseconds.
fn holds(what: &str, [low, estimate, high]: [f64; 3], truth: f64) -> Result<()> {
    let [lower, upper] = [estimate - low, high - estimate].map(|half| HALF_WIDTHS * half);
    println!(
        "{what}: {:.0} ({:.0} to {:.0}) ms by ticks, {:.0} ms in truth: {:+.1} %",
        estimate / 1e6,
        low / 1e6,
        high / 1e6,
        truth / 1e6,
        100.0 * (estimate / truth - 1.0)
    );
    ensure!(
        (estimate - lower - AROUND * truth..=estimate + upper + CALL * truth).contains(&truth),
        "{what}: {estimate} ns, from {low} to {high}, and {truth} in truth"
    );
    Ok(())
}

/// The factor of sampled softirqs was learnt, and the load measured, beside so many samplers. Another
/// netto times the softirq.
fn beside_perf(clocks: usize) -> Result<()> {
    needs_kernel(6, 6, "tcx")?;
    let network = Network::direct()?;
    let _accounts = ProgramAccounts::open()?;
    let _program = traffic::agent(&network.right, &["attach", "tcx", "lan"])?;
    let id = by_kernel()?.id;
    let _clocks: Vec<Owned> = (0..clocks).map(|_| perf_clock()).collect::<Result<_>>()?;
    let to = SocketAddr::new(network.nobody_v4, 9).to_string();
    let cpu = OTHER_CPU.to_string();
    let _traffic = traffic::agent(&network.left, &["udp-paced", &to, DEAR, &cpu])?;
    let mut timed = by_ticks_and(&["--max-overhead", "100"])?;
    let mut ticks = by_ticks_and(&["--max-overhead", BUDGET])?;
    std::thread::sleep(CHANGED);
    let (from, ran) = (SystemTime::now(), program_seconds());
    std::thread::sleep(MEASURED);
    let (to, ran) = (SystemTime::now(), program_seconds() - ran);
    let (sum, truth) = (ticks.between(from, to)?, timed.between(from, to)?);
    println!("\nbeside {clocks}: {:?}", sum.cost().softirq_correction);
    let ratio = truth.interval_ns as f64 / sum.interval_ns as f64;
    for (slug, is_program) in [("rx_softirq", false), ("tc_classify", true)] {
        let row = index_of(slug).context("no such row")?;
        let estimate = sum.total_ns(row).context("not measured")? as f64;
        let interval = confidence::of_component(&ticks.info, &sum, row);
        let interval = interval.map(|(low, high)| (low as f64, high as f64));
        let (low, high) = interval.context("softirqs are timed")?;
        let truth = if is_program {
            ran * 1e9
        } else {
            truth.total_ns(row).context("not timed")? as f64 / ratio
        };
        holds(slug, [low, estimate, high], truth)?;
    }
    let programs = sum.sections.programs.as_ref().context("no programs")?;
    let mut programs = programs.programs.iter();
    let program = programs.find(|program| program.about.id == id);
    let program = program.context("the program was not met")?;
    let estimate = program.total_ns() as f64;
    let half = estimate * program.margin_ratio().context("no samples")?;
    holds(
        "the program",
        [estimate - half, estimate, estimate + half],
        ran * 1e9,
    )
}

/// Both daemons time the softirq, and split it by different samples.
fn they_split_the_rx_softirq_as_perfs_clock_does() -> Result<()> {
    let network = Network::direct()?;
    let mut ticks = by_ticks()?;
    let mut perf = Followed::start_with(&["--sampler", "perf"])?;
    let _load = traffic::udp(&network.left, &network.right, network.right_v4)?;
    std::thread::sleep(SETTLE);
    let from = SystemTime::now();
    std::thread::sleep(MEASURED);
    let to = SystemTime::now();
    let (by_ticks, by_perf) = (ticks.between(from, to)?, perf.between(from, to)?);
    println!();
    for slug in ["local_delivery_v4", "rx_core", "backlog", "rx_unattributed"] {
        let (tick_ns, tick_half) = part(&ticks.info, &by_ticks, slug)?;
        let (perf_ns, perf_half) = part(&perf.info, &by_perf, slug)?;
        let half_ns = tick_half.hypot(perf_half);
        println!(
            "{slug}: {:.0} ± {:.0} ms by ticks, {:.0} ± {:.0} ms by perf's clock",
            tick_ns / 1e6,
            tick_half / 1e6,
            perf_ns / 1e6,
            perf_half / 1e6
        );
        ensure!(
            (tick_ns - perf_ns).abs() < HALF_WIDTHS * half_ns,
            "{slug}: {tick_ns} ns by ticks, {perf_ns} ns by perf's clock, ± {half_ns}"
        );
    }
    let rx = index_of("rx_softirq").context("no such row")?;
    for (name, info, sum) in [
        ("ticks", &ticks.info, &by_ticks),
        ("perf's clock", &perf.info, &by_perf),
    ] {
        let samples = sum.cost().samples[rx].iter().flatten().sum::<u32>();
        let share = f64::from(samples)
            / info.frequency_hz as f64
            / (sum.total_ns(rx).unwrap_or(0) as f64 / 1e9);
        println!("{name}: {samples} samples in the RX softirq, {share:.3} of what its clock says");
    }
    Ok(())
}
