//! Counts of missed runs of programs, kept by the kernel and the probes.

use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::libbpf_sys::bpf_prog_info;
use metrics_common::Missable;

use super::bpf_stats::information;
use super::cpu_time::Reading;

/// Interval of queries: each is a system call that returns all information on a program.
const ASKED_NS: u64 = 5_000_000_000;

/// The countable ways in which probes miss events.
#[derive(Debug, Default)]
pub struct MissedRuns {
    ways: Vec<Missable>,
    counters: Vec<Counter>,
    /// The counts of the last query, and the time of the next.
    counts: Vec<u64>,
    asked_from_ns: u64,
}

/// The source of a count.
#[derive(Debug)]
enum Counter {
    /// Programs, counted by the kernel.
    Programs(Vec<OwnedFd>),
    /// A word of the per-CPU records.
    Records(fn(&Reading) -> u64),
}

impl MissedRuns {
    /// Adds a program of this probe, if the kernel counts its missed runs.
    pub(super) fn program(&mut self, probe: &str, component: &str, program: impl AsFd) {
        let Ok(program) = program.as_fd().try_clone_to_owned() else {
            return;
        };
        if recursion_misses(&program).is_none() {
            return;
        }
        let known = self
            .ways
            .iter()
            .zip(&mut self.counters)
            .find(|(way, _)| way.probe == probe);
        if let Some((_, Counter::Programs(programs))) = known {
            programs.push(program);
            return;
        }
        self.add(
            probe,
            "recursion",
            component,
            Counter::Programs(vec![program]),
        );
    }

    /// Adds counts kept by the probes themselves.
    pub(super) fn records(
        &mut self,
        probe: &str,
        reason: &str,
        component: &str,
        count: fn(&Reading) -> u64,
    ) {
        self.add(probe, reason, component, Counter::Records(count));
    }

    fn add(&mut self, probe: &str, reason: &str, component: &str, counter: Counter) {
        self.ways.push(Missable {
            probe: probe.to_owned(),
            reason: reason.to_owned(),
            component: component.to_owned(),
        });
        self.counters.push(counter);
    }

    /// The countable events, in the order of [`MissedRuns::counts`].
    pub fn ways(&self) -> &[Missable] {
        &self.ways
    }

    /// Missed events since the probes were loaded; `readings` are the records of all CPUs. Counts
    /// of programs may be five seconds old.
    pub fn counts(&mut self, readings: &[Reading], now_ns: u64) -> &[u64] {
        let asks = now_ns >= self.asked_from_ns;
        if asks {
            self.asked_from_ns = now_ns + ASKED_NS;
        }
        self.counts.resize(self.counters.len(), 0);
        for (counter, count) in self.counters.iter().zip(&mut self.counts) {
            match counter {
                Counter::Programs(programs) if asks => {
                    *count = programs.iter().filter_map(recursion_misses).sum();
                }
                Counter::Programs(_) => {}
                Counter::Records(of_cpu) => *count = readings.iter().map(of_cpu).sum(),
            }
        }
        &self.counts
    }
}

/// How often a program was not run because it was already running; `None` if the kernel does not
/// count it (before 5.12).
fn recursion_misses(program: &OwnedFd) -> Option<u64> {
    let (info, bytes) = information(program)?;
    let end = offset_of!(bpf_prog_info, recursion_misses) + size_of::<u64>();
    (bytes >= end).then_some(info.recursion_misses)
}
