//! The instruments, one folder each. A folder holds all that its instrument is in the daemon:
//! what it reads of the kernel (`kernel`), what follows from that (`analysis`, pure), and the
//! [`Instrument`] itself, which fills the section of a snapshot that has its name.
//!
//! **To add an instrument, add its folder and its name to the list below.** No instrument knows
//! another, except that it may read the sections of those before it in the list.

use metrics_common::{Availability, InstrumentCost, Sections};

use crate::ground::{Ground, Tick};
use crate::kernel::system;

/// What measures, and fills one section of each snapshot.
pub trait Instrument: Send {
    /// Puts what it found in the interval into its section.
    ///
    /// # Errors
    /// What makes further intervals impossible: it is asked no more.
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()>;
}

/// How an instrument is begun.
pub struct Entry {
    /// Its name, and its section's.
    pub name: &'static str,
    /// Whether the daemon ends when it fails; any other is switched off.
    pub is_essential: bool,
    /// Begins it; what was before belongs to no interval.
    ///
    /// # Errors
    /// Why it cannot run here.
    pub start: fn(&mut Ground) -> anyhow::Result<Box<dyn Instrument>>,
}

macro_rules! instruments {
    ($($name:ident),* $(,)?) => {
        $(pub mod $name;)*

        /// All of them, in the order in which they are asked.
        pub const INSTRUMENTS: &[Entry] = &[
            $(Entry {
                name: stringify!($name),
                is_essential: $name::IS_ESSENTIAL,
                start: $name::start,
            }),*
        ];
    };
}

instruments!(modes, cost, power, traffic, drops, owners, latency, own);

/// Starts an instrument, and notes in the description whether it runs.
fn begin(entry: &Entry, ground: &mut Ground) -> anyhow::Result<Box<dyn Instrument>> {
    let begun = (entry.start)(ground);
    let availability = match &begun {
        Ok(_) => Availability::by("running"),
        Err(error) => Availability::missing(format!("{error:#}")),
    };
    ground.set_instrument(entry.name, availability);
    begun
}

/// Those that run.
#[derive(Default)]
pub struct Running(Vec<(&'static Entry, Box<dyn Instrument>)>);

impl Running {
    /// Starts every instrument of the list; one that cannot run here is noted in the description.
    ///
    /// # Errors
    /// Why an essential one cannot run.
    pub fn start(entries: &'static [Entry], ground: &mut Ground) -> anyhow::Result<Running> {
        let mut running = Vec::new();
        for entry in entries {
            match begin(entry, ground) {
                Ok(instrument) => running.push((entry, instrument)),
                Err(error) if entry.is_essential => return Err(error),
                Err(_) => {}
            }
        }
        Ok(Running(running))
    }

    /// Begins one anew, as the ground now wants it, or ends it: what it kept of before is gone.
    pub fn restart(&mut self, name: &'static str, ground: &mut Ground) {
        self.0.retain(|(entry, _)| entry.name != name);
        ground.tell(name, None);
        let order = |name: &str| INSTRUMENTS.iter().position(|entry| entry.name == name);
        let Some(entry) = order(name).map(|order| &INSTRUMENTS[order]) else {
            return;
        };
        match begin(entry, ground) {
            Ok(instrument) => {
                let is_before = |own: &(&Entry, _)| order(own.0.name) < order(name);
                let place = self.0.partition_point(is_before);
                self.0.insert(place, (entry, instrument));
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
        for (place, (entry, instrument)) in self.0.iter_mut().enumerate() {
            let begun_ns = system::monotonic_ns();
            if let Err(error) = instrument.collect(tick, &mut sections) {
                if entry.is_essential {
                    return Err(error);
                }
                let note = format!("{} is switched off: {error:#}.", entry.name);
                tick.ground.tell(entry.name, Some(note));
                let reason = Availability::missing(format!("switched off: {error:#}"));
                tick.ground.set_instrument(entry.name, reason);
                failed.push(place);
            }
            tick.analysis.push(InstrumentCost {
                name: entry.name.to_owned(),
                analysis_ns: system::monotonic_ns().saturating_sub(begun_ns),
            });
        }
        for place in failed.into_iter().rev() {
            self.0.remove(place);
        }
        Ok(sections)
    }
}
