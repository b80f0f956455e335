//! A small replicated store: replicas that serve records of a file of their own, clients that ask for
//! them, and an agent that gives a replica's weight by its network latency alone.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::http;

pub const RECORD: usize = 1_024;
const BLOCK: usize = 4_096;
pub const FILE_BYTES: u64 = 40 << 20;
/// Requests under way, from the one client.
const CLIENTS: u64 = 8;
/// The round trip with the full weight, where only that counts.
const NEAR: f64 = 0.000_5;
const POST: &str = "POST ";

/// Numbers by chance, from a seed.
struct Chance(u64);

impl Chance {
    fn new(seed: u64) -> Self {
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// The file with the records.
struct Records {
    file: File,
    is_direct: bool,
}

impl Records {
    /// `past` the page cache, through a `cold` one, or through a `warm` one, which has all of it.
    fn open(path: &Path, cache: &str) -> Result<Self> {
        let is_direct = cache == "past";
        let direct = if is_direct { libc::O_DIRECT } else { 0 };
        let mut options = File::options();
        options.read(true).write(true);
        let file = options.custom_flags(libc::O_DSYNC | direct).open(path)?;
        // SAFETY: it takes numbers only.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
        if cache == "warm" {
            let mut all = Vec::new();
            (&file).read_to_end(&mut all)?;
        }
        Ok(Records { file, is_direct })
    }

    /// How much one request reads or writes: blocks past the page cache, records through it.
    fn unit(&self) -> usize {
        if self.is_direct { BLOCK } else { RECORD }
    }
}

/// Serves records of a file, one for each request: reads them, or writes them so that they last.
pub fn serve(file: &str, cache: &str, at: SocketAddr, name: &str) -> Result<()> {
    let listener = TcpListener::bind(at)?;
    let records = Records::open(Path::new(file), cache)?;
    println!("ready");
    std::thread::scope(|scope| {
        for (number, stream) in listener.incoming().enumerate() {
            let (records, stream) = (&records, stream?);
            scope.spawn(move || {
                // HAProxy has gone.
                let _ = serve_one(records, stream, name, number as u64);
            });
        }
        Ok(())
    })
}

fn serve_one(records: &Records, mut stream: TcpStream, name: &str, seed: u64) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    // Direct requests need an aligned place.
    let mut room = vec![0_u8; 2 * BLOCK];
    let from = room.as_ptr().align_offset(BLOCK);
    let unit = records.unit();
    let room = room
        .get_mut(from..from + unit)
        .context("no aligned place")?;
    let mut chance = Chance::new(seed);
    loop {
        let (mut line, mut writes) = (String::new(), false);
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            writes |= line.starts_with(POST);
            if line.trim_end().is_empty() {
                break;
            }
        }
        let place = chance.below(FILE_BYTES / unit as u64) * unit as u64;
        let body: &[u8] = if writes {
            reader.read_exact(&mut room[..RECORD])?;
            records.file.write_all_at(room, place)?;
            &[]
        } else {
            records.file.read_exact_at(room, place)?;
            &room[..RECORD]
        };
        let length = body.len();
        let head =
            format!("HTTP/1.1 200 OK\r\nX-Replica: {name}\r\nContent-Length: {length}\r\n\r\n");
        let mut answer = head.into_bytes();
        answer.extend(body);
        stream.write_all(&answer)?;
    }
}

/// Asks for records, so many per cent of the requests reads, one after the other on each connection;
/// and tells each half second who answered.
pub fn ask(to: SocketAddr, reads_percent: u64) -> Result<()> {
    let counts = [AtomicU64::new(0), AtomicU64::new(0)];
    let waits = Mutex::new(Vec::new());
    println!("ready");
    std::thread::scope(|scope| {
        for seed in 0..CLIENTS {
            let (counts, waits) = (&counts, &waits);
            scope.spawn(move || {
                let mut chance = Chance::new(seed);
                loop {
                    // HAProxy begins later, and may have no replica.
                    let _ = ask_on(to, reads_percent, &mut chance, counts, waits);
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

fn ask_on(
    to: SocketAddr,
    reads_percent: u64,
    chance: &mut Chance,
    counts: &[AtomicU64; 2],
    waits: &Mutex<Vec<u64>>,
) -> Result<()> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut body = [0; RECORD];
    let read = b"GET / HTTP/1.1\r\nHost: store\r\n\r\n".to_vec();
    let mut write =
        format!("{POST}/ HTTP/1.1\r\nHost: store\r\nContent-Length: {RECORD}\r\n\r\n").into_bytes();
    write.extend([b'w'; RECORD]);
    loop {
        let is_read = chance.below(100) < reads_percent;
        let begun = Instant::now();
        stream.write_all(if is_read { &read } else { &write })?;
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
        if is_read {
            reader.read_exact(&mut body)?;
        }
        counts[replica].fetch_add(1, Ordering::Relaxed);
        if let Ok(mut waits) = waits.lock() {
            waits.push(begun.elapsed().as_micros() as u64);
        }
    }
}

/// Prints what an agent tells whoever says this.
pub fn print_told(at: SocketAddr, request: &str) -> Result<()> {
    let mut text = String::new();
    let mut stream = TcpStream::connect(at)?;
    writeln!(stream, "{request}")?;
    stream.read_to_string(&mut text)?;
    print!("{text}");
    Ok(())
}

/// An agent of HAProxy's agent-check that weighs by the round trip alone, as the netto at this port of
/// the same host has it.
pub fn tell_latency(at: SocketAddr, port: u16) -> Result<()> {
    let listener = TcpListener::bind(at)?;
    println!("ready");
    for stream in listener.incoming() {
        let line = match round_trip(port) {
            Ok(seconds) => format!("{:.0}%\n", (100.0 * NEAR / seconds).clamp(1.0, 100.0)),
            Err(_) => "up\n".to_owned(),
        };
        // HAProxy has gone.
        let _ = stream?.write_all(line.as_bytes());
    }
    Ok(())
}

fn round_trip(port: u16) -> Result<f64> {
    let netto = (Ipv4Addr::LOCALHOST, port).into();
    let answer = http::get_ok(netto, "/api/v1/score?last=3s")?.json()?;
    let parts = answer["reads"]["contributions"].as_array();
    let mut parts = parts.context("no parts")?.iter();
    let round_trip = parts.find(|part| part["name"] == "round_trip");
    round_trip
        .and_then(|part| part["seconds"].as_f64())
        .context("none")
}
