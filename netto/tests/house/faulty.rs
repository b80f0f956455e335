//! A feature that begins well and fails; the daemon goes on without it.

use metrics_common::Sections;
use netto_feature::instruments::{Feature, Instrument};
use netto_platform::Tick;

/// See the head of this file.
pub const FEATURE: Feature = Feature::new("faulty", |_, _| Ok(Box::new(Faulty { ticks_left: 3 })));

/// Why it fails.
pub const CAUSE: &str = "its third tick was too much for it";

struct Faulty {
    ticks_left: u32,
}

impl Instrument for Faulty {
    fn collect(&mut self, _: &mut Tick<'_>, _: &mut Sections) -> anyhow::Result<()> {
        self.ticks_left -= 1;
        anyhow::ensure!(self.ticks_left > 0, CAUSE);
        Ok(())
    }
}
