//! A host with little traffic: few samples, and still the same split.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use metrics_common::component::index_of;
use metrics_common::{Info, Snapshot};
use netto_estimate::proportion::wilson;

use crate::follow::Followed;
use crate::lab::Network;
use crate::traffic;
use crate::trial::tests;

tests! {
    sparse::little_traffic_is_split_as_much_traffic_is ["ip"];
}

const SETTLE: Duration = Duration::from_millis(500);
const BUSY: Duration = Duration::from_secs(3);
/// At some ms of RX softirq a second: some hundred samples.
const QUIET: Duration = Duration::from_secs(20);
/// The share may differ by so many half-widths of its 95 % interval: four standard deviations.
const HALF_WIDTHS: f64 = 2.0;
/// And by so much besides: packets that come one by one, to caches that have grown cold,
/// cost more in other places. Intervals without a sample are half of all here and more.
const OTHER_COSTS: f64 = 0.08;
/// More than this is no little traffic, and shows nothing.
const MOST_PER_INTERVAL: f64 = 2.5;

/// Intervals of 100 ms with a datagram every half a millisecond: about one sample on
/// each CPU in each, as in the default interval at a fifth of the traffic.
fn little_traffic_is_split_as_much_traffic_is() -> Result<()> {
    let network = Network::direct()?;
    let to = format!("{}:5201", network.right_v4);
    let mut daemon = Followed::start()?;
    let (busy, _) = {
        let _load = traffic::udp(&network.left, &network.right, network.right_v4)?;
        unattributed(&mut daemon, BUSY)?
    };
    let _sink = traffic::agent(&network.right, &["udp-sink", &to])?;
    let _drip = traffic::agent(&network.left, &["udp-drip", &to])?;
    let (quiet, sum) = unattributed(&mut daemon, QUIET)?;

    let of = |slug: &str| index_of(slug).context("no such row");
    let samples = samples_of(&sum, of("rx_softirq")?)?;
    let cells = sum.interval_ns as f64 / 1e8 * sum.cpus.len() as f64;
    let rx_ns = sum.total_ns(of("rx_softirq")?).context("no RX softirq")?;
    let half = {
        let (low, high) = wilson(quiet, samples as f64);
        (high - low) / 2.0
    };
    println!(
        "\nunattributed: {:.1} % of the RX softirq under load; {:.1} ± {:.1} % at {:.1} ms/s, of {samples} samples, \
         {:.2} in an interval of a CPU",
        100.0 * busy,
        100.0 * quiet,
        100.0 * half,
        rx_ns as f64 / 1e6 / (sum.interval_ns as f64 / 1e9),
        samples as f64 / cells
    );
    ensure!(
        (20.0..MOST_PER_INTERVAL * cells).contains(&(samples as f64)),
        "{samples} samples in {cells} intervals show nothing"
    );
    let most = busy + HALF_WIDTHS * half + OTHER_COSTS;
    ensure!(
        quiet <= most,
        "{quiet} unattributed, at most {most} expected"
    );
    says_what_it_rests_on(&daemon.info, &sum)
}

/// The remainder's share of the RX softirq in the time to come.
fn unattributed(daemon: &mut Followed, length: Duration) -> Result<(f64, Snapshot)> {
    std::thread::sleep(SETTLE);
    let from = SystemTime::now();
    std::thread::sleep(length);
    let sum = daemon.between(from, SystemTime::now())?;
    let of = |slug: &str| -> Result<f64> {
        let row = index_of(slug).context("no such row")?;
        Ok(sum.total_ns(row).with_context(|| slug.to_owned())? as f64)
    };
    let share = of("rx_unattributed")? / of("rx_softirq")?;
    Ok((share, sum))
}

fn samples_of(sum: &Snapshot, row: usize) -> Result<u64> {
    let samples = sum.cost().samples_of(row);
    Ok(samples
        .context("no samples")?
        .iter()
        .map(|&n| u64::from(n))
        .sum())
}

/// With so few samples most of the split is the recent past's, and none is nobody's.
fn says_what_it_rests_on(info: &Info, sum: &Snapshot) -> Result<()> {
    let rx = index_of("rx_softirq").context("no such row")?;
    let basis = sum
        .cost()
        .split_basis
        .iter()
        .find(|basis| basis.component as usize == rx)
        .with_context(|| format!("no word on {}", info.components[rx].slug))?;
    println!("the split rests on {basis:?}");
    ensure!(
        sum.total_ns(rx) == Some(basis.total_ns()),
        "{basis:?} of {:?} ns",
        sum.total_ns(rx)
    );
    ensure!(
        basis.past_ns + basis.host_ns > basis.stacks_ns && basis.nothing_ns == 0,
        "{basis:?}"
    );
    Ok(())
}
