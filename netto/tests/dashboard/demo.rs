//! `netto demo` as a process, on a port of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail, ensure};
use serde_json::Value;

use crate::browser::Browser;
use crate::child::{self, Owned};
use crate::http;

/// Demonstrations that tests share, for a reader changes nothing of them: the first test that
/// needs one starts it.
static USUAL: Mutex<Option<Arc<Demo>>> = Mutex::new(None);
static SLOW: Mutex<Option<Arc<Demo>>> = Mutex::new(None);
static WIDE: Mutex<Option<Arc<Demo>>> = Mutex::new(None);

/// Length of an interval that is shown alone, milliseconds.
pub const SLOW_MS: u32 = 3_000;

/// The shared demonstration of 16 CPUs.
pub fn usual() -> Result<Arc<Demo>> {
    shared(&USUAL, 16, 500)
}

/// The shared demonstration of 16 CPUs whose intervals are so long that the page shows one of them.
pub fn slow() -> Result<Arc<Demo>> {
    shared(&SLOW, 16, SLOW_MS)
}

/// The shared demonstration of 128 CPUs.
pub fn wide() -> Result<Arc<Demo>> {
    shared(&WIDE, 128, 500)
}

fn shared(place: &Mutex<Option<Arc<Demo>>>, cpus: u32, period_ms: u32) -> Result<Arc<Demo>> {
    let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
    match &*place {
        Some(demo) => Ok(demo.clone()),
        None => {
            let demo = child::start_lasting(move || Demo::start(cpus, period_ms))?;
            Ok(place.insert(Arc::new(demo)).clone())
        }
    }
}

/// Ends those that were shared.
pub fn end() {
    for place in [&USUAL, &SLOW, &WIDE] {
        place.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// A running demonstration.
pub struct Demo {
    pub process: Owned,
    pub at: SocketAddr,
}

impl Demo {
    /// Starts it and waits for its first snapshot.
    pub fn start(cpus: u32, period_ms: u32) -> Result<Self> {
        Demo::start_on(child::free_port()?, cpus, period_ms)
    }

    /// The same with latencies.
    pub fn with_latency(cpus: u32, period_ms: u32) -> Result<Self> {
        Demo::start_with(child::free_port()?, cpus, period_ms, &["--latency"])
    }

    /// One of 16 CPUs with these options.
    pub fn with(options: &[&str]) -> Result<Self> {
        Demo::start_with(child::free_port()?, 16, 500, options)
    }

    /// The same on a chosen port.
    pub fn start_on(port: u16, cpus: u32, period_ms: u32) -> Result<Self> {
        Demo::start_with(port, cpus, period_ms, &[])
    }

    fn start_with(port: u16, cpus: u32, period_ms: u32, options: &[&str]) -> Result<Self> {
        let mut command = child::mortal(env!("CARGO_BIN_EXE_netto"));
        command.args([
            "demo",
            &format!("--cpus={cpus}"),
            &format!("--port={port}"),
            &format!("--user-period={period_ms}"),
            "--address=127.0.0.1",
            "--log-level=warn",
        ]);
        command.args(options);
        let mut demo = Demo {
            process: Owned::start(&mut command)?,
            at: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        };
        child::eventually(|| match demo.process.try_wait()? {
            Some(status) => bail!("netto demo ended ({status}): {}", demo.process.stderr()),
            None => http::get_ok(demo.at, "/readyz").map(drop),
        })?;
        Ok(demo)
    }

    /// The page's address with this fragment.
    pub fn page(&self, fragment: &str) -> String {
        format!("http://{}/#{fragment}", self.at)
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> Result<Value> {
        http::get_ok(self.at, "/api/v1/snapshot")?.json()
    }

    /// What this script reads of a page that shows one snapshot, and that snapshot.
    pub fn shown(&self, browser: &Browser, script: &str) -> Result<(Value, Value)> {
        child::eventually(|| {
            let page = browser.script(script)?;
            let snapshot = self.snapshot()?;
            ensure!(page["sequence"] == snapshot["sequence"], "one is ahead");
            ensure!(page["first"] == page["sequence"], "several are shown");
            Ok((page, snapshot))
        })
    }

    /// Asks it to end, and waits.
    pub fn stop(mut self) -> Result<()> {
        self.process.signal("TERM")?;
        self.process.wait().map(drop)
    }
}
