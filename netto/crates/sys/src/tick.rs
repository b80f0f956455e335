//! The stack sampler called by the scheduler's tick: `bpf/tick.bpf.c`. This interrupt occurs
//! anyway, so no timer is needed for samples. Finds the tick among the kernel's timers, and the
//! number of the interrupt's own frames in each stack; sets how many of a CPU's ticks take one.

use std::io::BufRead;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use libbpf_rs::Link;
use libbpf_rs::skel::OpenSkel;

use super::abi;
use super::bpf_stats::{ENOUGH_RUNS, Runs, runs_of};
use super::cpu_records::CpuRecords;
use super::files::{read, short_line};
use super::mapped::MappedArray;
use super::skeleton;
use super::system::{self, Roots};
use super::tick_skel::{TickSkel, TickSkelBuilder};

/// The function of the tick's timer, under its names since Linux 3.10, 6.8 and 6.9. The oldest is
/// tried first: kernels that have it use the newest name for another function.
const FUNCTIONS: [&str; 3] = [
    "tick_sched_timer",
    "tick_nohz_highres_handler",
    "tick_nohz_handler",
];
/// Name of the thread that a trial interrupts: as long as the kernel allows, so that it is unique.
const TRIAL: &str = "netto-tick-tria";
/// A trial ends after this many ticks of that thread.
const ENOUGH_TICKS: u64 = 3;
/// Timeout of a trial in ticks, for a CPU with other load.
const PATIENCE_TICKS: u32 = 25;
/// The trial's thread reads the clock once in this many iterations.
const TURNS: u32 = 1000;

/// The session's maps that the tick sampler uses.
#[derive(Debug, Clone, Copy)]
pub(super) struct SamplerMaps<'a> {
    pub(super) cpus: &'a Arc<CpuRecords>,
    pub(super) lanes: BorrowedFd<'a>,
    /// The record that user space controls.
    pub(super) control: BorrowedFd<'a>,
    pub(super) lane_words: u32,
    pub(super) sampled_kinds: u64,
    pub(super) has_tags: bool,
}

/// Samples at ticks of every CPU until dropped.
pub struct TickSampler {
    // Dropped before its program.
    link: Option<Link>,
    skel: TickSkel<'static>,
    /// Time between two ticks.
    tick_ns: u64,
    records: Arc<CpuRecords>,
    /// By CPU.
    rates: Vec<Rate>,
    program: OwnedFd,
    /// Its runs that the kernel's statistics have counted and that were told of.
    told_runs: Runs,
}

/// How often a CPU is sampled.
#[derive(Debug, Clone, Copy, Default)]
struct Rate {
    /// Rate from the next interval on, samples per second; 0: none.
    wanted_hz: u64,
    /// Current rate.
    hz: u64,
    /// Time between two samples of the last interval; `None` if it had none.
    sample_period_ns: Option<u64>,
}

/// Of 2^32 ticks, how many take a sample at this rate, and the time that each represents.
fn thinned(hz: u64, tick_ns: u64) -> (u64, u64) {
    const ALL: u64 = 1 << 32;
    let ratio = (hz as f64 * tick_ns as f64 / 1e9).min(1.0);
    let chance = ((ALL as f64 * ratio) as u64).max(1);
    (chance, (tick_ns as f64 * ALL as f64 / chance as f64) as u64)
}

impl std::fmt::Debug for TickSampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TickSampler")
            .field("tick_ns", &self.tick_ns)
            .field("rates", &self.rates)
            .finish_non_exhaustive()
    }
}

/// Length of a tick, nanoseconds, if every busy CPU has ticks.
///
/// # Errors
/// Why the tick cannot call a sampler on this host.
pub fn period_ns(roots: &Roots) -> Result<u64, String> {
    let tickless = read(&roots.sys_root.join("devices/system/cpu/nohz_full")).ok();
    let tickless = tickless.as_deref().and_then(short_line);
    if let Some(cpus) = tickless.filter(|cpus| cpus != "(null)") {
        return Err(format!("CPUs {cpus} have no tick while busy (nohz_full)"));
    }
    if !cfg!(target_arch = "x86_64") {
        return Err("the depth of its interrupt's own frames is known for x86-64 only".to_owned());
    }
    system::scheduler_tick_ns().ok_or_else(|| "the kernel does not tell its length".to_owned())
}

/// Address of the function of the tick's timer.
fn function_address(roots: &Roots) -> anyhow::Result<u64> {
    let mut symbols = roots.kallsyms()?;
    let mut found = [None; FUNCTIONS.len()];
    let mut line = String::new();
    while found[0].is_none() && symbols.read_line(&mut line)? > 0 {
        let mut words = line.split_ascii_whitespace();
        let (address, name) = (words.next(), words.nth(1));
        if let Some(place) = FUNCTIONS.iter().position(|known| Some(*known) == name) {
            let address = address.and_then(|address| u64::from_str_radix(address, 16).ok());
            found[place] = address.filter(|address| *address != 0);
        }
        line.clear();
    }
    let first = found.into_iter().flatten().next();
    first.context("the kernel's symbols have no known function of the tick's timer")
}

