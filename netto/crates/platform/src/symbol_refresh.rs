//! Reads the kernel's symbols again after code was loaded, off the analyzer's thread.
//!
//! Reading them takes some tens of milliseconds on an idle CPU, and many times that on a busy one:
//! no interval may wait for it. Until it is done the measurement uses the symbols that it has.

use std::sync::mpsc::{Receiver, TryRecvError, channel};

use anyhow::anyhow;

use netto_analysis::classify::Classifier;
use netto_sys::preflight;
use netto_sys::system::{self, LoadedCode, Roots};

/// Symbols are read at most this often, and in at most a twentieth of one CPU's time.
const REFRESH_NS: u64 = 3_000_000_000;
const REFRESH_PAUSE: u64 = 20;

/// How often modules are checked.
const MODULES_NS: u64 = 3_000_000_000;

/// The result of reading them, the code it covers, and the CPU time that it took.
type Outcome = (anyhow::Result<Classifier>, LoadedCode, u64);

/// Watches for loaded code; see the head of this file.
#[derive(Debug)]
pub struct SymbolRefresh {
    roots: Roots,
    loaded_code: LoadedCode,
    /// Earliest time of the next refresh, CLOCK_MONOTONIC.
    from_ns: u64,
    /// Time of the next check of modules.
    modules_from_ns: u64,
    running: Option<Receiver<Outcome>>,
}

impl SymbolRefresh {
    /// Starts with symbols that have just been read. netto's programs are loaded after that, so the first look is at the
    /// end of the first interval: later, the refresh would take its time from a load that begins.
    pub fn new(roots: Roots) -> Self {
        SymbolRefresh {
            loaded_code: LoadedCode::now(&roots),
            roots,
            from_ns: 0,
            modules_from_ns: 0,
            running: None,
        }
    }

    /// New symbols, if they are ready. Never waits for them.
    pub fn poll(&mut self, now_ns: u64) -> Option<Classifier> {
        let Some(running) = &self.running else {
            self.look(now_ns);
            return None;
        };
        let (symbols, loaded_code, took_ns) = match running.try_recv() {
            Ok(outcome) => outcome,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => {
                let error = anyhow!("the reader ended without a result");
                (Err(error), self.loaded_code.clone(), 0)
            }
        };
        self.running = None;
        self.from_ns = now_ns + REFRESH_NS.max(REFRESH_PAUSE * took_ns);
        match symbols {
            Ok(classifier) => {
                self.loaded_code = loaded_code;
                Some(classifier)
            }
            Err(error) => {
                tracing::warn!("cannot refresh the kernel's symbols: {error:#}");
                None
            }
        }
    }

    /// Starts a refresh when modules or BPF programs were loaded: their code may have taken
    /// addresses of earlier code, or free ones.
    fn look(&mut self, now_ns: u64) {
        if now_ns < self.from_ns {
            return;
        }
        let mut loaded_code = self.loaded_code.with_new_programs();
        if now_ns >= self.modules_from_ns {
            self.modules_from_ns = now_ns + MODULES_NS;
            loaded_code = loaded_code.with_modules(&self.roots);
        }
        if loaded_code == self.loaded_code {
            return;
        }
        let (done, running) = channel();
        let roots = self.roots.clone();
        let reader = std::thread::Builder::new().name("symbols".to_owned());
        let started = reader.spawn(move || {
            let symbols = preflight::read_symbols(&roots);
            // The thread did nothing else. If the receiver is gone, the daemon ends.
            let _ = done.send((symbols, loaded_code, system::thread_cpu_ns()));
        });
        match started {
            Ok(_) => self.running = Some(running),
            Err(error) => {
                tracing::warn!("cannot refresh the kernel's symbols: {error}");
                self.from_ns = now_ns + REFRESH_NS;
            }
        }
    }
}
