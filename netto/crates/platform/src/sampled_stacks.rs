//! Shares the sampled stacks between the measurement and readers of a flame graph.
//!
//! The measurement publishes its counts after each drain and takes them back before the next; a
//! reader copies the pointers, has the functions named, symbolizes and folds on its own thread.
//! Neither blocks the other longer than it takes to copy two pointers, except a reader
//! during a drain. A profile is recorded from one interval to the next instead (`open_profiles.rs`).

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};

use metrics_common::{COMPONENTS, Folded};
use netto_analysis::flame::{Counted, shown};
use netto_analysis::profile::{IntervalProfile, ProfileRecorder};
use netto_pipeline::profile::{Labels, OpenProfile, Profile, ProfileSample, Texts};
use netto_pipeline::trace_analyzer::StackSource;
use netto_sys::function_names::{FunctionNames, NamesByStart};

use crate::open_profiles::OpenProfiles;

/// How long a reader waits for a drain to end: a drain takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Stacks with the data to symbolize them.
#[derive(Debug, Clone)]
struct Put {
    counted: Counted,
    symbols_version: u64,
}

/// Function names already read.
#[derive(Debug, Default)]
struct Names {
    by_start: NamesByStart,
    symbols_version: u64,
}

/// The published stacks; see the head of this file.
#[derive(Debug)]
pub struct SampledStacks {
    functions: Arc<FunctionNames>,
    unavailable: Option<String>,
    put: Mutex<Option<Put>>,
    is_put: Condvar,
    names: Mutex<Names>,
    profiles: OpenProfiles,
}

impl Names {
    /// Drops what belongs to other symbols, and reads the names of these functions that are new.
    fn read(
        &mut self,
        functions: &FunctionNames,
        symbols_version: u64,
        starts: impl Iterator<Item = u64>,
    ) -> anyhow::Result<()> {
        if self.symbols_version != symbols_version {
            self.by_start.clear();
            self.symbols_version = symbols_version;
        }
        let mut now = NamesByStart::default();
        let mut is_new = false;
        for start in starts {
            if now.contains_key(&start) {
                continue;
            }
            let known = self.by_start.get(&start).cloned();
            is_new |= known.is_none();
            now.insert(start, known.flatten());
        }
        if is_new {
            // Names that are on no stack any more would be kept forever.
            self.by_start = NamesByStart::default();
            let answered = functions.look_up(now).recv();
            (self.by_start, _) =
                answered.context("the thread that names functions has ended")??;
        }
        Ok(())
    }

    fn of(&self, start: u64) -> &str {
        let known = self.by_start.get(&start).and_then(Option::as_deref);
        shown(start, known)
    }
}

impl SampledStacks {
    /// Nothing published; `unavailable` is the reason if there never will be anything.
    pub fn new(functions: Arc<FunctionNames>, unavailable: Option<String>) -> Self {
        SampledStacks {
            functions,
            unavailable,
            put: Mutex::default(),
            is_put: Condvar::new(),
            names: Mutex::default(),
            profiles: OpenProfiles::default(),
        }
    }

    /// Whether samples are to be kept for profiles.
    pub fn are_recorded(&self) -> bool {
        self.profiles.are_any()
    }

    /// Adds an interval to the profiles that are recorded.
    pub fn record_interval(&self, interval: &IntervalProfile, length_ns: u64) {
        self.profiles.add(interval, length_ns);
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
        names.read(&self.functions, symbols_version, counted.functions())?;
        Ok(counted.folded(|start| names.by_start.get(&start)?.as_deref()))
    }

    fn begin_profile(self: Arc<Self>) -> anyhow::Result<Box<dyn OpenProfile>> {
        if let Some(reason) = &self.unavailable {
            bail!("stacks are not sampled: {reason}");
        }
        let number = self.profiles.begin()?;
        Ok(Box::new(Live {
            stacks: self,
            number,
        }))
    }
}

/// A profile that is being recorded.
struct Live {
    stacks: Arc<SampledStacks>,
    number: u64,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.stacks.profiles.abandon(self.number);
    }
}

impl OpenProfile for Live {
    fn end(self: Box<Self>) -> anyhow::Result<Profile> {
        let recorder = self.stacks.profiles.end(self.number);
        let recorder = recorder.context("the recording has been ended")?;
        anyhow::ensure!(
            recorder.length_ns > 0,
            "no interval has ended meanwhile; try again"
        );
        self.stacks.profile(&recorder)
    }
}

impl SampledStacks {
    /// A recording, with names.
    fn profile(&self, recorder: &ProfileRecorder) -> anyhow::Result<Profile> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let symbols_version = self.pick_up()?.symbols_version;
        let starts = recorder.rows().flat_map(|row| row.functions).copied();
        names.read(&self.functions, symbols_version, starts)?;
        let mut functions = Texts::default();
        let mut samples = Vec::new();
        for row in recorder.rows() {
            let stack = row.functions.iter();
            let slug = |row: usize| COMPONENTS.get(row).map(|component| component.slug);
            samples.push(ProfileSample {
                stack: stack
                    .map(|start| functions.number(names.of(*start)))
                    .collect(),
                labels: Labels {
                    cpu: Some(row.cpu),
                    event: slug(row.event).unwrap_or_default().to_owned(),
                    part: row.part.and_then(slug),
                    owner: row.owner.map(str::to_owned),
                },
                count: row.count,
                cpu_ns: row.cpu_ns,
            });
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now_ns = now.unwrap_or_default().as_nanos() as u64;
        Ok(Profile {
            begun_unix_ns: now_ns.saturating_sub(recorder.length_ns),
            length_ns: recorder.length_ns,
            functions: functions.into_all(),
            samples,
            left_out: recorder.left_out,
        })
    }
}
