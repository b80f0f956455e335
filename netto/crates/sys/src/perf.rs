//! The clock that drives the stack sampler: one perf event per CPU.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::system::monotonic_ns;
use netto_analysis::pace::{self, Pace};

/// `PERF_TYPE_SOFTWARE` and `PERF_COUNT_SW_CPU_CLOCK` (`include/uapi/linux/perf_event.h`).
const TYPE_SOFTWARE: u32 = 1;
const COUNT_CPU_CLOCK: u64 = 0;
/// The attribute's size in its first version; only fields of that version are used.
const ATTRIBUTE_BYTES: u32 = 64;
const FLAG_DISABLED: u64 = 1 << 0;
const FLAG_EXCLUDE_USER: u64 = 1 << 4;
const FLAG_EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const FLAG_FREQUENCY: u64 = 1 << 10;
/// Close the descriptor on exec.
const OPEN_CLOEXEC: libc::c_ulong = 1 << 3;

nix::ioctl_none!(
    /// `PERF_EVENT_IOC_ENABLE`.
    ioctl_enable, b'$', 0
);
nix::ioctl_none!(
    /// `PERF_EVENT_IOC_DISABLE`.
    ioctl_disable, b'$', 1
);
nix::ioctl_write_ptr!(
    /// `PERF_EVENT_IOC_PERIOD`.
    ioctl_period, b'$', 4, u64
);
nix::ioctl_write_int!(
    /// `PERF_EVENT_IOC_SET_BPF`.
    ioctl_set_bpf, b'$', 8
);

/// `struct perf_event_attr`, version 0.
#[repr(C)]
struct Attribute {
    kind: u32,
    size: u32,
    config: u64,
    sample_frequency: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// A sampling event on one CPU, closed on drop.
#[derive(Debug)]
pub struct SamplingEvent(OwnedFd);

impl SamplingEvent {
    /// Opens a clock that expires `frequency_hz` times a second while the CPU runs kernel code. It
    /// counts only once a BPF program is attached.
    ///
    /// The idle task is not excluded: on a CPU that wakes up for packets, the softirq runs on top
    /// of it. The sampler distinguishes the two.
    ///
    /// # Errors
    /// The kernel's refusal: `EACCES` by privileges or `perf_event_paranoid`,
    /// `EINVAL` by `perf_event_max_sample_rate`, `ENODEV` for an offline CPU.
    pub fn open(cpu: u32, frequency_hz: u64) -> io::Result<Self> {
        let attribute = Attribute {
            kind: TYPE_SOFTWARE,
            size: ATTRIBUTE_BYTES,
            config: COUNT_CPU_CLOCK,
            sample_frequency: frequency_hz,
            sample_type: 0,
            read_format: 0,
            flags: FLAG_DISABLED | FLAG_EXCLUDE_USER | FLAG_EXCLUDE_HYPERVISOR | FLAG_FREQUENCY,
            wakeup_events: 0,
            breakpoint_type: 0,
            config1: 0,
        };
        let (any_task, no_group): (libc::pid_t, libc::c_int) = (-1, -1);
        // SAFETY: the attribute is a valid `perf_event_attr` of the size that it
        // states and outlives the call, which keeps no pointer to it.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attribute,
                any_task,
                cpu as libc::c_int,
                no_group,
                OPEN_CLOEXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
        Ok(SamplingEvent(unsafe {
            OwnedFd::from_raw_fd(fd as libc::c_int)
        }))
    }

    /// Sets another period, which begins now. The kernel converted the frequency to a period when
    /// the event was opened, and never adjusts it for this kind of clock.
    fn set_period(&self, period_ns: u64) -> io::Result<()> {
        // SAFETY: the descriptor is an open perf event, and the kernel reads one
        // 64-bit number, which outlives the call.
        unsafe { ioctl_period(self.0.as_raw_fd(), &raw const period_ns) }?;
        Ok(())
    }

    /// Starts the clock with this period and without a program, until this event is dropped.
    pub(super) fn count(&self, period_ns: u64) -> io::Result<()> {
        self.set_period(period_ns)?;
        self.run(true)
    }

    /// Makes the clock run `program` each time it expires, until this event is dropped.
    fn start(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: both descriptors are open for the length of the call, which
        // takes its own reference to the program.
        unsafe { ioctl_set_bpf(self.0.as_raw_fd(), program.as_raw_fd() as _) }?;
        self.run(true)
    }

    /// Starts or stops the clock.
    fn run(&self, runs: bool) -> io::Result<()> {
        let fd = self.0.as_raw_fd();
        // SAFETY: the descriptor is an open perf event; the requests take no pointer.
        unsafe {
            if runs {
                ioctl_enable(fd)
            } else {
                ioctl_disable(fd)
            }
        }?;
        Ok(())
    }
}

/// The sampling events of all online CPUs.
#[derive(Debug)]
pub struct Samplers {
    program: OwnedFd,
    /// The initial rate of a CPU.
    frequency_hz: u64,
    clocks: BTreeMap<u32, Clock>,
}

/// The clock of one CPU.
#[derive(Debug)]
struct Clock {
    event: SamplingEvent,
    pace: Pace,
    /// Rate from the next interval on, samples per second; 0: none.
    wanted_hz: u64,
    /// Current rate.
    hz: u64,
    /// Time represented by one sample of the last interval.
    sample_period_ns: u64,
}

impl Clock {
    /// Sets another random period for the requested rate. If the clock cannot be changed, it stays
    /// as it is.
    fn turn(&mut self, cpu: u32, turn: u32) {
        if self.wanted_hz == 0 {
            if self.hz > 0 && self.event.run(false).is_ok() {
                self.hz = 0;
            }
            return;
        }
        let period_ns = pace::period_ns(cpu, turn, self.wanted_hz);
        if self.event.set_period(period_ns).is_err()
            || self.hz == 0 && self.event.run(true).is_err()
        {
            return;
        }
        self.hz = self.wanted_hz;
        self.pace = Pace::new(period_ns, monotonic_ns());
    }
}

impl Samplers {
    pub(super) fn new(program: OwnedFd, frequency_hz: u64) -> Self {
        Samplers {
            program,
            frequency_hz,
            clocks: BTreeMap::new(),
        }
    }

