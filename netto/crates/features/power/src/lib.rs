//! Networking's power: RAPL's energy, by networking's share of busy CPU time.

use metrics_common::Sections;
use metrics_common::component::index_of;

use self::analysis::Energy;
use netto_feature::instruments::{Entry, Instrument};
use netto_pipeline::options::FeatureOptions;
use netto_platform::{Ground, Tick};

mod analysis;
mod kernel;

/// Most virtual machines have no RAPL.
pub const ENTRY: Entry = Entry::new("power", start);

struct Rapl(Energy);

/// Begins with what the counters say now.
///
/// # Errors
/// If there are none, or they may not be read.
fn start(ground: &mut Ground, _: &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>> {
    let zones = kernel::zones(&ground.roots)?;
    let mut energy = Energy::default();
    energy.advance(&zones, 0, 0, 0);
    Ok(Box::new(Rapl(energy)))
}

impl Instrument for Rapl {
    /// Counters that cannot be read now are read at a later interval.
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        let network = index_of("network");
        let cost = sections.cost.as_ref().zip(network);
        let network_ns = cost.and_then(|(cost, row)| cost.total_ns(row)).unwrap_or(0);
        let busy_ns = sections
            .modes
            .as_ref()
            .map_or(0, |modes| modes.host.busy_ns());
        if let Ok(zones) = kernel::zones(&tick.ground.roots) {
            sections.power = self
                .0
                .advance(&zones, tick.interval_ns, network_ns, busy_ns);
        }
        Ok(())
    }
}
