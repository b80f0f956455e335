//! A real HAProxy before two replicas of a small store, in namespaces of their own, that ask netto for
//! their weights: requests go to the better replica within seconds, and come back.
//!
//! A replica reads a record of its disk for each request, past the page cache. Each has its own netto,
//! for which its namespace is the host.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::child::{self, Owned};
use crate::daemon;
use crate::disks::{Disk, Limit};
use crate::lab::Namespace;
use crate::traffic;
use crate::trial::tests;

tests! {
    balance::traffic_goes_to_the_better_replica_and_comes_back
        ["ip", "haproxy", "losetup", "mkfs.ext4", "unshare"];
    balance::of_ways_to_choose_throughput_and_waits_are_compared
        ["ip", "haproxy", "losetup", "mkfs.ext4", "unshare"];
}

const RECORD: usize = 1_024;
const BLOCK: usize = 4_096;
const FILE_BYTES: u64 = 40 << 20;
/// Requests under way, from the one client.
const CLIENTS: usize = 8;
/// Reads a second of the disk below the slow replica.
const SLOW: u32 = 100;
/// Where replicas serve, and where their nettos tell.
const STORE: u16 = 7_000;
const AGENT: u16 = 7_001;
const FRONT: u16 = 8_080;
/// The expected time with the full score, microseconds: what the replicas take while both are fast.
const REFERENCE: &str = "20000";
/// How long a shift may take.
const SHIFT: Duration = Duration::from_secs(30);

/// A replica with its disk, namespace, store and netto.
struct Replica {
    address: String,
    // What ends first stands first.
    _netto: Owned,
    _store: Owned,
    limit: Limit,
    _disk: Disk,
    at: Namespace,
}

impl Replica {
    fn new(front: &Namespace, number: u8) -> Result<Self> {
        let name = ["a", "b"][usize::from(number)];
        let (at, device) = (Namespace::new()?, format!("to-{name}"));
        front.ip(&format!(
            "link add {device} type veth peer name lan netns {}",
            at.name()
        ))?;
        front.ip(&format!("address add 10.79.{number}.1/24 dev {device}"))?;
        front.ip(&format!("link set {device} up"))?;
        let address = format!("10.79.{number}.2");
        at.ip(&format!("address add {address}/24 dev lan"))?;
        at.ip("link set lan up")?;
        let mut disk = Disk::new()?;
        let file = disk.mount()?.join("records");
        fs::write(&file, vec![b'r'; FILE_BYTES as usize])?;
        child::run(&mut std::process::Command::new("sync"))?;
        let limit = Limit::new(name, &disk)?;
        let file = file.to_str().context("a path that is not UTF-8")?;
        let store = traffic::agent(&at, &["store", file, &format!("{address}:{STORE}"), name])?;
        limit.take(store.pid())?;
        let port = child::free_port()?.to_string();
        let binary = daemon::binary();
        let told_at = format!("{address}:{AGENT}");
        let mut netto = at.command("unshare");
        // The first process of its own number space: its namespace is the host's.
        netto.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        netto
            .arg(&binary)
            .args(["run", "--address", "127.0.0.1", "--port", &port]);
        netto.args(["--health", "--score-reference", REFERENCE]);
        netto.args(["--score-devices", &disk.name, "--agent-check", &told_at]);
        netto.args(["--owners", "none", "--frequency", "20"]);
        let netto = Owned::start(&mut netto)?;
        Ok(Replica {
            address,
            limit,
            at,
            _netto: netto,
            _store: store,
            _disk: disk,
        })
    }

    /// What its netto tells.
    fn told(&self) -> Result<String> {
        let own = std::env::current_exe()?;
        let own = own.to_str().context("this test binary has no UTF-8 path")?;
        let to = format!("{}:{AGENT}", self.address);
        child::run(self.at.command(own).args(["agent", "told", &to]))
    }
}

/// Two replicas, and HAProxy that chooses between them.
struct Scene {
    haproxy: Option<Owned>,
    replicas: Vec<Replica>,
    front: Namespace,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Result<Self> {
        let front = Namespace::new()?;
        let replicas = (0..2).map(|number| Replica::new(&front, number));
        Ok(Scene {
            replicas: replicas.collect::<Result<_>>()?,
            front,
            folder: tempfile::tempdir()?,
            haproxy: None,
        })
    }

