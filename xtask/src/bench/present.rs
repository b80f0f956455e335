//! What is there while a load runs: nothing, programs of the benchmark's own, or netto.

use std::path::Path;

use anyhow::Result;

use super::daemon::Daemon;
use super::programs::AttachedObject;

/// What a load is run beside, as a choice.
#[derive(Debug, Clone, Copy)]
pub enum Variant<'a> {
    /// Nothing at all.
    Nothing,
    /// The programs of this object.
    Programs(&'a Path),
    /// netto, at so many samples per second. At 1 Hz only its probes are felt.
    Netto(u64),
    /// The same with more options.
    NettoWith(u64, &'a [String]),
    /// perf's clock on each CPU, at so many interrupts per second, with no program: by an agent
    /// of these root tests.
    Clock(&'a Path, u64),
}

/// The same, at work.
pub enum Present {
    /// Nothing at all.
    Nothing,
    /// Programs; they go when it is dropped.
    Programs(AttachedObject),
    /// netto; it is told to end.
    Daemon(Daemon),
}

impl Variant<'_> {
    /// Puts it to work: `netto` is the daemon, `attach` attaches other programs.
    pub fn begin(self, netto: &Path, attach: &Path) -> Result<Present> {
        match self {
            Variant::Nothing => Ok(Present::Nothing),
            Variant::Programs(object) => {
                AttachedObject::start(attach, object).map(Present::Programs)
            }
            Variant::Clock(tests, frequency_hz) => {
                let words = ["agent", "clock", &frequency_hz.to_string()];
                AttachedObject::held_by(tests, words).map(Present::Programs)
            }
            Variant::Netto(frequency_hz) => {
                Daemon::start(netto, frequency_hz, &[]).map(Present::Daemon)
            }
            Variant::NettoWith(frequency_hz, options) => {
                Daemon::start(netto, frequency_hz, options).map(Present::Daemon)
            }
        }
    }
}

impl Present {
    /// Ends it.
    pub fn end(self) {
        match self {
            Present::Nothing => {}
            Present::Programs(attached) => drop(attached),
            Present::Daemon(daemon) => daemon.end(),
        }
    }
}

/// Indexes of `count` variants in the order for this round: to and fro, so that a machine that
/// slows down slows all variants alike.
pub fn order(round: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |step| match round % 2 {
        0 => step,
        _ => count - 1 - step,
    })
}
