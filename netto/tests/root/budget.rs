//! netto's budget: probes are detached when their events are too frequent, and attached again; idle
//! CPUs are not sampled. `sweep` checks the figures meanwhile.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use metrics_common::component::index_of;
use metrics_common::{Availability, Info, Method, Snapshot};

use crate::burners::{cpu_seconds, softirq_counts};
use crate::child;
use crate::daemon::Daemon;
use crate::follow::Followed;
use crate::lab::Network;
use crate::traffic;
use crate::trial::tests;

tests! {
    budget::softirqs_that_come_too_often_are_sampled_and_counted_all_the_same ["ip"]
        = || softirqs_go().map(drop);
    budget::softirqs_that_have_become_rare_are_timed_again ["ip"] = softirqs_come_back;
    budget::whoever_asks_for_a_means_gets_it_whatever_it_costs ["ip"]
        = a_means_that_was_asked_for_stays;
    budget::drops_that_are_too_many_are_estimated_in_every_interval ["ip"] = drops_are_estimated;
    budget::the_start_is_no_part_of_the_first_intervals_cost = start_is_free;
    budget::a_cpu_that_idles_is_not_sampled_until_it_does_networking ["ip"]
        = idle_cpus_are_left_alone;
}

/// The least that can be asked for: one packet in some microseconds is too much.
const LITTLE: [&str; 2] = ["--max-overhead", "0.1"];
const FLOOD: Duration = Duration::from_secs(3);
/// Softirqs that netto counts beside the kernel's counters, which are read at other moments.
const COUNTED: std::ops::RangeInclusive<f64> = 0.5..=2.0;

fn method(info: &Info, slug: &str) -> Result<Method> {
    let row = index_of(slug).context("no such row")?;
    match &info.components[row].availability {
        Availability::Available { method } => Ok(method.clone()),
        Availability::Unavailable { reason } => bail!("{slug}: {reason}"),
    }
}

fn wait_for_method(daemon: &Daemon, slug: &str, wanted: Method) -> Result<()> {
    child::eventually(|| {
        let now = method(&daemon.info()?, slug)?;
        ensure!(now == wanted, "{slug} is measured by {now}");
        Ok(())
    })
}

fn softirqs(sum: &Snapshot) -> Result<u64> {
    let row = index_of("rx_softirq").context("no such row")?;
    let entries = sum.cost().entries_of(row).context("not counted")?;
    Ok(entries.iter().sum())
}

/// A daemon whose probes on softirqs have gone, and whose load has ended.
fn softirqs_go() -> Result<Followed> {
    let network = Network::direct()?;
    let [option, value] = LITTLE;
    let mut followed = Followed::start_with(&[option, value, "--log-level", "debug"])?;
    wait_for_method(followed.daemon(), "rx_softirq", Method::TpBtf)?;
    let load = traffic::udp_blast(&network.left, network.right_v4)?;
    wait_for_method(followed.daemon(), "rx_softirq", Method::Sampling)?;
    let by_kernel = || -> Result<u64> {
        let counts = softirq_counts()?;
        counts.get("NET_RX").copied().context("no such softirq")
    };
    let (before, from) = (by_kernel()?, SystemTime::now());
    std::thread::sleep(FLOOD);
    let (after, to) = (by_kernel()?, SystemTime::now());
    let sum = followed.between(from, to)?;
    let whole = sum.interval_ns as f64 / to.duration_since(from)?.as_nanos() as f64;
    let (counted, expected) = (softirqs(&sum)? as f64, (after - before) as f64 * whole);
    println!("\n{expected:.0} RX softirqs, {counted:.0} counted without a probe");
    ensure!(COUNTED.contains(&(counted / expected)));
    let rx = index_of("rx_softirq").context("no such row")?;
    ensure!(
        sum.total_ns(rx).is_some_and(|ns| ns > 0),
        "no time was found"
    );
    drop(load);
    let stderr = followed.daemon().process.stderr();
    let alternate = stderr.matches("Methods alternate").count();
    ensure!(alternate == 1, "told {alternate} times:\n{stderr}");
    ensure!(
        stderr.contains("a load has begun"),
        "the period went on:\n{stderr}"
    );
    Ok(followed)
}

