//! What it would cost to time socket calls without fentry: the system call's
//! start stamped by a raw tracepoint that fires for every system call of every
//! process, and `sock_send_length` / `sock_recv_length` as the end. Against it
//! stands what netto does: sampling.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::figures::{Figure, Section, Spread};
use super::lab::Lab;
use super::load::Load;
use super::present::{self, Variant};
use super::programs;

const SOURCE: &str = "socket_clock.bpf.c";
/// How long each load runs.
const MILLISECONDS: u64 = 500;

/// What is measured, built.
pub struct Built<'a> {
    /// The daemon.
    pub netto: &'a Path,
    /// What attaches other programs.
    pub attach: &'a Path,
    /// The stamp stands in a record of the CPU: wrong for calls that sleep, but the cheapest.
    stamp_per_cpu: PathBuf,
    /// The stamp stands in the task's own storage: right, and dearer.
    stamp_per_task: PathBuf,
}

impl<'a> Built<'a> {
    /// Compiles the ways of timing that netto does not take.
    pub fn new(root: &Path, netto: &'a Path, attach: &'a Path) -> Result<Built<'a>> {
        Ok(Built {
            netto,
            attach,
            stamp_per_cpu: programs::compile(root, SOURCE, Some("STAMP_PER_CPU"))?,
            stamp_per_task: programs::compile(root, SOURCE, Some("STAMP_PER_TASK"))?,
        })
    }
}

/// Measures.
pub fn measure(lab: &Lab, built: &Built<'_>, rounds: usize) -> Result<Vec<Section>> {
    let variants = [
        Variant::Nothing,
        Variant::Programs(&built.stamp_per_cpu),
        Variant::Programs(&built.stamp_per_task),
        Variant::Netto(1),
        Variant::Netto(1_000),
    ];
    let mut call_ns = variants.map(|_| Vec::new());
    let mut send_ns = variants.map(|_| Vec::new());
    for round in 0..rounds {
        eprintln!(
            "xtask: ways of timing socket calls, round {} of {rounds}",
            round + 1
        );
        for index in present::order(round, variants.len()) {
            let present = variants[index].begin(built.netto, built.attach)?;
            let calls = Load::Calls {
                milliseconds: MILLISECONDS,
            }
            .run(lab);
            let sends = Load::sends(MILLISECONDS).and_then(|load| load.run(lab));
            present.end();
            call_ns[index].push(calls?.call_ns);
            send_ns[index].push(sends?.call_ns);
        }
    }
    let [no_call, cpu_call, task_call, probes_call, netto_call] = &call_ns;
    let [no_send, cpu_send, task_send, probes_send, netto_send] = &send_ns;
    let added = |what: &str, with: &[f64], without: &[f64]| {
        Figure::new(what, Spread::of_differences(with, without), "ns")
    };
    Ok(vec![Section {
        title: "Ways to measure socket calls where fentry is refused".to_owned(),
        figures: vec![
            Figure::new(
                "the cheapest system call (getppid), nothing attached",
                Spread::of(no_call.iter().copied()),
                "ns",
            ),
            added("added to it by stamps per CPU", cpu_call, no_call),
            added("added to it by stamps per task", task_call, no_call),
            added("added to it by sampling at 1 kHz", netto_call, probes_call),
            Figure::new(
                "a small send over veth, nothing attached",
                Spread::of(no_send.iter().copied()),
                "ns",
            ),
            added("added to it by stamps per CPU", cpu_send, no_send),
            added("added to it by stamps per task", task_send, no_send),
            added("added to it by sampling at 1 kHz", netto_send, probes_send),
        ],
    }])
}