    /// HAProxy with this algorithm; with what it sends to the agents, if it asks them.
    fn choose(&mut self, balance: &str, asks: Option<&str>) -> Result<()> {
        self.haproxy = None;
        let agent = |own: &Replica| match asks {
            Some(asks) => format!(
                " agent-check agent-inter 500ms agent-addr {} agent-port {AGENT} agent-send \"{asks}\\n\"",
                own.address
            ),
            None => String::new(),
        };
        let servers = self.replicas.iter().zip(["a", "b"]).map(|(own, name)| {
            let (address, agent) = (&own.address, agent(own));
            format!("  server {name} {address}:{STORE} weight 100{agent}\n")
        });
        let text = format!(
            "defaults\n  mode http\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n\
             \x20 timeout check 2s\nfrontend store\n  bind 127.0.0.1:{FRONT}\n  default_backend replicas\n\
             backend replicas\n  balance {balance}\n{}",
            servers.collect::<String>()
        );
        let file = self.folder.path().join("haproxy.cfg");
        fs::write(&file, text)?;
        let mut haproxy = self.front.command("haproxy");
        self.haproxy = Some(Owned::start(haproxy.arg("-db").arg("-f").arg(&file))?);
        Ok(())
    }

    fn clients(&self) -> Result<Owned> {
        let to = format!("127.0.0.1:{FRONT}");
        traffic::agent(&self.front, &["ask-stores", &to])
    }
}

/// What clients got in half a second: answers of each replica, and how long nine of ten waited at most.
#[derive(Debug, Clone, Copy)]
struct Half {
    answers: [u64; 2],
    p95_us: u64,
}

fn halves(clients: &Owned) -> Vec<Half> {
    let text = clients.stdout();
    let halves = text.lines().filter_map(|line| {
        let numbers: Vec<u64> = line
            .split(' ')
            .map_while(|word| word.parse().ok())
            .collect();
        let [a, b, p95_us] = numbers[..] else {
            return None;
        };
        Some(Half {
            answers: [a, b],
            p95_us,
        })
    });
    halves.collect()
}

/// The second replica's part of the answers of the last second.
fn share(clients: &Owned) -> Result<f64> {
    let all = halves(clients);
    let last = all.iter().rev().take(2);
    let sums = last.fold([0, 0], |sum, own| {
        [sum[0] + own.answers[0], sum[1] + own.answers[1]]
    });
    let both = sums[0] + sums[1];
    ensure!(both > 0, "nobody answers");
    Ok(sums[1] as f64 / both as f64)
}

