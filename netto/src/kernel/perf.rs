//! The clock that drives the stack sampler: one perf event per CPU.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `PERF_TYPE_SOFTWARE` and `PERF_COUNT_SW_CPU_CLOCK` (`include/uapi/linux/perf_event.h`).
const TYPE_SOFTWARE: u32 = 1;
const COUNT_CPU_CLOCK: u64 = 0;
/// The attribute's size in its first version, whose fields are all that is used here.
const ATTRIBUTE_BYTES: u32 = 64;
const FLAG_DISABLED: u64 = 1 << 0;
const FLAG_EXCLUDE_USER: u64 = 1 << 4;
const FLAG_EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const FLAG_FREQUENCY: u64 = 1 << 10;
/// `_IO('$', 0)` and `_IOW('$', 8, __u32)`.
const IOC_ENABLE: libc::Ioctl = 0x2400;
const IOC_SET_BPF: libc::Ioctl = 0x4004_2408;
/// Close the descriptor on exec.
const OPEN_CLOEXEC: libc::c_ulong = 1 << 3;

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

/// How often this CPU is sampled where `nominal_hz` is asked for: 2 to 7 % less
/// often, and each CPU differently (multiples of the golden ratio).
///
/// Clocks of one frequency keep their distance. A sample delays its CPU a little,
/// so at a fixed distance behind it the other CPUs would always be met in the same
/// moment, a receiver always just before it wakes up, for example; the scheduler's
/// tick is such a clock, too. With frequencies that differ by some hertz the
/// distances change all the time, and samples meet everything.
pub fn frequency_of(cpu: u32, nominal_hz: u64) -> u64 {
    const GOLDEN_RATIO: u32 = 0x9e37_79b9;
    let part = u128::from(cpu.wrapping_mul(GOLDEN_RATIO));
    let spread_hz = ((u128::from(nominal_hz / 20) * part) >> 32) as u64;
    nominal_hz - nominal_hz / 50 - spread_hz
}

/// A sampling event on one CPU, closed when dropped.
#[derive(Debug)]
pub struct SamplingEvent(OwnedFd);

impl SamplingEvent {
    /// Opens a clock that fires `frequency_hz` times a second while the CPU
    /// runs kernel code. It counts nothing until a BPF program is attached.
    ///
    /// The idle task is not excluded: on a CPU that wakes up for packets the
    /// softirq runs on top of it. The sampler itself tells the two apart.
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
        // SAFETY: the kernel has just returned this descriptor, and nobody else owns it.
        Ok(SamplingEvent(unsafe {
            OwnedFd::from_raw_fd(fd as libc::c_int)
        }))
    }

    /// Lets the clock run `program` each time it fires, until this event is dropped.
    fn start(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: both descriptors are open for the length of the call, which
        // takes its own reference to the program.
        let attached = unsafe { libc::ioctl(self.0.as_raw_fd(), IOC_SET_BPF, program.as_raw_fd()) };
        if attached < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is an open perf event; the request takes no pointer.
        if unsafe { libc::ioctl(self.0.as_raw_fd(), IOC_ENABLE, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// The sampling events of all online CPUs.
#[derive(Debug)]
pub struct Samplers {
    program: OwnedFd,
    frequency_hz: u64,
    events: BTreeMap<u32, SamplingEvent>,
}

impl Samplers {
    pub(super) fn new(program: OwnedFd, frequency_hz: u64) -> Self {
        Samplers {
            program,
            frequency_hz,
            events: BTreeMap::new(),
        }
    }

    /// Time that one sample of this CPU stands for, nanoseconds, as the kernel rounds it.
    pub fn period_ns(&self, cpu: u32) -> u64 {
        1_000_000_000 / frequency_of(cpu, self.frequency_hz)
    }

    /// Makes the CPUs that are sampled those that are online. The kernel ends
    /// the events of a CPU that goes; one that comes needs a new one. The result
    /// are those CPUs that cannot be sampled, and why; all others are.
    #[must_use]
    pub fn follow(&mut self, online: &[u32]) -> BTreeMap<u32, io::Error> {
        self.events.retain(|cpu, _| online.contains(cpu));
        let mut refused = BTreeMap::new();
        for &cpu in online {
            if self.events.contains_key(&cpu) {
                continue;
            }
            let event = SamplingEvent::open(cpu, frequency_of(cpu, self.frequency_hz))
                .and_then(|event| event.start(self.program.as_fd()).map(|()| event));
            match event {
                Ok(event) => {
                    self.events.insert(cpu, event);
                }
                Err(error) => {
                    refused.insert(cpu, error);
                }
            }
        }
        refused
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn cpus_are_sampled_nearly_as_asked_and_neighbours_never_in_step() {
        for nominal in [1, 19, 100, 999, 1000, 10_000, u64::MAX] {
            for cpu in [0, 1, 2, 1023, u32::MAX] {
                let own = frequency_of(cpu, nominal);
                assert!(own <= nominal && own >= nominal / 100 * 93, "{own}");
                assert!(own > 0, "a clock that never fires");
            }
        }
        for first in 0..1000 {
            let eight: BTreeSet<u64> = (first..first + 8).map(|c| frequency_of(c, 1000)).collect();
            assert_eq!(eight.len(), 8, "from CPU {first}: {eight:?}");
            assert!(!eight.contains(&1000), "in step with a tick of 1000 Hz");
        }
    }
}
