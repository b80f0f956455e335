//! The modes of the made-up host. Pure.

use metrics_common::{CpuModes, Modes};
use netto_feature::demo::Generator;

/// Copies the modes of the CPUs, and their sum.
pub fn generator() -> Generator {
    Box::new(|interval, sections| {
        let cpus = interval.work.modes.clone();
        let mut host = [0_u64; CpuModes::NAMES.len()];
        for modes in &cpus {
            for (sum, ns) in host.iter_mut().zip(modes.values()) {
                *sum += ns;
            }
        }
        sections.modes = Some(Modes {
            cpus,
            host: CpuModes::from_values(host),
        });
    })
}