/// Counted in windows, drops have no gaps, their sum, and the share of the time that was counted. How
/// near few windows come to the truth is chance, which the pure tests of windows have by seeds.
fn drops_are_estimated() -> Result<()> {
    let network = Network::direct()?;
    // With less, windows may be half a minute apart.
    let mut followed = Followed::start_with(&["--max-overhead", "0.5"])?;
    followed.next()?;
    let load = traffic::udp_blast(&network.left, network.right_v4)?;
    let is_estimated = |snapshot: &Snapshot| {
        let drops = snapshot.sections.drops.as_ref();
        Ok::<_, anyhow::Error>(drops.context("a gap")?.estimated)
    };
    let mut windows = 0;
    followed.find(
        |last| format!("{:?}", last.sections.drops),
        |snapshot| {
            let is_window = is_estimated(snapshot)?.is_some_and(|estimate| estimate.counted_ns > 0);
            let drops = snapshot.sections.drops.as_ref();
            windows += usize::from(is_window && drops.is_some_and(|counts| counts.total() > 0));
            Ok((windows == 3).then_some(()))
        },
    )?;
    let mut sum = followed.next()?;
    let begun = Instant::now();
    while begun.elapsed() < FLOOD {
        let snapshot = followed.next()?;
        is_estimated(&snapshot)?.context("all of them are counted again")?;
        sum.add(&snapshot);
    }
    let drops = sum.sections.drops.context("no drops")?;
    let estimated = drops.estimated.context("not estimated")?;
    println!("\n{} drops", drops.total());
    println!("{}", estimated.sentence("Dropped packets"));
    ensure!(estimated.ns == sum.interval_ns && estimated.counted_ns < estimated.ns);
    drop(load);
    let stderr = followed.daemon().process.stderr();
    let alternate = stderr.matches("Methods alternate").count();
    ensure!(alternate == 1, "told {alternate} times:\n{stderr}");
    Ok(())
}

/// Loading programs and reading symbols is most of what the process has taken by then, on a fast
/// host and on a slow one.
fn start_is_free() -> Result<()> {
    let mut followed = Followed::from_first_interval(&["--user-period", "500"])?;
    let first = followed.next()?;
    let in_all = cpu_seconds(&followed.daemon().process)?;
    let own_cost = first.sections.own.as_ref().context("no own cost")?;
    let of_interval = Duration::from_nanos(own_cost.user_ns + own_cost.system_ns).as_secs_f64();
    println!("\n{of_interval:.3} s of the first interval, {in_all:.2} s in all");
    ensure!(of_interval < in_all / 2.0);
    Ok(())
}

fn softirqs_come_back() -> Result<()> {
    let followed = softirqs_go()?;
    wait_for_method(followed.daemon(), "rx_softirq", Method::TpBtf)
}

fn a_means_that_was_asked_for_stays() -> Result<()> {
    let network = Network::direct()?;
    let info = Daemon::start(&LITTLE)?.info()?;
    let [least, value] = LITTLE;
    // Without probes there is nothing to detach.
    let daemon = Daemon::start(&[least, value, "--method", "sampling"])?;
    let _load = traffic::udp_blast(&network.left, network.right_v4)?;
    std::thread::sleep(FLOOD);
    ensure!(method(&daemon.info()?, "rx_softirq")? == Method::Sampling);
    if method(&info, "tx_syscall")? == Method::Fentry {
        let daemon = Daemon::start(&[least, value, "--method", "fentry"])?;
        std::thread::sleep(FLOOD);
        let info = daemon.info()?;
        ensure!(method(&info, "rx_softirq")? == Method::TpBtf);
        ensure!(method(&info, "tx_syscall")? == Method::Fentry);
    }
    Ok(())
}

/// The rates are read from the log: a request over HTTP would be networking.
fn idle_cpus_are_left_alone() -> Result<()> {
    let network = Network::direct()?;
    let mut followed = Followed::start_with(&["--sampler", "perf"])?;
    let first = rates(&followed.next()?)?;
    ensure!(first.iter().all(|hz| *hz == 1000), "at first {first:?}");
    // A CPU with other work is sampled twenty times a second.
    rates_become(&mut followed, |rates| rates.iter().all(|hz| *hz <= 20))?;
    let _load = traffic::udp_blast(&network.left, network.right_v4)?;
    rates_become(&mut followed, |rates| rates.contains(&1000))
}

fn rates(snapshot: &Snapshot) -> Result<Vec<u64>> {
    let own_cost = snapshot.sections.own.as_ref().context("no own cost")?;
    own_cost.sampling_hz.clone().context("no rates")
}

fn rates_become(followed: &mut Followed, is_so: impl Fn(&[u64]) -> bool) -> Result<()> {
    followed.catch_up()?;
    followed.find(
        |last| format!("{:?}", rates(last)),
        |snapshot| Ok(is_so(&rates(snapshot)?).then_some(())),
    )
}