    /// Sets the initial rate of CPUs that are still to come.
    pub fn begin_at(&mut self, frequency_hz: u64) {
        self.frequency_hz = frequency_hz;
    }

    /// Time represented by one sample of this CPU in the last interval, nanoseconds.
    pub fn period_ns(&self, cpu: u32) -> u64 {
        match self.clocks.get(&cpu) {
            Some(clock) => clock.sample_period_ns,
            None => pace::period_ns(cpu, 0, self.frequency_hz),
        }
    }

    /// Current sampling rate on this CPU, samples per second; 0: none.
    pub fn rate_hz(&self, cpu: u32) -> u64 {
        self.clocks.get(&cpu).map_or(0, |clock| clock.hz)
    }

    /// Requests another rate on this CPU; 0 stops sampling. It applies from the next interval on,
    /// because all samples of an interval represent the same time; without samples it applies at
    /// once.
    pub fn set_rate(&mut self, cpu: u32, hz: u64) {
        if let Some(clock) = self.clocks.get_mut(&cpu) {
            clock.wanted_hz = hz;
            if clock.hz == 0 && hz > 0 {
                clock.turn(cpu, random());
                clock.sample_period_ns = clock.pace.period_ns();
            }
        }
    }

    /// Ends an interval: sets another random period on every CPU. To be called directly before
    /// draining its stacks.
    pub fn end_interval(&mut self) {
        let turn = random();
        for (&cpu, clock) in &mut self.clocks {
            if clock.hz == 0 {
                continue;
            }
            let passed = clock.pace.pass(monotonic_ns(), clock.wanted_hz != clock.hz);
            clock.sample_period_ns = passed.sample_period_ns;
            if passed.is_due {
                clock.turn(cpu, turn);
            }
        }
    }

    /// Opens and closes events to match the CPUs that are online. The kernel ends the events of a
    /// CPU that goes offline; one that comes online needs a new one. Returns the CPUs that cannot
    /// be sampled, with the reason.
    #[must_use]
    pub fn follow(&mut self, online: &[u32]) -> BTreeMap<u32, io::Error> {
        self.clocks.retain(|cpu, _| online.contains(cpu));
        let mut refused = BTreeMap::new();
        let turn = random();
        for &cpu in online {
            if self.clocks.contains_key(&cpu) {
                continue;
            }
            match self.start(cpu, turn) {
                Ok(clock) => {
                    self.clocks.insert(cpu, clock);
                }
                Err(error) => {
                    refused.insert(cpu, error);
                }
            }
        }
        refused
    }

    fn start(&self, cpu: u32, turn: u32) -> io::Result<Clock> {
        let event = SamplingEvent::open(cpu, self.frequency_hz)?;
        let period_ns = pace::period_ns(cpu, turn, self.frequency_hz);
        event.set_period(period_ns)?;
        event.start(self.program.as_fd())?;
        Ok(Clock {
            event,
            pace: Pace::new(period_ns, monotonic_ns()),
            wanted_hz: self.frequency_hz,
            hz: self.frequency_hz,
            sample_period_ns: period_ns,
        })
    }
}

/// Clocks that take samples in addition to the regular ones while a window is open.
#[derive(Debug)]
pub(super) struct WindowSamplers {
    program: OwnedFd,
    /// Open events, not running outside of windows.
    events: BTreeMap<u32, SamplingEvent>,
}

impl WindowSamplers {
    /// No clock is open yet.
    pub(super) fn new(program: OwnedFd) -> Self {
        WindowSamplers {
            program,
            events: BTreeMap::new(),
        }
    }

    /// Starts the clocks of these CPUs at this rate, and returns those that run. A CPU whose clock
    /// cannot be had has only its regular samples.
    pub(super) fn start(&mut self, cpus: &[u32], hz: u64) -> Vec<u32> {
        // The kernel ends the event of a CPU that goes offline.
        self.events.retain(|cpu, _| cpus.contains(cpu));
        let turn = random();
        let running = cpus.iter().copied().filter(|&cpu| {
            let period_ns = pace::period_ns(cpu, turn, hz);
            self.start_one(cpu, period_ns).is_ok()
        });
        running.collect()
    }

    fn start_one(&mut self, cpu: u32, period_ns: u64) -> io::Result<()> {
        if let Some(event) = self.events.get(&cpu) {
            if event.count(period_ns).is_ok() {
                return Ok(());
            }
            self.events.remove(&cpu);
        }
        let event = SamplingEvent::open(cpu, 1)?;
        event.set_period(period_ns)?;
        event.start(self.program.as_fd())?;
        self.events.insert(cpu, event);
        Ok(())
    }

    /// Stops the clocks of these CPUs.
    pub(super) fn stop(&mut self, cpus: &[u32]) {
        for cpu in cpus {
            let is_stopped = self.events.get(cpu).map(|event| event.run(false).is_ok());
            if is_stopped == Some(false) {
                self.events.remove(cpu);
            }
        }
    }
}

/// A simple random number: the standard library's seed for hash tables.
fn random() -> u32 {
    RandomState::new().build_hasher().finish() as u32
}
