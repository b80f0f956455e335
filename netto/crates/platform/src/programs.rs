//! The BPF programs of the kernel, and the interval's samples in them.
//!
//! New programs are read just before stacks are, so that the code of each sample is known. Those
//! that have ended are looked for now and then, because another may take their place.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use netto_analysis::classify::Classifier;
use netto_analysis::programs::{ProgramCode, ProgramSamples};
use netto_sys::programs::{self, LoadedProgram};

/// How often programs that have ended are looked for.
const LOOK_NS: u64 = 10_000_000_000;

/// See the head of this file.
#[derive(Debug)]
pub struct Programs {
    /// Samples of the interval.
    pub samples: ProgramSamples,
    known: BTreeMap<u32, LoadedProgram>,
    code: ProgramCode,
    /// The highest number so far.
    newest: u32,
    look_from_ns: u64,
    /// Ended programs, whose samples are still to be read.
    ended: Vec<u32>,
}

impl Programs {
    /// Reads the programs that are loaded now.
    ///
    /// # Errors
    /// If the kernel does not list them, or hides their addresses.
    pub fn start() -> anyhow::Result<Self> {
        programs::next(0).context("the kernel does not list BPF programs without CAP_SYS_ADMIN")?;
        let mut programs = Programs {
            samples: ProgramSamples::default(),
            known: BTreeMap::new(),
            code: ProgramCode::default(),
            newest: 0,
            look_from_ns: 0,
            ended: Vec::new(),
        };
        programs.read_new();
        let is_hidden = |program: &LoadedProgram| program.functions.is_empty();
        ensure!(
            programs.known.is_empty() || !programs.known.values().all(is_hidden),
            "the kernel hides where BPF programs are; it shows it with CAP_SYSLOG and sysctl \
             kernel.kptr_restrict below 2, if it compiles them (net.core.bpf_jit_enable)"
        );
        Ok(programs)
    }

    /// Begins an interval's samples, with all programs up to now.
    pub fn begin(&mut self, now_ns: u64, possible_cpus: usize) {
        self.samples.begin(possible_cpus);
        self.code.begin();
        for id in std::mem::take(&mut self.ended) {
            self.code.remove(id);
            self.known.remove(&id);
        }
        self.read_new();
        if now_ns >= self.look_from_ns {
            self.look_from_ns = now_ns + LOOK_NS;
            self.look_for_ended();
        }
    }

    /// The program that worked in a sample of networking, or
    /// [`netto_analysis::programs::UNCERTAIN`].
    pub fn at_work(&self, classifier: &mut Classifier, frames: &[u64]) -> Option<u32> {
        self.code.at_work(classifier, frames)
    }

    /// A program by its number; one that has ended is known for some more seconds.
    pub fn get(&self, id: u32) -> Option<&LoadedProgram> {
        self.known.get(&id)
    }

    fn read_new(&mut self) {
        // A refusal later on is that of a program which has ended.
        while let Ok(Some(id)) = programs::next(self.newest) {
            self.newest = id;
            if let Ok(Some(program)) = programs::read(id) {
                self.code.add(id, &program.functions);
                self.known.insert(id, program);
            }
        }
    }

    fn look_for_ended(&mut self) {
        let mut loaded = Vec::with_capacity(self.known.len());
        let mut last = 0;
        loop {
            match programs::next(last) {
                Ok(Some(id)) => {
                    loaded.push(id);
                    last = id;
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
        let is_ended = |id: &&u32| loaded.binary_search(id).is_err();
        self.ended = self.known.keys().filter(is_ended).copied().collect();
    }
}
