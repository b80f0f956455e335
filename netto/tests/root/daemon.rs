//! netto as a process: started on a free port, asked over HTTP, ended.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use metrics_common::Info;

use crate::child::{self, Owned};
use crate::{guest, http};

/// Generous: a virtual machine loads BPF programs slowly.
pub const START_LIMIT: Duration = Duration::from_secs(60);

/// The program under test.
pub fn binary() -> PathBuf {
    std::env::var_os("NETTO_BINARY")
        .map_or_else(|| env!("CARGO_BIN_EXE_netto").into(), PathBuf::from)
}

/// A command that runs netto and dies with the tests.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = child::mortal(&binary().to_string_lossy());
    command.args(arguments);
    command
}

/// A running netto.
pub struct Daemon {
    /// The process.
    pub process: Owned,
    /// Where it listens.
    pub at: SocketAddr,
    /// Before it was started.
    pub started: Instant,
}

/// An interval that tests wait for, milliseconds: netto alone takes much of an emulated CPU for each.
pub fn short_interval() -> &'static str {
    if guest::is_one() { "250" } else { "100" }
}

/// Stack samples a second and CPU.
pub fn samples_per_second() -> &'static str {
    if guest::is_one() { "250" } else { "1000" }
}

/// Tests that share it, each by the begin of its name. They run in this order and before all
/// others, for whoever starts another daemon ends this one: two would measure each other.
pub const SHARING: &[&str] = &[
    "running::info_and_snapshot_agree_on_rows_and_cpus",
    "running::the_dashboard_is_served_from_the_binary_alone",
    "latency::who_does_not_ask",
    "packets::those_",
    "packets::an_interface",
    "messages::",
    "burners::softirqs_are_counted",
    "sums::",
    "paths::ipv4_through",
    "prometheus::promtool",
    "failures::a_client_that_talks_nonsense",
    // These start a daemon of their own beside it.
    "idle::",
    "owners::who_turns_them_off",
    "ticks::both_clocks",
    // This ends the shared daemon, and is last.
    "running::no_program_is_left_in_the_kernel_after_sigterm",
];
static SHARED: Mutex<Option<Daemon>> = Mutex::new(None);

fn shared_place() -> MutexGuard<'static, Option<Daemon>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the daemon that tests shared.
pub fn end_shared() {
    shared_place().take();
}

/// The shared daemon, while a test has it. It must leave the daemon as it was.
pub struct Shared(Option<Daemon>);

impl Shared {
    /// Takes it; the first test starts it, and so does one after a test that it did not survive.
    pub fn take() -> Result<Self> {
        let running = shared_place().take();
        let living = running.and_then(|mut daemon| daemon.must_live().ok().map(|()| daemon));
        let daemon = match living {
            Some(daemon) => daemon,
            None => Daemon::start(&["--user-period", short_interval()])?,
        };
        Ok(Shared(Some(daemon)))
    }

    /// It is this test's from now on, for the last one that wants it.
    pub fn keep(mut self) -> Daemon {
        let Some(daemon) = self.0.take() else {
            unreachable!("it is given back at the end only");
        };
        daemon
    }
}

impl Deref for Shared {
    type Target = Daemon;

    fn deref(&self) -> &Daemon {
        let Some(daemon) = &self.0 else {
            unreachable!("it is given back at the end only");
        };
        daemon
    }
}

impl DerefMut for Shared {
    fn deref_mut(&mut self) -> &mut Daemon {
        let Some(daemon) = &mut self.0 else {
            unreachable!("it is given back at the end only");
        };
        daemon
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(daemon) = self.0.take() {
            *shared_place() = Some(daemon);
        }
    }
}

impl Daemon {
    /// Starts it on a free port and waits until it has something to show.
    pub fn start(options: &[&str]) -> Result<Self> {
        Daemon::start_on(child::free_port()?, options)
    }

    /// The same beside the shared one, which goes on.
    pub fn start_beside(options: &[&str]) -> Result<Self> {
        Daemon::with_defaults(child::free_port()?, options)
    }

    /// Starts it on this port.
    pub fn start_on(port: u16, options: &[&str]) -> Result<Self> {
        end_shared();
        Daemon::with_defaults(port, options)
    }

    fn with_defaults(port: u16, options: &[&str]) -> Result<Self> {
        let port_text = port.to_string();
        let mut arguments = vec!["run", "--address", "127.0.0.1", "--port", &port_text];
        // Staying within a budget has tests of its own, and so have the scheduler's ticks.
        let defaults = [
            ("--user-period", "500"),
            ("--max-overhead", "100"),
            ("--sampler", "perf"),
            ("--frequency", samples_per_second()),
        ];
        let has_sampler = options.contains(&"--sampler");
        for (option, value) in defaults {
            // Without a given frequency it is the sampler's.
            let is_samplers = has_sampler && option == "--frequency";
            if !options.contains(&option) && !is_samplers {
                arguments.extend([option, value]);
            }
        }
        arguments.extend(options);
        Daemon::of(&mut command(&arguments), port)
    }

    /// What this command serves on this port, once it has something to show.
    pub fn of(command: &mut Command, port: u16) -> Result<Self> {
        let mut daemon = Daemon {
            started: Instant::now(),
            process: Owned::start(command)?,
            at: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        };
        if let Some(end) = child::eventually(|| daemon.readiness())? {
            bail!("netto ended before it was ready: {end}");
        }
        Ok(daemon)
    }

    /// `Ok(None)` when ready, `Err` while not yet; of a process that has ended how, and what it said.
    fn readiness(&mut self) -> Result<Option<String>> {
        if let Some(status) = self.process.try_wait()? {
            return Ok(Some(format!("{status}: {}", self.process.stderr())));
        }
        http::get_ok(self.at, "/readyz").map(|_| None)
    }

    /// Its description of itself and this host.
    pub fn info(&self) -> Result<Info> {
        let body = http::get_ok(self.at, "/api/v1/info")?.body;
        serde_json::from_str(&body).context("/api/v1/info is not what metrics-common says")
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> Result<serde_json::Value> {
        http::get_ok(self.at, "/api/v1/snapshot")?.json()
    }

    /// The newest snapshot's number.
    pub fn sequence(&self) -> Result<u64> {
        self.snapshot()?["sequence"]
            .as_u64()
            .context("a snapshot without a sequence")
    }

    /// Waits until all that has happened is in what it shows: the second snapshot from now on is of
    /// an interval that began after this call.
    pub fn settle(&self) -> Result<()> {
        let before = self.sequence()?;
        child::eventually(|| {
            // Answers are large, and messages that others count.
            std::thread::sleep(Duration::from_millis(100));
            let now = self.sequence()?;
            ensure!(now >= before + 2, "snapshot {now} after {before}");
            Ok(())
        })
    }

    /// Asks it to end and waits; gives the exit status and all it wrote to standard error.
    pub fn terminate(mut self) -> Result<(ExitStatus, String)> {
        self.process.signal("TERM")?;
        let status = self.process.wait()?;
        Ok((status, self.process.stderr()))
    }

    /// Fails if it has died meanwhile.
    pub fn must_live(&mut self) -> Result<()> {
        if let Some(status) = self.process.try_wait()? {
            bail!("netto died ({status}): {}", self.process.stderr());
        }
        http::get_ok(self.at, "/healthz").map(drop)
    }
}

/// Runs netto to its end: exit status, standard output, standard error.
pub fn run_to_end(arguments: &[&str]) -> Result<(ExitStatus, String, String)> {
    let mut process = Owned::start(&mut command(arguments))?;
    let status = process.wait()?;
    Ok((status, process.stdout(), process.stderr()))
}
