//! A real HAProxy before two replicas of a small store, in namespaces of their own, that ask netto for
//! their weights: requests go to the better replica within seconds, and come back. And what that is
//! worth, beside other ways to choose.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::child;
use crate::replicas::{Cache, Clients, Kind, LATENCY_ALONE, Scene};
use crate::trial::tests;

tests! {
    balance::traffic_goes_to_the_better_replica_and_comes_back
        ["ip", "haproxy", "losetup", "mkfs.ext4", "unshare"];
    balance::table_of_a_slow_disk_and_delays
        ["ip", "haproxy", "losetup", "mkfs.ext4", "unshare"];
    balance::table_of_mixes
        ["ip", "haproxy", "losetup", "mkfs.ext4", "unshare"];
    balance::table_without_a_cache
        ["ip", "haproxy", "losetup", "mkfs.ext4", "unshare"];
    balance::table_of_a_warm_cache_on_a_slow_disk
        ["ip", "haproxy", "losetup", "mkfs.ext4", "unshare"];
}

/// Requests a second of the disk below the slow replica.
const SLOW: u32 = 100;
/// Of a fast one that is cold, beside a slow one that is warm.
const MODERATE: u32 = 1_000;
/// The expected time with the full score, microseconds: what the replicas take while both are fast.
const REFERENCE_US: u64 = 20_000;
/// How long a shift may take.
const SHIFT: Duration = Duration::from_secs(30);
/// Until weights are as they stay, and how long is measured then.
const SETTLES: Duration = Duration::from_secs(5);
const MEASURED: Duration = Duration::from_secs(5);

const FAST: Kind = Kind {
    disk: 0,
    cache: Cache::None,
    delay: Duration::ZERO,
};

/// Until the second replica has such a part.
fn until(clients: &Clients, what: &str, is_so: impl Fn(f64) -> bool) -> Result<()> {
    let begun = Instant::now();
    let share = child::within(SHIFT, || {
        std::thread::sleep(Duration::from_millis(100));
        let share = clients.share()?;
        ensure!(is_so(share), "{what}: {:.0} %", 100.0 * share);
        Ok(share)
    })?;
    let after = begun.elapsed().as_secs_f64();
    println!(
        "{what}: {:.0} % of the answers, after {after:.1} s",
        100.0 * share
    );
    Ok(())
}

fn both_are_weighed(scene: &Scene, asks: &str) -> Result<()> {
    child::eventually(|| {
        for replica in &scene.replicas {
            let answer = replica.agent_answer(asks)?;
            ensure!(answer.trim_end().ends_with('%'), "it tells {answer:?}");
        }
        Ok(())
    })
}

fn traffic_goes_to_the_better_replica_and_comes_back() -> Result<()> {
    let mut scene = Scene::new([FAST, FAST], REFERENCE_US)?;
    scene.choose("roundrobin", Some("reads"))?;
    let clients = scene.clients(100)?;
    both_are_weighed(&scene, "reads")?;
    println!();
    until(&clients, "both disks alike", |share| share > 0.3)?;
    scene.replicas[1].limit.set(SLOW)?;
    until(&clients, "one disk slow", |share| share < 0.15)?;
    for (replica, name) in scene.replicas.iter().zip(["a", "b"]) {
        println!("{name} tells {}", replica.agent_answer("reads")?.trim_end());
    }
    scene.replicas[1].limit.set(0)?;
    until(&clients, "both disks alike again", |share| share > 0.3)
}

/// A row of the table: what the scene is, its replicas, and how many per cent of the requests read.
struct Row {
    name: String,
    kinds: [Kind; 2],
    reads_percent: u64,
}

/// Prints a table of what clients got by each way to choose.
fn table(rows: impl IntoIterator<Item = Row>) -> Result<()> {
    const WAYS: [(&str, &str, Option<&str>); 6] = [
        ("round robin", "roundrobin", None),
        ("least connections", "leastconn", None),
        ("latency alone", "roundrobin", Some(LATENCY_ALONE)),
        ("weighted sum", "roundrobin", Some("weighted")),
        ("T", "roundrobin", Some("reads")),
        ("T, least connections", "leastconn", Some("reads")),
    ];
    let names = WAYS.map(|(name, ..)| format!(" {name} |")).concat();
    println!(
        "\nAnswers a second, 95th percentile, part of the second replica\n| |{names}\n|---|{}",
        "---|".repeat(WAYS.len())
    );
    for row in rows {
        let mut scene = Scene::new(row.kinds, REFERENCE_US)?;
        let mut line = format!("| {} |", row.name);
        for (_, balance, asks) in WAYS {
            scene.choose(balance, asks)?;
            let clients = scene.clients(row.reads_percent)?;
            line += &format!(" {} |", measured(&clients)?);
            if let Some(asks) = asks {
                let answers = scene
                    .replicas
                    .iter()
                    .map(|replica| replica.agent_answer(asks));
                eprintln!("{balance} {asks}: {:?}", answers.collect::<Vec<_>>());
            }
        }
        println!("{line}");
    }
    Ok(())
}

/// What clients get when weights are as they stay.
fn measured(clients: &Clients) -> Result<String> {
    std::thread::sleep(SETTLES);
    let before = clients.halves().len();
    std::thread::sleep(MEASURED);
    let all = clients.halves();
    let all = &all[before..];
    let sum = |at: usize| all.iter().map(|half| half.answers[at]).sum::<u64>() as f64;
    let (a, b) = (sum(0), sum(1));
    let seconds = all.len() as f64 / 2.0;
    let waits = all.iter().map(|half| half.p95_us as f64).sum::<f64>() / all.len() as f64;
    ensure!(a + b > 0.0, "nobody answers");
    Ok(format!(
        "{:.0}, {:.1} ms, {:.0} %",
        (a + b) / seconds,
        waits / 1e3,
        100.0 * b / (a + b)
    ))
}

fn milliseconds(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The better replica is the farther one.
fn table_of_a_slow_disk_and_delays() -> Result<()> {
    table([0, 2, 5, 25].map(|delay| Row {
        name: format!("100 % reads, the fast one +{delay} ms"),
        kinds: [
            Kind {
                disk: 0,
                cache: Cache::Half,
                delay: milliseconds(delay),
            },
            Kind {
                disk: SLOW,
                cache: Cache::Half,
                delay: Duration::ZERO,
            },
        ],
        reads_percent: 100,
    }))
}

fn table_of_mixes() -> Result<()> {
    table([50, 95].map(|reads_percent| Row {
        name: format!("{reads_percent} % reads"),
        kinds: [
            Kind {
                cache: Cache::Half,
                ..FAST
            },
            Kind {
                disk: SLOW,
                cache: Cache::Half,
                ..FAST
            },
        ],
        reads_percent,
    }))
}

fn table_without_a_cache() -> Result<()> {
    table([0, 2, 25].map(|delay| Row {
        name: format!("no cache, the fast one +{delay} ms"),
        kinds: [
            Kind {
                delay: milliseconds(delay),
                ..FAST
            },
            Kind { disk: SLOW, ..FAST },
        ],
        reads_percent: 100,
    }))
}

fn table_of_a_warm_cache_on_a_slow_disk() -> Result<()> {
    table([Row {
        name: "cold on a fast disk, warm on a slow one".to_owned(),
        kinds: [
            Kind {
                disk: MODERATE,
                ..FAST
            },
            Kind {
                disk: SLOW,
                cache: Cache::Whole,
                ..FAST
            },
        ],
        reads_percent: 100,
    }])
}
