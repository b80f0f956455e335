//! Packets that wake an idle CPU: their softirq runs on top of the idle task, which is the
//! usual case with a network card, and must not be taken for idleness.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use metrics_common::Snapshot;
use metrics_common::component::index_of;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::daemon::{Daemon, Shared};
use crate::follow::Followed;
use crate::lab::Network;
use crate::trial::{NotOnThisKernel, tests};
use crate::{child, http, measure, packets, traffic};

tests! {
    idle::sampling_alone_sees_softirqs_that_wake_an_idle_cpu ["ip", "sh"];
}

const MEASURED: Duration = Duration::from_secs(4);
/// Of CPU 1, so that there are forty samples at least.
const ENOUGH: f64 = 0.04;
/// The least that the second daemon sees of what the first had: their intervals are not the same, and
/// an emulated CPU's share changes with its host's. Without what runs on the idle task next to nothing
/// is left.
const LEAST: f64 = 0.1;

/// Packets of a sender pinned to CPU 0 are passed to CPU 1, which is otherwise idle.
fn sampling_alone_sees_softirqs_that_wake_an_idle_cpu() -> Result<()> {
    const CPU_1: &str = "2";
    if std::thread::available_parallelism()?.get() < 2 {
        return Err(NotOnThisKernel("needs a second CPU".to_owned()).into());
    }
    let network = Network::direct()?;
    let script = format!("echo {CPU_1} > /sys/class/net/lan/queues/rx-0/rps_cpus");
    child::run(network.right.command("sh").args(["-c", &script]))
        .map_err(|_| NotOnThisKernel("needs a kernel with CONFIG_RPS".to_owned()))?;
    let probes = Shared::take()?;
    let mut sampler = Followed::start_beside(&["--method", "sampling"])?;
    let _load = on_cpu_0(|| traffic::udp_blast(&network.left, network.right_v4))?;
    let (from, before) = (SystemTime::now(), seconds_on_cpu_1(&probes)?);
    std::thread::sleep(MEASURED);
    let (to, after) = (SystemTime::now(), seconds_on_cpu_1(&probes)?);
    let by_probes = (after - before) / to.duration_since(from)?.as_secs_f64();
    let by_samples = on_cpu_1(&sampler.between(from, to)?)?;
    println!(
        "\nReceive work on CPU 1: {:.1} % by probes, {:.1} % by sampling",
        100.0 * by_probes,
        100.0 * by_samples
    );
    ensure!(by_probes > ENOUGH, "no packets were handed to CPU 1");
    ensure!(by_samples > LEAST * by_probes, "sampling does not see it");
    Ok(())
}

/// Starts a process that stays on CPU 0, as this thread does until then.
fn on_cpu_0<T>(start: impl FnOnce() -> Result<T>) -> Result<T> {
    let this = Pid::from_raw(0);
    let all = sched_getaffinity(this)?;
    let mut one = CpuSet::new();
    one.set(0)?;
    sched_setaffinity(this, &one)?;
    let started = start();
    sched_setaffinity(this, &all)?;
    started
}

/// Where packets are received: in softirqs, or in the backlog's thread, which PREEMPT_RT has instead
/// since 6.10.
const RECEIVING: [&str; 2] = ["rx_softirq", "napi_thread"];

/// Seconds in which CPU 1 has received packets so far.
fn seconds_on_cpu_1(daemon: &Daemon) -> Result<f64> {
    let samples = measure::parse(&http::get_ok(daemon.at, "/metrics")?.body)?;
    let of = |event| {
        let labels = [("event", event), ("cpu", "1")];
        packets::sum(&samples, "netto_cpu_seconds_total", &labels)
    };
    Ok(RECEIVING.into_iter().map(of).sum())
}

/// The share of CPU 1 that receives packets.
fn on_cpu_1(snapshot: &Snapshot) -> Result<f64> {
    let column = snapshot
        .cpus
        .iter()
        .position(|cpu| *cpu == 1)
        .context("no CPU 1")?;
    let of = |slug| {
        let row = index_of(slug).context("no such row")?;
        let times = snapshot.cost().cpu_ns(row);
        anyhow::Ok(times.context("not measured")?[column])
    };
    let received_ns: u64 = RECEIVING.into_iter().map(of).sum::<Result<_>>()?;
    Ok(received_ns as f64 / snapshot.interval_ns as f64)
}
