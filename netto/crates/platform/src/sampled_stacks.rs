//! Shares the sampled stacks between the measurement and readers of a flame graph.
//!
//! The measurement publishes its counts after each drain and takes them back before the next; a
//! reader copies the pointers, then reads the kernel's symbols, symbolizes and folds on its own
//! thread. Neither blocks the other longer than it takes to copy two pointers, except a reader
//! during a drain.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use rustc_hash::FxHashMap;

use metrics_common::Folded;
use netto_analysis::flame::Counted;
use netto_analysis::symbols;
use netto_pipeline::trace_analyzer::StackSource;
use netto_sys::system::Roots;

/// How long a reader waits for a drain to end: a drain takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Stacks with the data to symbolize them.
#[derive(Debug, Clone)]
struct Put {
    counted: Counted,
    symbols_version: u64,
}

/// Function names already read, by start address.
#[derive(Debug, Default)]
struct Names {
    by_start: FxHashMap<u64, Option<String>>,
    symbols_version: u64,
}

/// The published stacks; see the head of this file.
#[derive(Debug)]
pub struct SampledStacks {
    roots: Roots,
    unavailable: Option<String>,
    put: Mutex<Option<Put>>,
    is_put: Condvar,
    names: Mutex<Names>,
}

impl SampledStacks {
    /// Nothing published; `unavailable` is the reason if there never will be anything.
    pub fn new(roots: Roots, unavailable: Option<String>) -> Self {
        SampledStacks {
            roots,
            unavailable,
            put: Mutex::default(),
            is_put: Condvar::new(),
            names: Mutex::default(),
        }
    }

    /// Takes the counts back: without a reader they can be changed without a copy.
    pub fn take_back(&self) {
        let before = self.lock().take();
        drop(before);
    }

    /// Publishes the counts. The version changes when the kernel's symbols were read again: other
    /// functions may then have the same addresses.
    pub fn put_down(&self, counted: Counted, symbols_version: u64) {
        let put = Put {
            counted,
            symbols_version,
        };
        let before = self.lock().replace(put);
        self.is_put.notify_all();
        drop(before);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Put>> {
        // Replacing pointers cannot be left half done.
        self.put.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pick_up(&self) -> anyhow::Result<Put> {
        self.is_put
            .wait_timeout_while(self.lock(), PATIENCE, |put| put.is_none())
            .unwrap_or_else(PoisonError::into_inner)
            .0
            .clone()
            .context("the stacks are being drained; try again")
    }
}

impl StackSource for SampledStacks {
    fn folded(&self) -> anyhow::Result<Folded> {
        if let Some(reason) = &self.unavailable {
            bail!("stacks are not sampled: {reason}");
        }
        // One reader at a time; the others wait here, holding nothing.
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let Put {
            counted,
            symbols_version,
        } = self.pick_up()?;
        if names.symbols_version != symbols_version {
            names.by_start.clear();
            names.symbols_version = symbols_version;
        }
        let mut is_new = false;
        for start in counted.functions() {
            is_new |= !names.by_start.contains_key(&start);
        }
        if is_new {
            // Names that are on no stack any more would be kept forever.
            let mut now: FxHashMap<u64, Option<String>> = FxHashMap::default();
            for start in counted.functions() {
                if let Some(name) = names.by_start.remove(&start) {
                    now.insert(start, name);
                } else {
                    now.entry(start).or_default();
                }
            }
            names.by_start = now;
            symbols::name(self.roots.kallsyms()?, &mut names.by_start)?;
        }
        Ok(counted.folded(|start| names.by_start.get(&start)?.as_deref()))
    }
}