impl TickSampler {
    /// Attaches to the tick and finds out the number of its own frames, for which one thread of
    /// this process keeps a CPU busy for three ticks. No CPU is sampled before it has a rate.
    ///
    /// # Errors
    /// The kernel refuses the program, or there was no tick.
    pub(super) fn start(maps: SamplerMaps<'_>, roots: &Roots) -> anyhow::Result<Self> {
        let tick_ns = period_ns(roots).map_err(anyhow::Error::msg)?;
        let function = function_address(roots)?;
        let mut open = skeleton::open::<TickSkelBuilder>()?;
        let rodata = skeleton::constants(&mut open.maps.rodata_data)?;
        rodata.netto_possible_cpus = maps.cpus.possible_cpus() as u64;
        rodata.netto_lane_words = maps.lane_words;
        rodata.netto_sampled_kinds = maps.sampled_kinds;
        rodata.netto_tags = u64::from(maps.has_tags);
        rodata.netto_tells_ends = u64::from(maps.cpus.tell_ends());
        rodata.netto_tick_function = function;
        rodata.netto_trial_name = trial_name();
        maps.cpus.share_with(&mut open.maps.data_cpus)?;
        open.maps.netto_lanes.reuse_fd(maps.lanes)?;
        open.maps.data_control.reuse_fd(maps.control)?;
        let skel = open
            .load()
            .context("the kernel refuses a program on its timers")?;
        let tick = MappedArray::new(skel.maps.netto_ticks.as_fd(), abi::TICK_BYTES, 1)?;
        let program = skel.progs.netto_tick.as_fd().try_clone_to_owned();
        let mut sampler = TickSampler {
            link: None,
            program: program.context("cannot duplicate a descriptor")?,
            told_runs: Runs::default(),
            skel,
            tick_ns,
            records: maps.cpus.clone(),
            rates: vec![Rate::default(); maps.cpus.possible_cpus()],
        };
        sampler.attach(true)?;
        let own_frames = trial(&tick, Duration::from_nanos(tick_ns))?;
        tick.element(0)[abi::TICK_OWN_FRAMES].store(own_frames, Relaxed);
        Ok(sampler)
    }

    /// Time between two samples of this CPU in the last interval while it was busy, nanoseconds; `None` if
    /// it took none.
    pub fn period_ns(&self, cpu: u32) -> Option<f64> {
        let rate = self.rates.get(cpu as usize)?;
        rate.sample_period_ns.map(|ns| ns as f64)
    }

    /// Current sampling rate of this CPU while it is busy, samples per second; 0: none.
    pub fn rate_hz(&self, cpu: u32) -> u64 {
        self.rates.get(cpu as usize).map_or(0, |rate| rate.hz)
    }

    /// Timers of this CPU that have called the program while it was attached.
    pub fn timers(&self, cpu: u32) -> u64 {
        let word = self.records.clock(cpu as usize).get(abi::CPU_TIMERS);
        word.map_or(0, |word| word.load(Relaxed))
    }

    /// How long the program runs, nanoseconds, by the runs since the last call in which the kernel's statistics
    /// were on; `None` if these were too few.
    pub fn run_ns(&mut self) -> Option<f64> {
        let runs = runs_of(&self.program);
        let counted = runs.since(std::mem::replace(&mut self.told_runs, runs));
        (counted.count >= ENOUGH_RUNS).then(|| counted.ns as f64 / counted.count as f64)
    }

    /// Whether its program is attached.
    pub fn is_attached(&self) -> bool {
        self.link.is_some()
    }

    /// Attaches its program to the kernel's timers, or detaches it: all of them call it.
    ///
    /// # Errors
    /// libbpf's.
    pub fn attach(&mut self, is_wanted: bool) -> anyhow::Result<()> {
        if !is_wanted {
            self.link = None;
        } else if self.link.is_none() {
            let attached = self.skel.progs.netto_tick.attach_trace();
            self.link = Some(attached.context("cannot attach to tracepoint hrtimer_expire_entry")?);
        }
        Ok(())
    }

    /// Requests another rate on this CPU; 0 stops sampling. It applies from the next interval on;
    /// without samples it applies at once.
    pub fn set_rate(&mut self, cpu: u32, hz: u64) {
        let cpu = cpu as usize;
        if let Some(rate) = self.rates.get_mut(cpu) {
            rate.wanted_hz = hz;
            if rate.hz == 0 && hz > 0 {
                self.turn(cpu);
            }
        }
    }

    /// Ends an interval. To be called directly before draining its stacks.
    pub fn end_interval(&mut self) {
        for cpu in 0..self.rates.len() {
            let Rate { hz, wanted_hz, .. } = self.rates[cpu];
            self.rates[cpu].sample_period_ns = (hz > 0).then(|| thinned(hz, self.tick_ns).1);
            if hz != wanted_hz {
                self.turn(cpu);
            }
        }
    }

