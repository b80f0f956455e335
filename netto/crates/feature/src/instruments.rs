//! Features: the trait of a running one, how it is started, and the list of those that run.

use metrics_common::view::Table;
use metrics_common::{Availability, InstrumentCost, Sections};
use netto_analysis::tagged::Tags;

use crate::command::Command;
use crate::demo::{self, Generator};
use crate::options::Options;
use crate::summary::Summarizer;
use netto_metrics::catalogue::Catalogue;
use netto_pipeline::options::FeatureOptions;
use netto_platform::{Platform, Tick};
use netto_questions::api::Api;
use netto_sys::privileges::Capability;
use netto_sys::system;

/// A running feature, which fills one section of each snapshot.
pub trait Instrument: Send {
    /// Writes the findings of the interval into its section.
    ///
    /// # Errors
    /// An error that makes further intervals impossible: it is not called again.
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()>;
}

/// What a feature is.
#[derive(Clone, Copy)]
pub struct Feature {
    /// The name of the feature and of its section.
    pub name: &'static str,
    /// Whether its failure ends the daemon; any other feature is switched off.
    pub is_essential: bool,
    /// Whether these options ask for it; `netto demo` makes up nothing of what nobody asks for.
    pub is_asked_for: fn(&FeatureOptions) -> bool,
    /// Why it does not run where nobody asks for it, and which option does.
    pub turned_off: &'static str,
    /// What it wants samples to carry, with these options.
    pub tags: fn(&FeatureOptions) -> Tags,
    /// What it may do with these options besides what every netto may.
    pub capabilities: fn(&FeatureOptions) -> &'static [Capability],
    /// Starts it; earlier events belong to no interval.
    ///
    /// # Errors
    /// Why it cannot run here.
    pub start: fn(&mut Platform, &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>>,
    /// What users may ask of it.
    pub options: Option<Options>,
    /// Its own command.
    pub command: Option<Command>,
    /// What `netto list NAME` prints of it.
    pub list: Option<fn() -> String>,
    /// What it exports.
    pub metrics: Catalogue,
    /// The form of its section in the API.
    pub api: Api,
    /// Generates its section for a demonstration.
    pub demo: fn() -> Generator,
    /// Its part of the report on a log.
    pub summary: Option<fn() -> Box<dyn Summarizer>>,
    /// What it measured, as tables to be exported.
    pub tables: &'static [Table],
}

impl Feature {
    /// A feature that may be unavailable, needs no tags of samples, and shows its section only.
    pub const fn new(
        name: &'static str,
        start: fn(&mut Platform, &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>>,
    ) -> Feature {
        Feature {
            name,
            is_essential: false,
            is_asked_for: |_| true,
            turned_off: "not enabled",
            tags: |_| Tags::None,
            capabilities: |_| &[],
            start,
            options: None,
            command: None,
            list: None,
            metrics: Catalogue::of(&[]),
            api: Api::SECTION,
            demo: demo::nothing,
            summary: None,
            tables: &[],
        }
    }
}

/// The user does not want a feature: why it does not start, as opposed to what failed.
#[derive(Debug)]
pub struct TurnedOff(pub &'static str);

impl std::fmt::Display for TurnedOff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for TurnedOff {}

/// Starts a feature, and sets its availability in the description. Who asked for one that cannot run is warned.
fn begin(
    entry: &Feature,
    platform: &mut Platform,
    options: &FeatureOptions,
) -> anyhow::Result<Box<dyn Instrument>> {
    let begun = (entry.start)(platform, options);
    let availability = match &begun {
        Ok(_) => Availability::by("running"),
        Err(error) => Availability::missing(format!("{error:#}")),
    };
    platform.set_instrument(entry.name, availability);
    if let Err(error) = &begun
        && options.has(entry.name)
        && !entry.is_essential
        && !error.is::<TurnedOff>()
    {
        tracing::warn!("{} does not run: {error:#}", entry.name);
    }
    begun
}

/// The running features.
#[derive(Default)]
pub struct Running {
    entries: &'static [Feature],
    running: Vec<(&'static Feature, Box<dyn Instrument>)>,
}

impl Running {
    /// Starts every feature of the list; the description tells which cannot run here.
    ///
    /// # Errors
    /// Why an essential one cannot run.
    pub fn start(
        entries: &'static [Feature],
        platform: &mut Platform,
        options: &FeatureOptions,
    ) -> anyhow::Result<Running> {
        let mut running = Vec::new();
        for entry in entries {
            match begin(entry, platform, options) {
                Ok(instrument) => running.push((entry, instrument)),
                Err(error) if entry.is_essential => return Err(error),
                Err(_) => {}
            }
        }
        Ok(Running { entries, running })
    }

    /// Restarts a feature with these options, or ends it: its state is lost.
    pub fn restart(
        &mut self,
        name: &'static str,
        platform: &mut Platform,
        options: &FeatureOptions,
    ) {
        self.running.retain(|(entry, _)| entry.name != name);
        platform.tell(name, None);
        let entries = self.entries;
        let order = |name: &str| entries.iter().position(|entry| entry.name == name);
        let Some(entry) = order(name).map(|order| &entries[order]) else {
            return;
        };
        match begin(entry, platform, options) {
            Ok(instrument) => {
                let is_before = |running: &(&Feature, _)| order(running.0.name) < order(name);
                let place = self.running.partition_point(is_before);
                self.running.insert(place, (entry, instrument));
                tracing::info!("{name} begins anew");
            }
            Err(error) if error.is::<TurnedOff>() || !options.has(name) => {
                tracing::info!("{name} does not run: {error:#}");
            }
            Err(_) => {}
        }
    }

    /// Collects every section. A feature that fails is switched off, with a note to the user.
    ///
    /// # Errors
    /// The failure of an essential feature.
    pub fn collect(&mut self, tick: &mut Tick<'_>) -> anyhow::Result<Sections> {
        let mut sections = Sections::default();
        let mut failed = Vec::new();
        for (place, (entry, instrument)) in self.running.iter_mut().enumerate() {
            let begun_ns = system::monotonic_ns();
            if let Err(error) = instrument.collect(tick, &mut sections) {
                if entry.is_essential {
                    return Err(error);
                }
                let note = format!("{} is switched off: {error:#}.", entry.name);
                tick.platform.tell(entry.name, Some(note));
                let reason = Availability::missing(format!("switched off: {error:#}"));
                tick.platform.set_instrument(entry.name, reason);
                failed.push(place);
            }
            tick.analysis.push(InstrumentCost {
                name: entry.name.to_owned(),
                analysis_ns: system::monotonic_ns().saturating_sub(begun_ns),
            });
        }
        for place in failed.into_iter().rev() {
            self.running.remove(place);
        }
        Ok(sections)
    }
}
