//! Reads the kernel's symbols anew, away from the analyzer, when code was loaded.
//!
//! Reading them takes some tens of milliseconds of a quiet CPU, and many times that of
//! one that others want, too: no interval may wait for it. Until it is done the
//! measurement goes on with the symbols that it has.

use std::sync::mpsc::{Receiver, TryRecvError, channel};

use anyhow::anyhow;

use netto_analysis::classify::Classifier;
use netto_sys::preflight;
use netto_sys::system::{self, LoadedCode, Roots};

/// Symbols are read anew at most this often, and never for more than a twentieth
/// of one CPU's time.
const REFRESH_NS: u64 = 3_000_000_000;
const REFRESH_PAUSE: u64 = 20;

/// Modules are looked at so often.
const MODULES_NS: u64 = 3_000_000_000;

/// What came of reading them, of which code, and the CPU time that it took.
type Outcome = (anyhow::Result<Classifier>, LoadedCode, u64);

/// Watches for code that was loaded; see the head of this file.
#[derive(Debug)]
pub struct SymbolRefresh {
    roots: Roots,
    loaded_code: LoadedCode,
    /// When symbols may be read anew, on the clock that never goes back.
    from_ns: u64,
    /// When modules are looked at again.
    modules_from_ns: u64,
    running: Option<Receiver<Outcome>>,
}

impl SymbolRefresh {
    /// The symbols have just been read.
    pub fn new(roots: Roots) -> Self {
        SymbolRefresh {
            loaded_code: LoadedCode::now(&roots),
            roots,
            from_ns: system::monotonic_ns() + REFRESH_NS,
            modules_from_ns: 0,
            running: None,
        }
    }

    /// New symbols, if there are any by now. Never waits for them.
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

    /// Begins to read them when modules or BPF programs have come: their code may stand
    /// where nothing or something else stood before.
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
            // The thread has done nothing else. If nobody wants them any more, the daemon ends.
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
