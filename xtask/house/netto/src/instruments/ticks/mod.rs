//! Counts its ticks and does nothing else.

use metrics_common::sections::{Sections, Ticks};

use super::Instrument;
use crate::ground::{Platform, Tick};

/// Nothing rests on it.
pub(super) const IS_ESSENTIAL: bool = false;

struct Counter(u64);

/// Begins at zero.
///
/// # Errors
/// None.
pub(super) fn start(_: &mut Platform) -> anyhow::Result<Box<dyn Instrument>> {
    Ok(Box::new(Counter(0)))
}

impl Instrument for Counter {
    fn collect(&mut self, _: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        self.0 += 1;
        sections.ticks = Some(Ticks { count: self.0 });
        Ok(())
    }
}
