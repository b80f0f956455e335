//! One measurement from start to end, and the order of a tick: the platform ends the interval, the
//! features fill its sections, the platform applies changes. Nothing else.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use metrics_common::{Info, Snapshot};

use crate::instruments::{Feature, Running};
use netto_analysis::sampler::Choice;
use netto_analysis::tagged::{TaggedSample, Tags};
use netto_pipeline::options::FeatureOptions;
use netto_pipeline::trace_analyzer::{SnapshotSource, StackSource};
use netto_platform::{Platform, Settings, Tick};
use netto_sys::session::Session;

/// A running measurement. Dropping it detaches the probes.
pub struct Measurement {
    /// The description of the measurement and its host.
    pub info: Info,
    /// The sampler and the reason for it; `None` if no stacks are sampled.
    pub sampling: Option<Choice>,
    /// Makes the snapshots.
    pub source: Snapshots,
    /// Keeps the probes attached.
    pub session: Session,
}

/// Attaches the probes and starts counting.
///
/// # Errors
/// What makes every measurement impossible, with the remedy.
pub fn start(
    settings: &Settings,
    features: &'static [Feature],
    options: FeatureOptions,
) -> anyhow::Result<Measurement> {
    let tags = features.iter().map(|entry| (entry.tags)(&options));
    // Flows are told beside owners only.
    let tags = if tags.clone().any(|tags| tags == Tags::Owners) {
        tags.max().unwrap_or_default()
    } else {
        Tags::None
    };
    let (mut platform, session) = Platform::start(settings, tags)?;
    let instruments = Running::start(features, &mut platform, &options)?;
    // Symbols and type information were read that are no longer needed.
    netto_sys::memory::give_back();
    // The caller publishes this description.
    let _ = platform.new_info();
    platform.begin_intervals();
    Ok(Measurement {
        info: platform.info().clone(),
        sampling: platform.sampling.clone(),
        source: Snapshots {
            platform,
            instruments,
            options,
            samples: Vec::new(),
        },
        session,
    })
}

/// Makes one snapshot per interval from the running probes.
pub struct Snapshots {
    platform: Platform,
    instruments: Running,
    options: FeatureOptions,
    /// Buffer for the samples of one interval.
    samples: Vec<TaggedSample>,
}

impl SnapshotSource for Snapshots {
    fn new_info(&mut self) -> Option<Info> {
        self.platform.new_info()
    }

    fn settled_periods(&mut self, is_read: bool) -> Option<u32> {
        self.platform.settled_periods(is_read)
    }

    fn periods(&mut self, is_read: bool) -> u32 {
        self.platform.periods(is_read)
    }

    fn alarm(&self) -> Option<OwnedFd> {
        self.platform.alarm()
    }

    fn take_alarm(&mut self) -> bool {
        self.platform.take_alarm()
    }

    fn reload(&mut self, options: FeatureOptions) {
        for name in self.options.changed(&options) {
            self.instruments.restart(name, &mut self.platform, &options);
        }
        self.options = options;
    }

    fn stacks(&self) -> Arc<dyn StackSource> {
        self.platform.stacks.clone()
    }

    fn next_snapshot(&mut self) -> anyhow::Result<Snapshot> {
        let end = self.platform.end_interval()?;
        self.samples.clear();
        let sections = self.instruments.collect(&mut Tick {
            platform: &mut self.platform,
            now_ns: end.now_ns,
            time_unix_ns: end.time_unix_ns,
            interval_ns: end.interval_ns,
            cpus: &end.cpus,
            analysis: Vec::new(),
            samples: &mut self.samples,
        })?;
        self.platform.end_profile(end.interval_ns);
        self.platform.refresh_symbols(end.now_ns);
        Ok(Snapshot {
            sequence: end.sequence,
            time_unix_ns: end.time_unix_ns,
            interval_ns: end.interval_ns,
            cpus: end.cpus,
            sections,
        })
    }
}