/// Until the second replica has such a part.
fn until(clients: &Owned, what: &str, is_so: impl Fn(f64) -> bool) -> Result<()> {
    let begun = Instant::now();
    let share = child::within(SHIFT, || {
        std::thread::sleep(Duration::from_millis(100));
        let share = share(clients)?;
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

fn both_are_weighed(scene: &Scene) -> Result<()> {
    child::eventually(|| {
        for own in &scene.replicas {
            let told = own.told()?;
            ensure!(
                told.trim_end().ends_with('%'),
                "{} tells {told:?}",
                own.address
            );
        }
        Ok(())
    })
}

fn traffic_goes_to_the_better_replica_and_comes_back() -> Result<()> {
    let mut scene = Scene::new()?;
    scene.choose("roundrobin", Some("reads"))?;
    let clients = scene.clients()?;
    both_are_weighed(&scene)?;
    println!();
    until(&clients, "both disks alike", |share| share > 0.3)?;
    scene.replicas[1].limit.set(SLOW)?;
    until(&clients, "one disk slow", |share| share < 0.15)?;
    for own in &scene.replicas {
        println!("{} tells {}", own.address, own.told()?.trim_end());
    }
    scene.replicas[1].limit.set(0)?;
    until(&clients, "both disks alike again", |share| share > 0.3)
}

fn of_ways_to_choose_throughput_and_waits_are_compared() -> Result<()> {
    let mut scene = Scene::new()?;
    scene.replicas[1].limit.set(SLOW)?;
    println!("\n| HAProxy chooses by | answers/s | of the slow replica | p95 |\n|---|---|---|---|");
    for (name, balance, asks) in [
        ("round robin", "roundrobin", None),
        ("least connections", "leastconn", None),
        ("weighted sum", "roundrobin", Some("weighted")),
        ("T", "roundrobin", Some("reads")),
        ("T and least connections", "leastconn", Some("reads")),
    ] {
        scene.choose(balance, asks)?;
        let clients = scene.clients()?;
        // Until weights are as they stay.
        std::thread::sleep(Duration::from_secs(10));
        let before = halves(&clients).len();
        std::thread::sleep(Duration::from_secs(10));
        let all = halves(&clients);
        let all = &all[before..];
        let sum = |at: usize| all.iter().map(|own| own.answers[at]).sum::<u64>() as f64;
        let (a, b) = (sum(0), sum(1));
        let seconds = all.len() as f64 / 2.0;
        let waits = all.iter().map(|own| own.p95_us as f64).sum::<f64>() / all.len() as f64;
        ensure!(a > 0.0, "{name}: nobody answers");
        println!(
            "| {name} | {:.0} | {:.1} % | {:.1} ms |",
            (a + b) / seconds,
            100.0 * b / (a + b),
            waits / 1e3
        );
    }
    Ok(())
}

/// Serves records of a file, one for each request, past the page cache.
pub fn serve(file: &str, at: SocketAddr, name: &str) -> Result<()> {
    let listener = TcpListener::bind(at)?;
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_DIRECT);
    let file = options.open(Path::new(file))?;
    println!("ready");
    std::thread::scope(|scope| {
        for (number, stream) in listener.incoming().enumerate() {
            let (file, stream) = (&file, stream?);
            scope.spawn(move || {
                // HAProxy has gone.
                let _ = serve_one(file, stream, name, number as u64);
            });
        }
        Ok(())
    })
}

fn serve_one(file: &File, mut stream: TcpStream, name: &str, seed: u64) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    // Direct reads need an aligned place.
    let mut room = vec![0_u8; 2 * BLOCK];
    let from = room.as_ptr().align_offset(BLOCK);
    let mut place = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    loop {
        let mut line = String::new();
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim_end().is_empty() {
                break;
            }
        }
        place ^= place << 13;
        place ^= place >> 7;
        place ^= place << 17;
        let block = place % (FILE_BYTES / BLOCK as u64);
        let room = room
            .get_mut(from..from + BLOCK)
            .context("no aligned place")?;
        file.read_exact_at(room, block * BLOCK as u64)?;
        let head =
            format!("HTTP/1.1 200 OK\r\nX-Replica: {name}\r\nContent-Length: {RECORD}\r\n\r\n");
        let mut answer = head.into_bytes();
        answer.extend(&room[..RECORD]);
        stream.write_all(&answer)?;
    }
}

/// Asks for records, one after the other on each connection, and tells each half second who answered.
pub fn ask(to: SocketAddr) -> Result<()> {
    let counts = [AtomicU64::new(0), AtomicU64::new(0)];
    let waits = Mutex::new(Vec::new());
    println!("ready");
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                loop {
                    // HAProxy begins later, and may have no replica.
                    let _ = ask_on(to, &counts, &waits);
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
        }
        loop {
            std::thread::sleep(Duration::from_millis(500));
            let mut all: Vec<u64> = match waits.lock() {
                Ok(mut waits) => std::mem::take(&mut *waits),
                Err(_) => bail!("a client has panicked"),
            };
            all.sort_unstable();
            let p95 = all.get(all.len() * 95 / 100).copied().unwrap_or(0);
            let [a, b] = [0, 1].map(|at: usize| counts[at].swap(0, Ordering::Relaxed));
            println!("{a} {b} {p95}");
        }
    })
}

fn ask_on(to: SocketAddr, counts: &[AtomicU64; 2], waits: &Mutex<Vec<u64>>) -> Result<()> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut body = [0; RECORD];
    loop {
        let begun = Instant::now();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: store\r\n\r\n")?;
        let (mut line, mut replica) = (String::new(), None);
        loop {
            line.clear();
            ensure!(reader.read_line(&mut line)? > 0, "it has closed");
            let word = line.trim_end().to_ascii_lowercase();
            match &*word {
                "" => break,
                "x-replica: a" => replica = Some(0),
                "x-replica: b" => replica = Some(1),
                _ => {}
            }
        }
        let replica: usize = replica.context("no replica has answered")?;
        reader.read_exact(&mut body)?;
        counts[replica].fetch_add(1, Ordering::Relaxed);
        if let Ok(mut waits) = waits.lock() {
            waits.push(begun.elapsed().as_micros() as u64);
        }
    }
}

/// Prints what an agent tells whoever says nothing.
pub fn print_told(at: SocketAddr) -> Result<()> {
    let mut text = String::new();
    TcpStream::connect(at)?.read_to_string(&mut text)?;
    print!("{text}");
    Ok(())
}
