//! Latencies during changes of the request and of the clock.

use std::fs;
use std::mem::MaybeUninit;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use metrics_common::latency::{Point, bounds};
use metrics_common::sections::OwnPart;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime, clock_settime};
use serde_json::Value;

use crate::daemon::Daemon;
use crate::flows::{ALONE, look};
use crate::follow::Followed;
use crate::kernels::{self, Statistics};
use crate::lab::Network;
use crate::latency::{PORT, address, answerer, ask, netns};
use crate::latency_talk::Measured;
use crate::running::programs_of;
use crate::{child, guest, traffic, trial};

/// Points that the newest interval has.
fn points(daemon: &Daemon) -> Result<Vec<String>> {
    let snapshot = daemon.snapshot()?;
    let points = snapshot["latency"]["points"].as_array();
    let points = points.into_iter().flatten();
    let names = points.filter_map(|point| Some(point["point"].as_str()?.to_owned()));
    Ok(names.collect())
}

fn begins_at_ip(pid: u32) -> Result<bool> {
    let ids = programs_of(pid)?;
    let mut programs = libbpf_rs::query::ProgInfoIter::default();
    Ok(programs.any(|program| {
        ids.contains(&program.id) && program.name.to_string_lossy().starts_with("netto_ip_")
    }))
}

pub fn asked_for_otherwise() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("netto.toml");
    let write = |text: &str| fs::write(&file, text).context("cannot write the file");
    write("latency = true\nlatency-points = [\"ip-start\", \"udp-socket-read\"]\n")?;
    let path = file.to_str().context("no UTF-8 path")?;
    let mut daemon = Daemon::start(&["--config", path, "--user-period", "100"])?;
    let pid = daemon.process.pid();
    let becomes = |daemon: &Daemon, expected: &[&str]| {
        child::eventually(|| {
            let found = points(daemon)?;
            ensure!(found == expected, "{found:?} instead of {expected:?}");
            Ok(())
        })
    };
    becomes(&daemon, &["ip-start", "udp-socket-read"])?;
    ensure!(begins_at_ip(pid)?);

    write("latency = true\nlatency-points = [\"udp-socket-read\"]\n")?;
    daemon.process.signal("HUP")?;
    becomes(&daemon, &["udp-socket-read"])?;
    // The kernel frees a program some time after its last reference is gone.
    child::eventually(|| {
        ensure!(!begins_at_ip(pid)?, "a point not asked for has programs");
        Ok(())
    })?;

    write("latency = true\nlatency-points = [\"nowhere\"]\n")?;
    daemon.process.signal("HUP")?;
    child::eventually(|| {
        let printed = daemon.process.stderr();
        ensure!(printed.contains("knows no point \"nowhere\""), "{printed}");
        Ok(())
    })?;
    becomes(&daemon, &["udp-socket-read"])?;

    write("latency = false\n")?;
    daemon.process.signal("HUP")?;
    child::eventually(|| {
        let reason = reason(&daemon)?;
        ensure!(reason.contains("--latency"), "the reason is {reason}");
        Ok(())
    })?;
    becomes(&daemon, &[])?;

    write("latency = true\nlatency-points = [\"ip-start\"]\n")?;
    daemon.process.signal("HUP")?;
    becomes(&daemon, &["ip-start"])?;
    ensure!(begins_at_ip(pid)?);
    daemon.must_live()
}

fn reason(daemon: &Daemon) -> Result<String> {
    let info = serde_json::to_value(daemon.info()?)?;
    let instruments = info["instruments"].as_array().context("no instruments")?;
    let latency = instruments
        .iter()
        .find(|instrument| instrument["name"] == "latency");
    let reason: &Value = &latency.context("not listed")?["availability"];
    Ok(reason.to_string())
}

pub fn on_a_terminal() -> Result<()> {
    let network = Network::direct()?;
    let to = address(&network, PORT);
    let daemon = Daemon::start(&["--latency", "--user-period", "100"])?;
    let _answerer = answerer(&network.right, &to)?;
    let url = format!("http://{}", daemon.at);
    let show = |more: &[&str]| {
        let mut all = vec!["latency", "--connect", &url, "--seconds", "2"];
        all.extend(more);
        child::run(&mut crate::daemon::command(&all))
    };
    let asked = std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask(&network.left, &to, 2_000));
        let shown = (show(&["--once"]), show(&["--json"]));
        asking.join().map(|asked| (asked, shown))
    });
    let Ok((asked, (text, json))) = asked else {
        bail!("a thread panicked");
    };
    asked?;
    let text = text?;
    let line = text.lines().find(|line| line.starts_with("UDP read"));
    let line = line.with_context(|| format!("no such point in {text}"))?;
    println!("\n{line}");
    ensure!(line.contains('s') && line.contains(['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']));
    let json: Value = serde_json::from_str(&json?)?;
    ensure!(json.to_string().contains("udp-socket-read"), "{json}");
    Ok(())
}

/// Sets the clock of this machine: for virtual ones.
fn set_clock(change_s: i64) -> Result<()> {
    let now = clock_gettime(ClockId::CLOCK_REALTIME)?;
    let then = TimeSpec::new(now.tv_sec() + change_s, now.tv_nsec());
    clock_settime(ClockId::CLOCK_REALTIME, then).context("the clock cannot be set")
}

