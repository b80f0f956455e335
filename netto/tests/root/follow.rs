//! netto's log followed while it is written: what was counted until now, without
//! a single byte over a socket, which would be counted too.

use std::fs::File;
use std::io::{self, Read};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use metrics_common::codec::ServerMessage;
use metrics_common::component::index_of;
use metrics_common::{Info, Snapshot};
use netto_log_format::LogReader;

use crate::child::PATIENCE;
use crate::daemon::{Daemon, short_interval};

/// A file that has no end, only a next part that may take a while.
struct Growing(File);

impl Read for Growing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.0.read(buffer)? {
                0 if Instant::now() > deadline => return Err(io::ErrorKind::TimedOut.into()),
                0 => std::thread::sleep(Duration::from_millis(10)),
                count => return Ok(count),
            }
        }
    }
}

/// A daemon whose log is read while it grows, with the sums of all intervals.
pub struct Followed {
    /// Its description for the newest snapshot.
    pub info: Info,
    /// Number of snapshots in the sums.
    pub intervals: u64,
    /// Keeps the process.
    daemon: Daemon,
    /// Keeps the log.
    _folder: tempfile::TempDir,
    log: LogReader<Growing>,
    /// By component, then by CPU.
    entries: Vec<Option<Vec<u64>>>,
    times_ns: Vec<Option<Vec<u64>>>,
}

impl Followed {
    /// Starts netto with a log of short intervals.
    pub fn start() -> Result<Self> {
        Followed::start_with(&[])
    }

    /// The same with more options.
    pub fn start_with(options: &[&str]) -> Result<Self> {
        let mut followed = Followed::from_first_interval(options)?;
        // Its start was asked about over HTTP.
        followed.catch_up()?;
        Ok(followed)
    }

    /// The same beside the daemon that tests share, which goes on.
    pub fn start_beside(options: &[&str]) -> Result<Self> {
        let mut followed = Followed::started(options, Daemon::start_beside)?;
        followed.catch_up()?;
        Ok(followed)
    }

    /// The same, before any interval is read.
    pub fn from_first_interval(options: &[&str]) -> Result<Self> {
        Followed::started(options, Daemon::start)
    }

    /// Starts netto with a log as its users write it: rounded, and some seconds late.
    pub fn with_usual_log(options: &[&str]) -> Result<Self> {
        Followed::with_log(&[], options, Daemon::start)
    }

    fn started(options: &[&str], start: fn(&[&str]) -> Result<Daemon>) -> Result<Self> {
        Followed::with_log(&["--log-flush", "0", "--log-exact"], options, start)
    }

    fn with_log(
        log_options: &[&str],
        options: &[&str],
        start: fn(&[&str]) -> Result<Daemon>,
    ) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("netto.log");
        let path_text = path.to_string_lossy();
        let mut all = vec!["--log-file", &path_text];
        all.extend(log_options);
        if !options.contains(&"--user-period") {
            all.extend(["--user-period", short_interval()]);
        }
        all.extend(options);
        let daemon = start(&all)?;
        let mut log = LogReader::new(Growing(File::open(&path)?))?;
        let Some(ServerMessage::Hello(info)) = log.next().transpose()? else {
            bail!("the log does not begin with Hello");
        };
        let rows = info.components.len();
        Ok(Followed {
            info: *info,
            intervals: 0,
            daemon,
            _folder: folder,
            log,
            entries: vec![Some(Vec::new()); rows],
            times_ns: vec![Some(Vec::new()); rows],
        })
    }

    /// The process.
    pub fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.daemon.process.pid()
    }

    /// Reads until everything is summed that had happened when this was called.
    pub fn catch_up(&mut self) -> Result<()> {
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
        // A snapshot's time is taken before the clocks are read, so a later one has counted everything. Time
        // beyond the end of its interval comes with the next one.
        while self.next()?.time_unix_ns < now_ns {}
        self.next().map(drop)
    }

    /// Waits for the next snapshot and adds it to the sums.
    pub fn next(&mut self) -> Result<Snapshot> {
        let mut message = self.log.next().context("the log has ended")??;
        if let ServerMessage::Hello(info) = message {
            self.info = *info;
            message = self.log.next().context("the log has ended")??;
        }
        let ServerMessage::Snapshot(snapshot) = message else {
            bail!("no snapshot but {message:?}");
        };
        self.intervals += 1;
        add(&mut self.entries, &snapshot.cost().entries);
        add(&mut self.times_ns, &snapshot.cost().components);
        Ok(*snapshot)
    }

    /// Reads on until something is found in an interval; `describe` says what was in the last of those
    /// in which nothing was.
    pub fn find<T>(
        &mut self,
        describe: impl Fn(&Snapshot) -> String,
        mut look: impl FnMut(&Snapshot) -> Result<Option<T>>,
    ) -> Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let snapshot = self.next()?;
            if let Some(found) = look(&snapshot)? {
                return Ok(found);
            }
            ensure!(
                Instant::now() < deadline,
                "not found: {}",
                describe(&snapshot)
            );
        }
    }

    /// The sum between two times, to an interval's length, as one snapshot.
    pub fn between(&mut self, from: SystemTime, to: SystemTime) -> Result<Snapshot> {
        let unix_ns = |time: SystemTime| -> Result<u64> {
            Ok(time.duration_since(UNIX_EPOCH)?.as_nanos() as u64)
        };
        while self.next()?.time_unix_ns < unix_ns(from)? {}
        let mut sum = self.next()?;
        while sum.time_unix_ns < unix_ns(to)? {
            sum.add(&self.next()?);
        }
        Ok(sum)
    }

    /// How often a component was entered, since the beginning.
    pub fn entries(&self, slug: &str) -> Result<u64> {
        Ok(self.entries_by_cpu(slug)?.iter().sum())
    }

    /// The same on one CPU.
    pub fn entries_on(&self, slug: &str, cpu: usize) -> Result<u64> {
        Ok(self.entries_by_cpu(slug)?.get(cpu).copied().unwrap_or(0))
    }

    fn entries_by_cpu(&self, slug: &str) -> Result<&[u64]> {
        of_component(&self.entries, slug).with_context(|| format!("{slug} is not counted here"))
    }

    /// The CPU time of a component over all CPUs, since the beginning.
    pub fn time_ns(&self, slug: &str) -> Result<u64> {
        let by_cpu = of_component(&self.times_ns, slug);
        let by_cpu = by_cpu.with_context(|| format!("{slug} is not measured here"))?;
        Ok(by_cpu.iter().sum())
    }

    /// How often a component is entered by what `act` does, if nothing
    /// entered it since the last time it was caught up.
    pub fn entries_in(&mut self, slug: &str, act: impl FnOnce() -> Result<()>) -> Result<u64> {
        let before = self.entries(slug)?;
        act()?;
        self.catch_up()?;
        Ok(self.entries(slug)? - before)
    }
}

fn of_component<'a>(sums: &'a [Option<Vec<u64>>], slug: &str) -> Option<&'a [u64]> {
    sums.get(index_of(slug)?)?.as_deref()
}

fn add(sums: &mut [Option<Vec<u64>>], rows: &[Option<Vec<u64>>]) {
    for (sum, row) in sums.iter_mut().zip(rows) {
        let (Some(by_cpu), Some(row)) = (sum.as_mut(), row) else {
            *sum = None;
            continue;
        };
        by_cpu.resize(by_cpu.len().max(row.len()), 0);
        for (sum, value) in by_cpu.iter_mut().zip(row) {
            *sum += value;
        }
    }
}
