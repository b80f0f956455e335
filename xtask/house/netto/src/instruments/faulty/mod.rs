//! Fails at its third tick, to show what comes of that. It finds nothing, so it has no section.

use metrics_common::Sections;

use super::Instrument;
use crate::ground::{Platform, Tick};

/// The daemon goes on without it.
pub(super) const IS_ESSENTIAL: bool = false;

struct Faulty {
    ticks_left: u32,
}

/// Begins well.
///
/// # Errors
/// None.
pub(super) fn start(_: &mut Platform) -> anyhow::Result<Box<dyn Instrument>> {
    Ok(Box::new(Faulty { ticks_left: 3 }))
}

impl Instrument for Faulty {
    fn collect(&mut self, _: &mut Tick<'_>, _: &mut Sections) -> anyhow::Result<()> {
        self.ticks_left -= 1;
        anyhow::ensure!(self.ticks_left > 0, "its third tick was too much for it");
        Ok(())
    }
}