    /// Applies the requested rate.
    fn turn(&mut self, cpu: usize) {
        let rate = &mut self.rates[cpu];
        rate.hz = rate.wanted_hz;
        let chance = match rate.hz {
            0 => 0,
            hz => thinned(hz, self.tick_ns).0,
        };
        if let Some(word) = self.records.clock(cpu).get(abi::CPU_TICK_CHANCE) {
            word.store(chance, Relaxed);
        }
    }
}

/// The name of the trial's thread in the form that the program compares.
fn trial_name() -> [u64; 2] {
    let mut bytes = [0; 16];
    bytes[..TRIAL.len()].copy_from_slice(TRIAL.as_bytes());
    let (first, second) = bytes.split_at(8);
    [first, second].map(|half| u64::from_ne_bytes(std::array::from_fn(|at| half[at])))
}

/// Spins in user mode until ticks have shown the number of their own frames.
fn trial(tick: &MappedArray, period: Duration) -> anyhow::Result<u64> {
    let word = |at: usize| tick.element(0)[at].load(Relaxed);
    let spin = || {
        let deadline = Instant::now() + period * PATIENCE_TICKS;
        while Instant::now() < deadline {
            for _ in 0..TURNS {
                if word(abi::TICK_TRIED) >= ENOUGH_TICKS {
                    return true;
                }
            }
        }
        false
    };
    let is_over = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(TRIAL.to_owned());
        let thread = thread
            .spawn_scoped(scope, spin)
            .context("cannot start a thread")?;
        Ok::<_, anyhow::Error>(thread.join().unwrap_or(false))
    })?;
    let own_frames = word(abi::TICK_FEWEST_FRAMES);
    ensure!(
        is_over,
        "of {PATIENCE_TICKS} ticks on a busy CPU, {} were observed",
        word(abi::TICK_TRIED)
    );
    if own_frames as usize >= abi::TRIAL_FRAMES {
        bail!("its interrupt has more frames than {own_frames}");
    }
    Ok(own_frames)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::tree;

    #[test]
    fn the_oldest_name_of_the_ticks_function_is_the_right_one() {
        let old = "10 t tick_nohz_handler\n20 t tick_sched_timer\n30 t other\n";
        let (_dir, roots) = tree(&[("proc/kallsyms", old)]);
        assert_eq!(function_address(&roots).unwrap(), 0x20);
        let (_dir, roots) = tree(&[("proc/kallsyms", "f0 t tick_nohz_handler\n")]);
        assert_eq!(function_address(&roots).unwrap(), 0xf0);
    }

    #[test]
    fn symbols_without_addresses_or_without_a_tick_are_refused() {
        for text in ["0 t tick_sched_timer\n", "10 t x\n", "", "tick_sched_timer"] {
            let (_dir, roots) = tree(&[("proc/kallsyms", text)]);
            assert!(function_address(&roots).is_err(), "{text}");
        }
    }

    #[test]
    fn where_busy_cpus_have_no_tick_it_is_not_to_be_had() {
        let file = "sys/devices/system/cpu/nohz_full";
        let (_dir, roots) = tree(&[(file, "2-7\n")]);
        assert!(period_ns(&roots).unwrap_err().contains("2-7"));
        for none in ["(null)\n", "\n", ""] {
            let (_dir, roots) = tree(&[(file, none)]);
            let is_known = cfg!(target_arch = "x86_64");
            assert_eq!(period_ns(&roots).is_ok(), is_known, "{none:?}");
        }
    }

    #[test]
    fn a_sample_stands_for_the_ticks_that_took_none() {
        const TICK_NS: u64 = 4_000_000;
        assert_eq!(thinned(250, TICK_NS), (1 << 32, TICK_NS));
        assert_eq!(thinned(1000, TICK_NS), (1 << 32, TICK_NS));
        let (chance, period_ns) = thinned(20, TICK_NS);
        let off_ns = period_ns.abs_diff(1_000_000_000 / 20);
        assert!(off_ns < 1_000, "{period_ns}");
        assert!((chance as f64 / (1_u64 << 32) as f64 - 0.08).abs() < 1e-6);
    }

    /// CONFIG_HZ of 100 and of 1000: as many samples as are asked for, up to that.
    #[test]
    fn a_rate_is_had_whatever_the_kernels_ticks() {
        for (ticks_hz, tick_ns) in [(100, 10_000_000_u64), (250, 4_000_000), (1000, 1_000_000)] {
            for hz in [8, 30, 150, ticks_hz, 2000] {
                let (chance, period_ns) = thinned(hz, tick_ns);
                let taken_hz = ticks_hz as f64 * chance as f64 / (1_u64 << 32) as f64;
                let most = hz.min(ticks_hz) as f64;
                assert!((taken_hz / most - 1.0).abs() < 1e-6, "{hz} of {ticks_hz}");
                assert!((period_ns as f64 * most / 1e9 - 1.0).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn the_trials_thread_has_a_name_that_the_kernel_keeps_whole() {
        assert_eq!(TRIAL.len(), 15);
        assert_eq!(trial_name()[0].to_ne_bytes(), *b"netto-ti");
    }
}
