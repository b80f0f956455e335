//! Two replicas of a small store in namespaces of their own, each with its disk, the way to it and its
//! netto, for which its namespace is the host; and a HAProxy that chooses between them.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::child::{self, Owned};
use crate::daemon;
use crate::delay;
use crate::disks::{Disk, Limit, Memory};
use crate::lab::Namespace;
use crate::store::FILE_BYTES;
use crate::traffic;

/// Where replicas serve, where their nettos tell, and where their latency alone is told.
const STORE: u16 = 7_000;
const AGENT: u16 = 7_001;
const LATENCY: u16 = 7_002;
const FRONT: u16 = 8_080;
/// What a store has of the page cache if its file is larger than that.
const MEMORY_BYTES: u64 = 24 << 20;
/// What `asks` of HAProxy's means that only the latency counts.
pub const LATENCY_ALONE: &str = "latency";

/// What a replica has of its file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cache {
    /// Nothing: it reads past the page cache.
    None,
    /// About a half.
    Half,
    /// All of it.
    Whole,
}

/// What a replica is like.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// How often its disk may be read, and written, a second; 0: as often as it can be.
    pub disk: u32,
    pub cache: Cache,
    /// How much longer its round trips take.
    pub delay: Duration,
}

/// A replica with its disk, namespace, store and netto.
pub struct Replica {
    address: String,
    // Fields are dropped in this order.
    _latency: Owned,
    _netto: Owned,
    _store: Owned,
    _way: Owned,
    pub limit: Limit,
    _memory: Option<Memory>,
    _disk: Disk,
    at: Namespace,
}

impl Replica {
    fn new(front: &Namespace, number: u8, kind: Kind, reference_us: u64) -> Result<Self> {
        let name = ["a", "b"][usize::from(number)];
        let (at, device) = (Namespace::new()?, format!("to-{name}"));
        let way = delay::way((front, &device), (&at, "lan"), kind.delay)?;
        let (near, address) = (format!("10.79.{number}.1"), format!("10.79.{number}.2"));
        front.ip(&format!("address add {near} peer {address} dev {device}"))?;
        front.ip(&format!("link set {device} up"))?;
        at.ip(&format!("address add {address} peer {near} dev lan"))?;
        at.ip("link set lan up")?;
        let mut disk = Disk::new()?;
        let file = disk.mount()?.join("records");
        fs::write(&file, vec![b'r'; FILE_BYTES as usize])?;
        child::run(&mut Command::new("sync"))?;
        // Dropped from the page cache, so that its pages count for the group that reads them.
        disk.forget()?;
        let limit = Limit::new(name, &disk)?;
        let store = Self::store(&at, &file, kind.cache, &address, name)?;
        limit.take(store.pid())?;
        let memory = match kind.cache {
            Cache::Half => {
                let memory = Memory::new(name, MEMORY_BYTES)?;
                memory.take(store.pid())?;
                Some(memory)
            }
            Cache::None | Cache::Whole => None,
        };
        limit.set(kind.disk)?;
        let port = child::free_port()?.to_string();
        let told_at = format!("{address}:{AGENT}");
        let mut netto = at.command("unshare");
        // netto is the first process of a PID namespace: its network namespace then counts as the host's.
        netto.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        netto
            .arg(daemon::binary())
            .args(["run", "--address", "127.0.0.1", "--port", &port]);
        netto.args(["--health", "--score-reference", &reference_us.to_string()]);
        netto.args(["--score-devices", &disk.name, "--agent-check", &told_at]);
        netto.args(["--owners", "none", "--frequency", "20"]);
        let netto = Owned::start(&mut netto)?;
        let latency = format!("{address}:{LATENCY}");
        let latency = traffic::agent(&at, &["tell-latency", &latency, &port])?;
        Ok(Replica {
            address,
            limit,
            at,
            _latency: latency,
            _netto: netto,
            _store: store,
            _way: way,
            _memory: memory,
            _disk: disk,
        })
    }

    fn store(
        at: &Namespace,
        file: &Path,
        cache: Cache,
        address: &str,
        name: &str,
    ) -> Result<Owned> {
        let file = file.to_str().context("a path that is not UTF-8")?;
        let cache = match cache {
            Cache::None => "past",
            Cache::Half => "cold",
            Cache::Whole => "warm",
        };
        traffic::agent(
            at,
            &["store", file, cache, &format!("{address}:{STORE}"), name],
        )
    }

    /// What its netto answers to an agent check.
    pub fn agent_answer(&self, asks: &str) -> Result<String> {
        let binary = std::env::current_exe()?;
        let binary = binary
            .to_str()
            .context("this test binary has no UTF-8 path")?;
        let port = if asks == LATENCY_ALONE {
            LATENCY
        } else {
            AGENT
        };
        let to = format!("{}:{port}", self.address);
        child::run(self.at.command(binary).args(["agent", "told", &to, asks]))
    }
}

/// Two replicas, and HAProxy that chooses between them.
pub struct Scene {
    haproxy: Option<Owned>,
    pub replicas: Vec<Replica>,
    front: Namespace,
    folder: tempfile::TempDir,
}

impl Scene {
    /// Of replicas of these kinds, with this time for the full score.
    pub fn new(kinds: [Kind; 2], reference_us: u64) -> Result<Self> {
        let front = Namespace::new()?;
        let replicas = (0..).zip(kinds);
        let replicas =
            replicas.map(|(number, kind)| Replica::new(&front, number, kind, reference_us));
        Ok(Scene {
            replicas: replicas.collect::<Result<_>>()?,
            front,
            folder: tempfile::tempdir()?,
            haproxy: None,
        })
    }

    /// HAProxy with this algorithm; with what it sends to the agents, if it asks them.
    pub fn choose(&mut self, balance: &str, asks: Option<&str>) -> Result<()> {
        self.haproxy = None;
        let agent = |replica: &Replica| match asks {
            Some(asks) => {
                let port = if asks == LATENCY_ALONE {
                    LATENCY
                } else {
                    AGENT
                };
                format!(
                    " agent-check agent-inter 500ms agent-addr {} agent-port {port} agent-send \"{asks}\\n\"",
                    replica.address
                )
            }
            None => String::new(),
        };
        let servers = self.replicas.iter().zip(["a", "b"]).map(|(replica, name)| {
            let (address, agent) = (&replica.address, agent(replica));
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

    /// Clients, so many per cent of whose requests read.
    pub fn clients(&self, reads_percent: u64) -> Result<Clients> {
        let to = format!("127.0.0.1:{FRONT}");
        let percent = reads_percent.to_string();
        traffic::agent(&self.front, &["ask-stores", &to, &percent]).map(Clients)
    }
}

/// What clients got in half a second: answers of each replica, and how long nineteen of twenty waited
/// at most.
#[derive(Debug, Clone, Copy)]
pub struct Half {
    pub answers: [u64; 2],
    pub p95_us: u64,
}

/// Clients at work.
pub struct Clients(Owned);

impl Clients {
    /// What they got until now.
    pub fn halves(&self) -> Vec<Half> {
        let text = self.0.stdout();
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
    pub fn share(&self) -> Result<f64> {
        let all = self.halves();
        let last = all.iter().rev().take(2);
        let sums = last.fold([0, 0], |sum, half| {
            [sum[0] + half.answers[0], sum[1] + half.answers[1]]
        });
        let both = sums[0] + sums[1];
        ensure!(both > 0, "nobody answers");
        Ok(sums[1] as f64 / both as f64)
    }
}
