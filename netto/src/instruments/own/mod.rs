//! What the daemon itself costs. It is asked last, so that it sees all of the interval's analysis.

use metrics_common::{OwnCost, Sections};

use super::Instrument;
use crate::ground::{Ground, Tick};
use crate::kernel::system;

/// It can do nothing that fails.
pub(super) const IS_ESSENTIAL: bool = false;

/// CPU time in user mode and in the kernel, when last looked at.
struct Process {
    previous_ns: (u64, u64),
}

/// Begins with what the process has used so far.
///
/// # Errors
/// None.
pub(super) fn start(_: &mut Ground) -> anyhow::Result<Box<dyn Instrument>> {
    Ok(Box::new(Process {
        previous_ns: system::own_cpu_ns(),
    }))
}

impl Instrument for Process {
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        let now_ns = system::own_cpu_ns();
        sections.own = Some(OwnCost {
            user_ns: now_ns.0.saturating_sub(self.previous_ns.0),
            system_ns: now_ns.1.saturating_sub(self.previous_ns.1),
            resident_bytes: system::own_resident_bytes(),
            analysis_ns: system::monotonic_ns().saturating_sub(tick.now_ns),
            ..OwnCost::default()
        });
        self.previous_ns = now_ns;
        Ok(())
    }
}
