//! What the kernel allocates while netto's programs are at work in the scheduler, with the run queue's lock
//! held: nothing. And a host whose memory runs short all the time, while tasks are switched away in
//! socket calls, lives.

use std::fs;
use std::net::UdpSocket;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use netto_truth::allocations::{ALLOCATES, Allocations};

use crate::follow::Followed;
use crate::trial::tests;
use crate::{child, guest, http, lab, running};

tests! {
    allocations::nothing_is_allocated_below_the_program_at_context_switches = below_the_switch;
    allocations::memory_runs_short_while_tasks_are_switched_away_in_socket_calls = short_of_memory;
}

/// Threads that sleep in a receive at the same time. Numbers of some are the same in their low bits, and
/// some have one home.
const CROWD: usize = 800;
/// How long memory runs short again and again.
const LONG: Duration = Duration::from_secs(120);

/// Threads that receive once each.
struct Crowd {
    gate: Arc<Barrier>,
    socket: Arc<UdpSocket>,
    threads: Vec<JoinHandle<std::io::Result<usize>>>,
}

impl Crowd {
    /// Threads that wait until all are to receive.
    fn gather() -> Result<Crowd> {
        const STACK_BYTES: usize = 32 << 10;
        let gate = Arc::new(Barrier::new(CROWD + 1));
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0")?);
        socket.set_read_timeout(Some(child::PATIENCE))?;
        let mut threads = Vec::new();
        for _ in 0..CROWD {
            let (gate, socket) = (Arc::clone(&gate), Arc::clone(&socket));
            let work = move || {
                gate.wait();
                socket.recv(&mut [0])
            };
            let builder = thread::Builder::new().stack_size(STACK_BYTES);
            threads.push(builder.spawn(work).context("no further thread")?);
        }
        Ok(Crowd {
            gate,
            socket,
            threads,
        })
    }

    /// Has all receive, and ends them.
    fn receive(self) -> Result<()> {
        const A_WHILE: Duration = Duration::from_millis(300);
        // Datagrams for which a socket has room.
        const AT_ONCE: usize = 100;
        self.gate.wait();
        thread::sleep(A_WHILE);
        let sender = UdpSocket::bind("127.0.0.1:0")?;
        let to = self.socket.local_addr()?;
        for sent in 1..=CROWD {
            sender.send_to(&[1], to)?;
            let are_read = || {
                let ended = self.threads.iter().filter(|thread| thread.is_finished());
                ensure!(ended.count() >= sent, "threads sleep on");
                Ok(())
            };
            if sent % AT_ONCE == 0 {
                child::eventually(are_read)?;
            }
        }
        for thread in self.threads {
            let outcome = thread.join();
            outcome.map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        }
        Ok(())
    }
}

/// Where the code of a program of a process is, with the functions that it calls.
fn code_of(pid: u32, name: &str) -> Result<Vec<Range<u64>>> {
    let programs = running::programs_of(pid)?;
    let options = ProgInfoQueryOptions::default()
        .include_jited_ksyms(true)
        .include_jited_func_lens(true);
    let program = ProgInfoIter::with_query_opts(options)
        .find(|program| programs.contains(&program.id) && program.name == name)
        .with_context(|| format!("no program {name}"))?;
    let begins = program.jited_ksyms.iter().map(|begin| begin.addr() as u64);
    let ranges = begins.zip(&program.jited_func_lens);
    let ranges: Vec<_> = ranges
        .map(|(begin, length)| begin..begin + u64::from(*length))
        .filter(|range| range.start != 0)
        .collect();
    ensure!(
        !ranges.is_empty(),
        "the kernel does not say where {name} is"
    );
    Ok(ranges)
}

/// A daemon that parks the states of tasks.
fn parking_daemon() -> Result<Followed> {
    guest::only()?;
    let followed = Followed::start()?;
    let probe = followed
        .info
        .probes
        .iter()
        .find(|probe| probe.name == "sched_switch");
    ensure!(
        probe.is_some_and(|probe| probe.failure.is_none()),
        "{probe:?}"
    );
    Ok(followed)
}

/// States that netto has lost.
fn states_lost(followed: &Followed) -> Result<f64> {
    let text = http::get_ok(followed.daemon().at, "/metrics")?.body;
    let name = "netto_probe_missed_total{probe=\"sched_switch\",reason=\"state_lost\"} ";
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    Ok(line
        .with_context(|| format!("no {name}: {text}"))?
        .parse()?)
}

fn below_the_switch() -> Result<()> {
    let mut followed = parking_daemon()?;
    let mut counter = Allocations::attach()?;
    let switch = code_of(followed.pid(), "netto_switch")?;
    let allocates = code_of(std::process::id(), ALLOCATES)?;
    let own_code = allocates.first().context("no code")?.clone();
    let ranges: Vec<_> = std::iter::once(own_code).chain(switch).collect();
    let received = followed.entries("rx_syscall")?;
    let crowd = Crowd::gather()?;
    counter.watch(&ranges, std::process::id());
    crowd.receive()?;
    counter.watch(&[], 0);
    let (seen, [below_its_own, of_netto @ ..]) = counter.counted();
    followed.catch_up()?;
    let received = followed.entries("rx_syscall")? - received;
    let lost = states_lost(&followed)?;
    println!(
        "\n{seen} allocations and frees, {below_its_own} below a program that allocates, {of_netto:?} \
         below netto's; {received} receives, {lost} states lost"
    );
    ensure!(received >= CROWD as u64, "only {received} receives");
    ensure!(lost == 0.0, "{lost} states lost");
    // From 6.4 on programs have memory of their own for this.
    let is_by_kmalloc = !lab::kernel_at_least(6, 4)?;
    ensure!(
        seen > 0 && (below_its_own > 0 || !is_by_kmalloc),
        "nothing is counted"
    );
    ensure!(of_netto == [0; 3], "{of_netto:?} below netto_switch");
    Ok(())
}