/// Asks the kernel to insert a second at the end of the day, or takes that back.
fn ask_for_a_leap_second(is_wanted: bool) -> Result<()> {
    // SAFETY: `timex` is plain numbers, and all zeros is a valid value.
    let mut wanted: libc::timex = unsafe { MaybeUninit::zeroed().assume_init() };
    wanted.modes = libc::ADJ_STATUS;
    wanted.status = if is_wanted { libc::STA_INS } else { 0 };
    // SAFETY: the kernel reads and writes the structure that lives on this stack, and nothing else.
    match unsafe { libc::adjtimex(&raw mut wanted) } {
        -1 => Err(std::io::Error::last_os_error()).context("the kernel takes no leap second"),
        _ => Ok(()),
    }
}

/// Lets a day end with a second more.
fn leap() -> Result<()> {
    const DAY_S: u64 = 86_400;
    let now_s = || Ok::<_, anyhow::Error>(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs());
    let left_s = DAY_S - now_s()? % DAY_S;
    set_clock(left_s as i64 - 3)?;
    ask_for_a_leap_second(true)?;
    // Three seconds, the one that is inserted, and one more.
    std::thread::sleep(Duration::from_secs(6));
    ask_for_a_leap_second(false)
}

/// A reader's pause before each message, so that messages are waiting whenever the clock is set.
const SLEEP_MS: &str = "20";
/// Of two messages each, so that they take longer than the clock is being set.
const STEPPED_TURNS: u64 = 320;
/// Nothing waits longer here.
const LONGEST_NS: u64 = 900_000_000;

pub fn the_clock_is_set() -> Result<()> {
    guest::only()?;
    let network = Network::direct()?;
    let to = address(&network, PORT);
    let netns = netns(&network.right)?;
    // Intervals of a log go by the clock of the day only in their times.
    let measured = Measured::start(&["--latency-netns", &netns])?;
    let _answerer = traffic::agent(&network.right, &["answer-late", &to, SLEEP_MS])?;
    let asked = std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask(&network.left, &to, STEPPED_TURNS));
        let stepped = || -> Result<()> {
            for change_s in [3_600, -3_600] {
                std::thread::sleep(Duration::from_secs(2));
                set_clock(change_s)?;
            }
            std::thread::sleep(Duration::from_secs(2));
            leap()
        };
        let stepped = stepped();
        asking.join().map(|asked| asked.and(stepped))
    });
    let Ok(asked) = asked else {
        bail!("a thread panicked");
    };
    asked?;
    let found = measured.end()?;
    found.print();
    let anomalies = found.anomalies();
    println!("{anomalies} anomalies");
    ensure!(
        anomalies > 0,
        "nothing was found to be wrong with the clock"
    );
    for point in [
        Point::UdpSocketRead,
        Point::TcpSocketRead,
        Point::UdpSocketEnqueued,
    ] {
        let all = found.of(point).context("not measured")?;
        let wrong = all.counts().iter().enumerate();
        let wrong = wrong.filter(|(bucket, _)| bounds(*bucket).lower_ns >= LONGEST_NS);
        let wrong: u64 = wrong.map(|(_, count)| *count).sum();
        ensure!(wrong == 0, "{wrong} packets of {point} in a wrong bucket");
        let counted = all.count() + found.anomalies_at(point);
        ensure!(
            counted >= STEPPED_TURNS,
            "{counted} packets at {point}, of {STEPPED_TURNS}"
        );
    }
    Ok(())
}

/// Beginnings of the names of its programs, as `kernels::programs` has them.
const PROGRAMS: [&str; 10] = [
    "netto_ip",
    "netto_tcp",
    "netto_udp",
    "netto_start_near",
    "netto_ready",
    "netto_sock_recv_length",
    "netto_queued",
    "netto_unqueued",
    "netto_raised",
    "netto_entered",
];
/// Tolerance between netto's own price and the kernel's, as a factor.
const PRICE: f64 = 2.0;

/// netto estimates the cost of latencies from their number.
pub fn its_price_is_the_kernels() -> Result<()> {
    if guest::is_one() {
        let reason = "a guest's time is not a machine's";
        return Err(trial::NotOnThisKernel(reason.to_owned()).into());
    }
    let network = Network::direct()?;
    let _statistics = Statistics::enable()?;
    for one_in in ["1", "64"] {
        let options = ["--latency", "--latency-one-in", one_in];
        let mut followed = Followed::start_with(&options)?;
        let pid = followed.pid();
        let _load = traffic::udp(&network.left, &network.right, network.right_v4)?;
        followed.catch_up()?;
        let spent = || -> Result<(u64, u64)> {
            let all = kernels::programs(pid)?;
            let of_latency = all
                .iter()
                .filter(|(name, _)| PROGRAMS.iter().any(|begin| name.starts_with(begin)));
            Ok(of_latency.fold((0, 0), |(ns, runs), (_, program)| {
                (ns + program.run_time_ns, runs + program.runs)
            }))
        };
        let (before_ns, runs_before) = spent()?;
        let sum = look(&mut followed, ALONE)?;
        let (after_ns, runs_after) = spent()?;
        let (kernel_ns, runs) = ((after_ns - before_ns) as f64, runs_after - runs_before);
        let own_cost = sum.sections.own.as_ref().context("no own cost")?;
        let told_ns = own_cost
            .part_total_ns(OwnPart::Latency)
            .context("not known")? as f64;
        println!(
            "\none in {one_in}: the kernel says {kernel_ns:.0} ns ({:.0} for each of {runs} runs), \
             netto {told_ns:.0} ns",
            kernel_ns / runs as f64
        );
        ensure!(runs > 10_000, "the programs hardly ran");
        ensure!((1.0 / PRICE..=PRICE).contains(&(told_ns / kernel_ns)));
    }
    Ok(())
}
