//! What measures: the trait of an instrument, how it is begun, and those that run.

use metrics_common::{Availability, InstrumentCost, Sections};

use crate::demo::{self, Generator};
use crate::options::Options;
use crate::summary::Summarizer;
use netto_metrics::catalogue::Catalogue;
use netto_pipeline::options::FeatureOptions;
use netto_platform::{Platform, Tick};
use netto_questions::api::Api;
use netto_sys::system;

/// What measures, and fills one section of each snapshot.
pub trait Instrument: Send {
    /// Puts what it found in the interval into its section.
    ///
    /// # Errors
    /// What makes further intervals impossible: it is asked no more.
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()>;
}

/// How an instrument is begun.
pub struct Feature {
    /// Its name, and its section's.
    pub name: &'static str,
    /// Whether the daemon ends when it fails; any other is switched off.
    pub is_essential: bool,
    /// Whether, with these options, it needs samples that say whose they are.
    pub wants_tags: fn(&FeatureOptions) -> bool,
    /// Begins it; what was before belongs to no interval.
    ///
    /// # Errors
    /// Why it cannot run here.
    pub start: fn(&mut Platform, &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>>,
    /// What users may ask of it.
    pub options: Option<Options>,
    /// What it exports.
    pub metrics: Catalogue,
    /// What it shows of itself.
    pub api: Api,
    /// Makes up its section for a demonstration.
    pub demo: fn() -> Generator,
    /// What it adds to the report on a log.
    pub summary: Option<fn() -> Box<dyn Summarizer>>,
}

impl Feature {
    /// An instrument that can be missing, needs no tags of samples, and shows its section only.
    pub const fn new(
        name: &'static str,
        start: fn(&mut Platform, &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>>,
    ) -> Feature {
        Feature {
            name,
            is_essential: false,
            wants_tags: |_| false,
            start,
            options: None,
            metrics: Catalogue::of(&[]),
            api: Api::SECTION,
            demo: demo::nothing,
            summary: None,
        }
    }
}

/// Starts an instrument, and notes in the description whether it runs.
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
    begun
}

/// Those that run.
#[derive(Default)]
pub struct Running {
    entries: &'static [Feature],
    running: Vec<(&'static Feature, Box<dyn Instrument>)>,
}

impl Running {
    /// Starts every instrument of the list; one that cannot run here is noted in the description.
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

    /// Begins one anew with these options, or ends it: what it kept of before is gone.
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
                let is_before = |own: &(&Feature, _)| order(own.0.name) < order(name);
                let place = self.running.partition_point(is_before);
                self.running.insert(place, (entry, instrument));
                tracing::info!("{name} begins anew");
            }
            Err(error) => tracing::info!("{name} does not run: {error:#}"),
        }
    }

    /// Asks each for its section. One that fails is switched off, and the user is told.
    ///
    /// # Errors
    /// The failure of an essential one.
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
