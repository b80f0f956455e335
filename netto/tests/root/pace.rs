//! When CPUs are sampled: two samplers that were asked for the same frequency do not keep
//! their distance. The kernel's own trace of timers says when each of them fired.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::child;
use crate::daemon::Daemon;
use crate::trial::{NotOnThisKernel, tests};

tests! {
    pace::two_samplers_of_one_frequency_meet_each_other_at_every_distance ["mount", "umount"];
}

const MEASURED: Duration = Duration::from_secs(5);
/// The function called by perf's software clock.
const TIMER: &str = "function=perf_swevent_hrtimer ";
/// Parts of a period that distances are counted in.
const PARTS: usize = 8;
/// How many times more or less than its share a part may have: in lock-step one or two of
/// the eight have all. Distances within an interval hang together, which is why it is not less.
const FACTOR: f64 = 3.0;

/// The kernel's trace of its timers, in a buffer of its own.
struct Trace {
    at: tempfile::TempDir,
}

impl Trace {
    /// Begins to trace; `None` if this kernel cannot.
    fn begin() -> Result<Option<Self>> {
        if !fs::read_to_string("/proc/filesystems")?.contains("tracefs") {
            return Ok(None);
        }
        let at = tempfile::tempdir()?;
        child::run(
            Command::new("mount")
                .args(["-t", "tracefs", "nodev"])
                .arg(at.path()),
        )?;
        let trace = Trace { at };
        let event = trace.at.path().join("events/timer/hrtimer_expire_entry");
        if !event.exists() {
            return Ok(None);
        }
        let buffer = trace.buffer();
        fs::create_dir(&buffer).context("no trace buffer of our own")?;
        fs::write(buffer.join("buffer_size_kb"), "8192")?;
        fs::write(buffer.join("events/timer/hrtimer_expire_entry/enable"), "1")?;
        Ok(Some(trace))
    }

    fn buffer(&self) -> PathBuf {
        self.at
            .path()
            .join(format!("instances/nettotest-{}", std::process::id()))
    }

    /// Ends tracing: when each clock of perf fired on a CPU, nanoseconds.
    fn end(self, cpu: u32) -> Result<BTreeMap<String, Vec<u64>>> {
        fs::write(self.buffer().join("tracing_on"), "0")?;
        let text = fs::read_to_string(self.buffer().join("trace"))?;
        let mut fired: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        let on_cpu = format!("[{cpu:03}]");
        for line in text
            .lines()
            .filter(|l| l.contains(TIMER) && l.contains(&on_cpu))
        {
            let field = |name: &str| line.split(name).nth(1)?.split_whitespace().next();
            let (Some(timer), Some(now)) = (field("hrtimer="), field("now=")) else {
                bail!("a line of the trace: {line}");
            };
            fired
                .entry(timer.to_owned())
                .or_default()
                .push(now.parse()?);
        }
        Ok(fired)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // At most one trace buffer or mount of a failed test is left.
        let _ = fs::remove_dir(self.buffer());
        let _ = child::run(Command::new("umount").arg(self.at.path()));
    }
}

/// The first CPU that is online.
const CPU: u32 = 0;

fn two_samplers_of_one_frequency_meet_each_other_at_every_distance() -> Result<()> {
    let _first = Daemon::start(&[])?;
    let _second = Daemon::start(&[])?;
    let Some(trace) = Trace::begin()? else {
        return Err(NotOnThisKernel("needs a kernel that traces its timers".to_owned()).into());
    };
    std::thread::sleep(MEASURED);
    let mut fired: Vec<Vec<u64>> = trace.end(CPU)?.into_values().collect();
    // Samplers of other programs may fire as often, so there may be more than our two.
    let fewest = MEASURED.as_millis() as usize / 2;
    fired.retain(|times| times.len() > fewest);
    ensure!(
        fired.len() >= 2,
        "{} clocks of perf on CPU {CPU}",
        fired.len()
    );
    let counts = distances(&fired[0], &fired[1]);
    let all: usize = counts.iter().sum();
    println!("\ndistances, in eighths of a period: {counts:?}");
    let share = all as f64 / PARTS as f64;
    for count in counts {
        ensure!(
            count as f64 > share / FACTOR && (count as f64) < share * FACTOR,
            "{counts:?}: the second sampler keeps its distance from the first"
        );
    }
    Ok(())
}

/// Where between two times of the first clock the second one fires.
fn distances(first: &[u64], second: &[u64]) -> [usize; PARTS] {
    let mut counts = [0; PARTS];
    for time in second {
        let next = first.partition_point(|other| other <= time);
        let Some((before, after)) = next
            .checked_sub(1)
            .and_then(|before| Some((first[before], *first.get(next)?)))
        else {
            continue;
        };
        counts[((time - before) * PARTS as u64 / (after - before).max(1)) as usize] += 1;
    }
    counts
}