/// A setting of the kernel's.
fn set(name: &str, value: impl ToString) -> Result<()> {
    let path = format!("/proc/sys/vm/{name}");
    fs::write(&path, value.to_string()).with_context(|| format!("cannot write {path}"))
}

/// The number after a word in a file of /proc.
fn number(file: &str, name: &str) -> Result<u64> {
    let text = fs::read_to_string(file)?;
    let mut words = text.split_whitespace();
    let value = words.find(|word| *word == name).and_then(|_| words.next());
    Ok(value
        .with_context(|| format!("no {name} in {file}"))?
        .parse()?)
}

/// Bytes that nobody uses.
fn free_bytes() -> Result<u64> {
    Ok(number("/proc/meminfo", "MemFree:")? << 10)
}

/// Memory of this process.
struct Memory {
    begin: *mut u8,
    bytes: usize,
}

impl Memory {
    fn reserve(bytes: usize) -> Result<Memory> {
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let begin = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
        ensure!(begin != libc::MAP_FAILED, std::io::Error::last_os_error());
        // SAFETY: it is this mapping. Single pages, however large the kernel may make them.
        unsafe { libc::madvise(begin, bytes, libc::MADV_NOHUGEPAGE) };
        let begin = begin.cast();
        Ok(Memory { begin, bytes })
    }

    /// Uses its pages until no more than this is free.
    fn take_all_but(&self, free: u64) -> Result<()> {
        const PAGE: usize = 4096;
        for (place, at) in (0..self.bytes).step_by(PAGE).enumerate() {
            if place % 64 == 0 && free_bytes()? <= free {
                break;
            }
            // SAFETY: within the mapping, to which nothing else refers.
            unsafe { self.begin.add(at).write_volatile(1) };
        }
        Ok(())
    }

    /// Lets the kernel take pages back when it needs them, and not before.
    fn offer(&self) {
        // SAFETY: the mapping, of whose contents nothing is read.
        unsafe { libc::madvise(self.begin.cast(), self.bytes, libc::MADV_FREE) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping, to which nothing refers any more.
        unsafe { libc::munmap(self.begin.cast(), self.bytes) };
    }
}

/// What the machine that runs the guest watches, once a second.
fn beat(until: &AtomicBool) {
    let mut number = 0;
    while !until.load(Ordering::Relaxed) {
        println!("\nguest heartbeat {number}");
        number += 1;
        thread::sleep(Duration::from_secs(1));
    }
    println!("\nguest heartbeat ends");
}

fn short_of_memory() -> Result<()> {
    let followed = parking_daemon()?;
    let is_over = Arc::new(AtomicBool::new(false));
    let heart = thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || beat(&is_over)
    });
    let outcome = crosses_the_watermark();
    is_over.store(true, Ordering::Relaxed);
    heart.join().map_err(|_| anyhow::anyhow!("no heart"))?;
    let (rounds, woken) = outcome?;
    let lost = states_lost(&followed)?;
    println!("\n{rounds} times short of memory, {woken} runs of kswapd; {lost} states lost");
    ensure!(rounds >= 10 && woken >= rounds / 2, "memory was not short");
    Ok(())
}

/// Raises the low watermark above what is free while kswapd sleeps, and has threads that exist already
/// be switched away in receives: whoever asks for a page next wakes kswapd. Returns how often, and
/// how often kswapd has run.
fn crosses_the_watermark() -> Result<(u64, u64)> {
    // In tenths of a per mille of the memory: between watermarks as usual, and while it is short.
    const USUAL: u64 = 10;
    const SHORT: u64 = 500;
    let total = number("/proc/meminfo", "MemTotal:")? << 10;
    // Less than the raised low watermark, and more than the usual one; what kswapd can get back is
    // more than the raised watermarks' distance.
    let (free, offered) = (total / 40, total / 5);
    set("watermark_scale_factor", USUAL)?;
    let held = Memory::reserve(total as usize)?;
    held.take_all_but(offered + free)?;
    let offers = Memory::reserve(total as usize)?;
    let run = || number("/proc/vmstat", "pageoutrun");
    let (begun, run_before, mut rounds) = (Instant::now(), run()?, 0);
    while begun.elapsed() < LONG {
        let crowd = Crowd::gather()?;
        offers.take_all_but(free)?;
        offers.offer();
        thread::sleep(Duration::from_millis(200));
        set("watermark_scale_factor", SHORT)?;
        crowd.receive()?;
        set("watermark_scale_factor", USUAL)?;
        rounds += 1;
    }
    Ok((rounds, run()? - run_before))
}
